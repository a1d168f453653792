"""Trials in processes of their own, which may end: the trial they were at is then a defect."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

from .trials import trials
from .verdict import verdict

SECONDS = 60  # for a trial, after which it hangs
_START = 300  # for a process to import what it needs, on a busy machine
_READY = "ready"
_SPAWN = multiprocessing.get_context("spawn")


def outcomes(numbers, workers=2, judge=verdict):
    """{number: (outcome, text)} of these trials of `trials()`."""
    numbers = list(numbers)
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda k: _part(numbers[k::workers], judge), range(workers))
    return dict(pair for part in parts for pair in part)


def _part(numbers, judge):
    found, worker = [], None
    for n in numbers:
        worker = worker or _Worker(judge)
        result = worker.ask(n)
        found.append((n, result))
        if result[0] in ("crash", "hang"):
            worker.end()
            worker = None
    if worker:
        worker.end()
    return found


class _Worker:
    """A process that is asked for one trial after the other."""

    def __init__(self, judge):
        self.pipe, other = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(other, judge), daemon=True)
        self.process.start()
        other.close()
        if not self.pipe.poll(_START) or self.pipe.recv() != _READY:
            raise RuntimeError("a process for trials does not start")

    def ask(self, number):
        """(outcome, text) of a trial."""
        try:
            self.pipe.send(number)
            if not self.pipe.poll(SECONDS):
                return "hang", f"after {SECONDS} s"
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return "crash", f"exit code {self.process.exitcode}"

    def end(self):
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(pipe, judge):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the runtime's own messages
    every = trials()
    pipe.send(_READY)
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(every[number]))
