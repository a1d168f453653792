"""kill -9 at random moments of every writer: the old or the new version is found, whole.

A child is forked that writes one version after another, and says when it has; it is killed in the
middle. What is found then is the last version that it said, or the one that it was writing.
"""

import os
import select
import signal
import struct
import tempfile
import time
import traceback
from pathlib import Path

from .plan import Plan, Row
from .writers import WRITERS, Torn, Writer

KILLS = 120  # of a writer, in the long form
SECONDS = 20.0  # for the first version to be written
_NUMBER = struct.Struct("<q")


def run(plan: Plan) -> list[Row]:
    """Kill every writer; a row for each."""
    return [_killed(name, plan) for name in WRITERS]


def _killed(name, plan):
    row, rng = Row("kills", name), plan.rng("kills", name)
    with tempfile.TemporaryDirectory(prefix="pd-kills-") as home:
        folder, version, seconds = Path(home), 1, 0.0
        for number in range(plan.count(6, KILLS)):
            wait = seconds * float(rng.random()) * 2
            said, seconds = _killed_once(WRITERS[name], folder, version, wait)
            outcome, text = check(WRITERS[name], folder, said, said + 1)
            row.add(outcome, f"kill {number} of seed {plan.seed}: {text}")
            if outcome in ("lost", "torn"):
                break
            version = said + 2 if outcome == "new" else said + 1
        row.add(*_left(WRITERS[name], folder, version))
    return row


def _killed_once(writer, folder, version, wait):
    """Kill a child `wait` seconds after it has written a version; return the last that it said.

    Also the seconds that a version took.
    """
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            while True:
                writer.write(folder, version)
                os.write(mouth, _NUMBER.pack(version))
                version += 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(mouth)
    try:
        start = time.monotonic()
        if not select.select([ear], [], [], SECONDS)[0]:
            raise TimeoutError(f"the first version was not written within {SECONDS} s")
        seconds = time.monotonic() - start
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        heard = b"".join(iter(lambda: os.read(ear, 1 << 16), b""))
        if not heard:
            raise RuntimeError("the writer failed, see above")
        return _NUMBER.unpack(heard[-_NUMBER.size :])[0], min(seconds, 0.05)
    finally:
        os.close(ear)


def check(writer: Writer, folder: Path, old: int, new: int) -> tuple[str, str]:
    """Return which of two versions is found, "old" or "new", or what is wrong and a text."""
    try:
        found = writer.read(folder)
    except FileNotFoundError as error:
        return "lost", f"nothing is there: {error}"
    except Torn as error:
        return "torn", str(error)
    except Exception as error:
        return "torn", f"{type(error).__name__}: {error}"
    if found in (old, new):
        return ("old" if found == old else "new"), ""
    return "lost", f"version {found} is there in place of {old} or {new}"


def _left(writer, folder, version):
    """Write once more: then no temporary file is left of those that were killed."""
    child = os.fork()
    if child == 0:
        try:
            writer.write(folder, version)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    left = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    if status or left:
        return "failed", f"after the kills a write ended with {status}, {left} are left"
    return "clean", ""
