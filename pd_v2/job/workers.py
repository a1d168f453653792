"""`pd-v2 --workers N`: start mpiexec, which starts this Python on N processes."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

_HINT = "  hint: pip install 'pd[cluster]' installs mpi4py, and Open MPI with its mpiexec"
# How long Open MPI's mpiexec waits for processes that it has sent a SIGTERM, in seconds
_SECONDS_TO_SAVE = "60"


def start(workers, arguments):
    """Become `mpiexec -n workers python -m pd_v2 arguments…`; ValueError if that cannot be.

    This process is replaced, so that signals, input and exit status are those of mpiexec.
    """
    command, environment = prepared(workers, arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)  # noqa: S606  no shell


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
