"""The contenders of a workload, each in a process of its own that the parent drives."""

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORES = 2
LIMIT_SECONDS = 300  # for an answer: compiling, or a block of steps


@dataclass(frozen=True)
class Side:
    """A framework to measure: the module that is imported first, the function of the workload."""

    name: str
    module: str
    function: str


OURS = Side("pd", "pd_v2", "ours")
EAGER = Side("PyTorch", "torch", "pytorch")
COMPILED = Side("PyTorch, compiled", "torch", "compiled")
JAX = Side("JAX", "jax", "jax")
SIDES = (OURS, EAGER, COMPILED, JAX)


class Failed(Exception):
    """What went wrong in a contender's process, in one line."""


def bind_to_cores():
    """Bind this process and its children to two cores, so that each has two threads."""
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    os.environ.update(dict.fromkeys(threads, str(CORES)))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


class Process:
    """The process of a contender: `with Process(side, path) as process`."""

    def __init__(self, side, path):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed in __exit__
        arguments = [str(path), side.module, side.function]
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.child", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={
                **os.environ,
                "JAX_PLATFORMS": "cpu",
                "PD_DATASET_CHECK": "0",
                "PD_DATASET_HOME": str(ROOT / "demos" / "data"),
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            },
        )

    def send(self, message):
        """Send a message; Failed if the process has ended."""
        try:
            pickle.dump(message, self._child.stdin, protocol=5)
            self._child.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None

    def receive(self, limit_seconds=LIMIT_SECONDS):
        """Return the next answer.

        Failed with the error if there was one, if the process ended, or if it took too long.
        """
        late = threading.Event()

        def stop():
            late.set()
            self._child.kill()

        timer = threading.Timer(limit_seconds, stop)
        timer.start()
        try:
            answer = pickle.load(self._child.stdout)
        except (EOFError, pickle.UnpicklingError):
            if late.is_set():
                raise Failed(f"took more than {limit_seconds:g} s") from None
            raise Failed(self._last_words()) from None
        finally:
            timer.cancel()
        if isinstance(answer, Exception):
            raise Failed(str(answer))
        return answer

    def ask(self, message):
        """Send a message and return the answer to it."""
        self.send(message)
        return self.receive()

    def _last_words(self):
        code = self._child.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with status {code}" + (f": {lines[-1]}" if lines else "")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._child.kill()
        self._child.wait()
        self._child.stdin.close()
        self._child.stdout.close()
        self._errors.close()
