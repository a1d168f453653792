"""Heartbeats: how far each rank has come, in files that whoever started the job looks at.

A thread sends them, so that a step costs nothing; what they say comes from the training: how often
the rank has met the others, and how many evaluations it has made. A rank that is stopped sends
none, one that hangs sends the same again and again, and a slow one sends others after each step.
"""

import json
import os
import platform
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..run.freeing import count_evaluations

PD_HEARTBEAT = "PD_HEARTBEAT"  # SECONDS:FOLDER, set by the launcher
_PREFIX = "rank-"
# Those of Python, also where programs are given others, which write to files of this rank alone
_open, _replace, _unlink = open, os.replace, os.unlink


class Heartbeat:
    """The heartbeats of this rank, in a file of a folder, every so many seconds until `close`."""

    def __init__(self, world: Any, folder: str | os.PathLike, seconds: float):
        self.world, self.seconds = world, seconds
        self.path = Path(folder) / f"{_PREFIX}{world.id}"
        self._new = self.path.with_name(f".{self.path.name}")
        self.beats, self.size = 0, world.size  # of the job when it began
        self._closed = threading.Event()
        self.beat()
        self._thread = threading.Thread(target=self._work, name="pd.heartbeat", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Write how far this rank has come; a folder that is gone is nobody's concern."""
        self.beats += 1
        content = {
            "rank": self.world.id,
            "size": self.size,
            "host": platform.node(),
            "pid": os.getpid(),
            "beats": self.beats,
            "met": self.world.met,
            "evaluations": count_evaluations(),
        }
        with suppress(OSError):
            with _open(self._new, "w", encoding="utf-8") as file:
                file.write(json.dumps(content))
            _replace(self._new, self.path)  # whoever reads it sees a whole one

    def close(self) -> None:
        """Send none any more."""
        self._closed.set()
        self._thread.join()
        with suppress(OSError):
            _unlink(self.path)

    def _work(self):
        while not self._closed.wait(self.seconds):
            self.beat()


def heartbeat_of(world: Any, setting: str | None) -> Heartbeat | None:
    """Return the heartbeats that a launcher has asked for; None if it has not.

    ValueError if the setting is not SECONDS:FOLDER.
    """
    if not setting:
        return None
    seconds, _, folder = setting.partition(":")
    try:
        pause = float(seconds)
    except ValueError:
        pause = 0.0
    if not (pause > 0.0 and folder):
        raise ValueError(f"init: {PD_HEARTBEAT} is SECONDS:FOLDER, not {setting!r}")
    return Heartbeat(world, folder, pause)


def read_heartbeats(folder: str | os.PathLike) -> dict[int, dict[str, Any] | None]:
    """Return the newest heartbeats in a folder by rank; None for one that cannot be read just now.

    Ranks that have left the job have none.
    """
    found: dict[int, dict[str, Any] | None] = {}
    for path in Path(folder).glob(f"{_PREFIX}*"):
        rank = path.name.removeprefix(_PREFIX)
        if rank.isdecimal():
            found[int(rank)] = None
            with suppress(OSError, ValueError):
                found[int(rank)] = json.loads(path.read_text(encoding="utf-8"))
    return found
