"""MPI jobs of tests: this Python on several ranks of this machine."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Open MPI's own options: more ranks than cores, in containers, without other machines
OWN = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_btl": "self,sm,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
}
FAULT_TOLERANT = "--with-ft", "ulfm"  # the others go on after a rank is killed
# Seconds for a job that hangs against all expectation: more than ranks wait for each other before
# they say who is missing, and enough for a machine that is busy with much else
LIMIT = 1200


def mpiexec():
    """The command that starts a job; skips the test where there is none."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install '.[cluster]'")
    command = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if command is None:
        pytest.skip("there is no mpiexec here: pip install '.[cluster]'")
    return command


def run(ranks, *arguments, check=True, options=()):
    """Run Python with these arguments on so many ranks; return the finished process.

    `options` are those of mpiexec, such as FAULT_TOLERANT. The job has a folder for temporary files
    of its own: in a common one jobs of Open MPI that end remove what others are about to use.
    """
    command = [sys.executable, *map(str, arguments)]
    if ranks > 1:
        command = [mpiexec(), *options, "-n", str(ranks), *command]
    with tempfile.TemporaryDirectory(prefix="pd-", ignore_cleanup_errors=True) as folder:
        own = os.environ | OWN | {"TMPDIR": folder}
        job = subprocess.run(
            command, env=own, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
        )
    assert job.returncode == 0 or not check, job.stderr
    return job
