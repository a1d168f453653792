"""Trials in one process: each mutant is read, and what came of it is one line of JSON.

    python -m tests.campaign.fuzz.worker FORMAT SEED TRIAL

shows one trial again, with the traceback, and keeps the folder of its files.
"""

import hashlib
import json
import os
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pd_v2.dataset import common

from ..plan import Plan
from .formats import FORMATS
from .mutators import mutated

LIMIT = 1 << 30  # bytes that reading one file may add to the process


def digest(value: Any) -> bytes:
    """Return a sum of a value that was read: arrays by their bytes, containers by their items."""
    sums = hashlib.blake2b(digest_size=16)
    _add(sums.update, value)
    return sums.digest()


def _add(update, value):
    update(type(value).__name__.encode())
    if isinstance(value, (list, tuple)):
        for item in value:
            _add(update, item)
    elif isinstance(value, dict):
        for key in value:
            _add(update, key)
            _add(update, value[key])
    elif isinstance(value, (np.ndarray, np.generic)):
        update(f"{value.dtype} {value.shape}".encode())
        update(np.ascontiguousarray(value).tobytes() if value.dtype != object else b"")
        if value.dtype == object:
            _add(update, value.tolist())
    elif isinstance(value, (str, bytes, int, float, bool, type(None))):
        update(repr(value).encode())
    elif hasattr(value, "__dict__"):
        _add(update, vars(value))
    else:
        update(repr(value).encode())


class Trials:
    """The trials of one format in a folder of their own."""

    def __init__(self, name: str, plan: Plan, folder: Path):
        self.name, self.plan, self.format = name, plan, FORMATS[name]
        self.home = folder / "files"
        common.DATA_HOME = str(self.home)
        self.format.write(self.home)
        self.files = sorted(p for p in self.home.glob(self.format.pattern) if p.is_file())
        self.made = {p for p in self.home.rglob("*") if p.is_file()}
        self.digests: dict[Path, bytes] = {}

    def run(self, number: int) -> tuple[str, str]:
        """Return the outcome of a trial and a text about it."""
        rng = self.plan.rng(self.name, str(number))
        path = self.files[rng.integers(len(self.files))]
        content = path.read_bytes()
        mutant, is_repacked = mutated(rng, content)
        try:
            path.write_bytes(content)
            if path not in self.digests:
                self.digests[path] = self._digest()
            path.write_bytes(mutant)
            outcome, text = self._read(path, is_repacked)
        finally:
            path.write_bytes(content)
            for other in self.home.rglob("*"):
                if other.is_file() and other not in self.made:
                    other.unlink()
        return outcome, text

    def _digest(self):
        """The sum of what is read unchanged; of the error, for what is not taken as it is."""
        try:
            return digest(self.format.read(self.home))
        except self.format.errors as error:
            return digest(str(error))

    def _read(self, path, is_repacked):
        before = _peak()
        try:
            value = self.format.read(self.home)
        except MemoryError as error:
            return "memory", f"MemoryError {error}"
        except self.format.errors as error:
            if self.format.named and str(self.home) not in str(error):
                return "wrong error", f"names no file: {type(error).__name__}: {error}"[:300]
            return "clear error", ""
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename}:{last.lineno}"
            return "wrong error", f"{type(error).__name__} at {where}: {error}"[:300]
        if _peak() - before > LIMIT:
            return "memory", f"{(_peak() - before) >> 20} MB more"
        if digest(value) == self.digests[path]:
            return "same result", ""
        if self.format.checked and not is_repacked:
            return "silent difference", path.name
        return "other result", ""


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Answer the lines of the standard input, `{"format": …, "seed": …, "trials": [a, b]}`."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    os.environ["PD_DATASET_CHECK"] = "0"
    for line in sys.stdin:
        job = json.loads(line)
        with tempfile.TemporaryDirectory(prefix="pd-fuzz-") as folder:
            try:
                trials = Trials(job["format"], Plan(job["seed"]), Path(folder))
                for number in range(*job["trials"]):
                    answers.write(json.dumps([number, *trials.run(number)]) + "\n")
            except Exception:  # of the campaign itself
                answers.write(json.dumps([-1, "", traceback.format_exc()]) + "\n")


def again(name: str, seed: int, number: int) -> None:
    """Run one trial with its traceback."""
    os.environ["PD_DATASET_CHECK"] = "0"
    folder = Path(tempfile.mkdtemp(prefix="pd-fuzz-"))
    trials = Trials(name, Plan(seed), folder)
    rng = trials.plan.rng(name, str(number))
    path = trials.files[rng.integers(len(trials.files))]
    mutant, is_repacked = mutated(rng, path.read_bytes())
    path.write_bytes(mutant)
    print(f"{path}, {'packed again' if is_repacked else 'bytes changed'}")
    print(trials.format.read(trials.home))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        again(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
