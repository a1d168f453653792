"""Trainings where something is lacking: room, rights, a home, a locale, memory, cores, handles.

Each is a process of `small_training`. It ends well, or with an error whose last line says what was
lacking; no file that it wrote is torn, and it never crashes or hangs.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from pd_core.storage.tensors import read_tensors
from pd_core.training.checkpoint import newest_checkpoint
from pd_v2.parameters import Parameters

from .plan import Plan, Row

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).parent / "small_training.py"
SECONDS = 120.0
KB, MB = 1 << 10, 1 << 20
# The last lines of errors that say what was lacking; Python's own among them.
SAID = (
    "OSError: ", "FileNotFoundError: ", "PermissionError: ", "NotADirectoryError: ",
    "BlockingIOError: ", "MemoryError", "RuntimeError: can't start new thread", "ImportError: ",
    "UnicodeEncodeError: ", "pd_core.graph.errors.BackendError: ", "numpy._core._exceptions.",
    "Cannot allocate memory", "OpenBLAS error: Memory allocation",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """What is changed for the process: limits, environment, streams, the name of the folder."""

    limits: Mapping[int, int] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)  # None: not there
    folder: str = "files"
    prepare: Callable[[], None] | None = None  # in the process, before it begins
    stdout: str | None = None  # a path
    ends_well: bool = False  # it must


def _one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _closed(*numbers):
    def close():
        for number in numbers:
            os.close(number)

    return close


def _room(size):
    return Place(limits={resource.RLIMIT_FSIZE: size})


def _memory(megabytes):
    return Place(limits={resource.RLIMIT_AS: megabytes * MB})


PLACES = {
    "as it is": Place(ends_well=True),
    "no room for files": _room(0),
    **{f"room for files of {n} KB": _room(n * KB) for n in (1, 4, 8, 12, 16, 24, 40, 60)},
    "a folder that cannot be made": Place(folder="/proc/none/files"),
    "a folder that is a file": Place(folder="file/files"),
    "no HOME": Place(environment={"HOME": None}, ends_well=True),
    "a HOME that is not there": Place(environment={"HOME": "/none"}, ends_well=True),
    "a HOME that takes no files": Place(environment={"HOME": "/proc"}, ends_well=True),
    "locale C": Place(environment={"LC_ALL": "C"}, ends_well=True),
    "locale POSIX": Place(environment={"LC_ALL": "POSIX", "LANG": None}, ends_well=True),
    "a locale that is not there": Place(environment={"LC_ALL": "xx_YY.UTF-8"}, ends_well=True),
    "Turkish": Place(environment={"LC_ALL": "tr_TR.UTF-8"}, ends_well=True),
    "ASCII, a name in UTF-8": Place(
        environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        folder="größe 大",
        ends_well=True,
    ),
    "output in ASCII": Place(environment={"PYTHONIOENCODING": "ascii"}, folder="größe"),
    **{f"{n} MB of addresses": _memory(n) for n in (80, 120, 160, 200, 240, 280, 320, 400)},
    "one core": Place(prepare=_one_core, ends_well=True),
    "a stack of 256 KB": Place(limits={resource.RLIMIT_STACK: 256 * KB}),
    **{f"{n} file handles": Place(limits={resource.RLIMIT_NOFILE: n}) for n in (8, 16, 32, 64)},
    "no standard input": Place(prepare=_closed(0), ends_well=True),
    "no standard output": Place(prepare=_closed(1)),
    "no standard streams": Place(prepare=_closed(0, 1, 2)),
    "an output that is full": Place(stdout="/dev/full"),
}
QUICK = ("room for files of 16 KB", "no HOME", "240 MB of addresses", "32 file handles")


def run(plan: Plan) -> list[Row]:
    """Train in every place; a row for each."""
    return [tried(name, PLACES[name]) for name in (QUICK if plan.quick else PLACES)]


def tried(name: str, place: Place, program: Path = PROGRAM) -> Row:
    """Train in a place; return its row."""
    row = Row("places", name)
    with tempfile.TemporaryDirectory(prefix="pd-places-") as home:
        (Path(home) / "file").write_text("")
        folder = Path(home) / place.folder
        if folder.parent == Path(home):
            folder.mkdir()
        row.add(*_outcome(place, folder, program))
        for what in _torn(folder):
            row.add("torn", what)
    return row


def _outcome(place, folder, program):
    changed = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **place.environment}
    environment = {k: v for k, v in {**os.environ, **changed}.items() if v is not None}

    def prepare():
        for which, value in place.limits.items():
            resource.setrlimit(which, (value, value))
        if place.prepare:
            place.prepare()

    with open(place.stdout or os.devnull, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, program, folder],
            env=environment,
            stdout=out,
            stderr=subprocess.PIPE,
            preexec_fn=prepare,
            cwd=ROOT,
        )
        try:
            _, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "hang", f"after {SECONDS:.0f} s"
    code, text = process.returncode, errors.decode(errors="replace").strip()
    last = text.splitlines()[-1] if text else ""
    if code == 0:
        return "ended well", ""
    if code < 0:
        return "crash", f"{signal.Signals(-code).name}: {text[-300:]}"
    if not place.ends_well and (not last or any(said in last for said in SAID)):
        return "clear error", ""
    return "wrong error", text[-500:]


def _torn(folder):
    """Yield what is there and cannot be read."""
    readers = {
        "p.safetensors": read_tensors,
        "m.onnx": lambda path: onnx.checker.check_model(onnx.load(path)),
        "p.tar": Parameters.from_tar,
        "saved": newest_checkpoint,
    }
    for name, read in readers.items():
        path = folder / name
        try:
            if path.exists():
                read(path)
        except OSError:
            continue
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"
