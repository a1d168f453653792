"""Workers under watch: one that dies or hangs is counted, and another goes on behind its trial."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DEADLINE = 10.0  # seconds for one trial
START = 120.0  # for the packages to be imported, and the files to be written
ROOT = Path(__file__).resolve().parents[3]


class Worker:
    """A process that runs trials, started again where it ends."""

    def __init__(self, program: list[str] | None = None):
        self.program = program or ["-m", "tests.campaign.fuzz.worker"]
        self.process: subprocess.Popen | None = None

    def trials(self, name: str, seed: int, count: int) -> Iterator[tuple[int, str, str]]:
        """Yield (number, outcome, text) of the trials of a format."""
        done = 0
        while done < count:
            self._ask({"format": name, "seed": seed, "trials": [done, count]})
            for answer in self._answers():
                if isinstance(answer, str):
                    yield done, answer, f"the worker: {self._end()}"
                    done += 1
                    break
                if answer[0] < 0:
                    raise RuntimeError(f"the trials of {name} are broken:\n{answer[2]}")
                yield tuple(answer)
                done = answer[0] + 1
                if done == count:
                    return

    def close(self) -> None:
        """End the process."""
        self._end()

    def _ask(self, job):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, *self.program],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        self.process.stdin.write(json.dumps(job).encode() + b"\n")

    def _answers(self):
        """Yield answers, then "crash" or "hang" if there is no next one."""
        pending, limit = b"", START
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(limit):
                    yield "hang"
                    return
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    yield "crash"
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    yield json.loads(line)
                    limit = DEADLINE

    def _end(self):
        """Kill the process; return how it ended."""
        process, self.process = self.process, None
        if process is None:
            return ""
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        code = process.wait()
        process.stdin.close()
        process.stdout.close()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
