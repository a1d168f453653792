"""A job under supervision: run to its end, and started again from its newest checkpoint.

A job is a command that goes on from the newest checkpoint in its folder when it is run again. It
fails if a process of it is killed or ends with an error, or if it hangs, see `watch`.
"""

import ctypes
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass

from pd_core import DamagedFile
from pd_core.training import newest_checkpoint
from pd_core.training.checkpoint import has_writer

from ..program_name import print_error
from .watch import Watch

USAGE = 2  # the exit status after a mistake in the command line
_HUNG = 124  # as the command `timeout` has it
_NOT_STARTED = 255  # of ssh, and so of an mpiexec that has started nothing on another machine
_NO_END = "ended with exit status 0, but no rank of it has come to the end of the program"
_NEVER = 1e6  # seconds, which threads can wait
_PR_SET_PDEATHSIG = 1  # of Linux
_POLL_SECONDS = 0.1
_WRITER_SECONDS = 120.0  # for the processes of a job whose launcher was killed to end
_SAVED = "--checkpoint DIR saves what a job has trained, for --resume to go on from it"


@dataclass(frozen=True)
class Policy:
    """How often a job is started again, and when: `restarts` times at most.

    With `least` workers a job that fails again before it has written another checkpoint goes on
    with one worker less. `heartbeat` is how many seconds a job may take without any progress, None
    for any time; `checkpoint` is its folder, None if it has none. `is_local` says that all ranks
    run on this machine.
    """

    restarts: int = 0
    least: int | None = None
    heartbeat: float | None = None
    checkpoint: str | None = None
    is_local: bool = True


def supervise(prepared, line, workers, policy):
    """Run a job with so many workers, and again if it fails; return its exit status.

    `prepared(workers, is_again)` returns a command and its environment, `line(workers)` the text of
    the command that resumes, which is printed at the end of a job that failed. A signal to this
    process and a mistake in the command line are no failures.
    """
    restarts, end, before = policy.restarts, None, None
    for restart in range(restarts + 1):
        newest = _newest(policy)
        if restart:
            if policy.least is not None and newest == before and workers > policy.least:
                workers -= 1
            with_fewer = f" with {_count(workers)}" if policy.least is not None else ""
            text = f"the job {end}; restart {restart} of {restarts}{_from(policy, newest)}"
            print_error(text + with_fewer)
        _await_writer(policy.checkpoint)
        before = newest
        status, stopped, end = _run(*prepared(workers, restart > 0), policy)
        if stopped or status in (0, USAGE):
            break
    if status not in (0, USAGE):
        newest = _newest(policy)
        hint = f"{line(workers)}\n    goes on{_from(policy, newest)}"
        print_error(f"the job {end}\n  hint: {_SAVED if policy.checkpoint is None else hint}")
    return status


def _newest(policy):
    """The newest whole checkpoint, or None."""
    if policy.checkpoint is None:
        return None
    try:
        found = newest_checkpoint(policy.checkpoint)
    except DamagedFile as error:
        print_error(f"{error}")
        return None
    return None if found is None else found[0]


def _from(policy, newest):
    if policy.checkpoint is None:
        return ""
    return " from the beginning: there is no checkpoint" if newest is None else f" from {newest}"


def _count(workers):
    return f"{workers} worker{'' if workers == 1 else 's'}"


def _await_writer(folder):
    """Wait until no process of an earlier job writes to a folder, which it has locked."""
    if folder is None or not os.path.isdir(folder) or not has_writer(folder):
        return
    print_error(f"waits for another training that writes checkpoints to {folder}")
    end = time.monotonic() + _WRITER_SECONDS
    while has_writer(folder) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def _run(command, environment, policy):
    """Run a job with the input and output of this process.

    Return its exit status, 128 + n after signal n; the signal that this process got, or None; and
    how it ended, in words.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    running = []
    with _handed_on(running) as got, _watched(policy, environment) as watch:
        process = subprocess.Popen(  # noqa: S603  no shell
            command, env=environment, preexec_fn=_ends_with_parent()
        )
        running.append(process)
        for number in got:  # that came before
            process.send_signal(number)
        status = process.wait() if policy.heartbeat is None else _wait(process, watch)
        if status == 0 and watch is not None and watch.has_no_end():
            return 1, next(iter(got), None), _NO_END
    if watch is not None and watch.hung is not None:
        return _HUNG, next(iter(got), None), f"hung: {watch.hung}"
    status = 128 - status if status < 0 else status
    return status, next(iter(got), None), _ended(status)


def _ended(status):
    text = f"ended with exit status {status}"
    if status == _NOT_STARTED:
        return f"{text}: a machine may be down or have another name, see what mpiexec says above"
    if status - 128 in signal.valid_signals():
        return f"{text}: a process got signal {status - 128}"
    return text


@contextmanager
def _watched(policy, environment):
    """Ask the ranks of a job for heartbeats; the value is a Watch, or None if none is needed.

    Without a limit each rank sends one, when it joins a job of another launcher. It tells whether
    the rank has come to its end.
    """
    if policy.heartbeat is None and policy.is_local:
        yield None
        return
    place = None
    if policy.checkpoint is not None and not policy.is_local:
        os.makedirs(policy.checkpoint, exist_ok=True)
        place = policy.checkpoint  # which all machines see
    with tempfile.TemporaryDirectory(
        prefix=".pd-heartbeat-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        watch = Watch(folder, policy.heartbeat or math.inf)
        pause = _NEVER if policy.heartbeat is None else watch.pause
        environment["PD_HEARTBEAT"] = f"{pause:g}:{os.path.abspath(folder)}"
        yield watch


def _wait(process, watch):
    """Wait for the end of a job; one that hangs is killed."""
    while True:
        try:
            return process.wait(watch.pause)
        except subprocess.TimeoutExpired:
            if watch.look() is not None:
                watch.kill()
                try:
                    return process.wait(watch.limit)
                except subprocess.TimeoutExpired:
                    process.kill()


@contextmanager
def _handed_on(running):
    """Hand signals on to the processes of a list in a `with`, which gets a list of the signals."""
    got = []

    def hand_on(number, frame):
        got.append(number)
        for process in running if number != signal.SIGINT else ():  # a terminal sends it to both
            process.send_signal(number)

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, hand_on) for number in numbers}
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ends_with_parent():
    """Return what a child calls so that it gets a SIGTERM when this process is killed."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
