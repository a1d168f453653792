"""How a process joins an MPI job before its program runs."""

import os
import sys
from dataclasses import dataclass

import pd_core as pd
from pd_core.training.generators import generators_state, set_generators
from pd_core.training.ranks import job, on_first

from ..reader.threads import keep_order
from .output import HiddenOutput
from .private_files import PrivateFiles, tolerate_folders

_HASH_SEED = "PYTHONHASHSEED"


@dataclass
class _Process:
    is_joined: bool = False
    output: HiddenOutput | None = None
    files: PrivateFiles | None = None


_process = _Process()


def is_joined():
    """Return whether the launcher has joined a job of several processes."""
    return _process.is_joined


def share_hash_seed():
    """Start this Python again, if its strings have hashes of their own.

    With the same hashes sets, and what programs derive from them, have the same order on all ranks.
    """
    if pd.distributed.is_launched() and _HASH_SEED not in os.environ:
        os.environ[_HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  itself


def join(all_output=False, own_files=False, shared=(), **exchange):
    """Join the job that `mpiexec` has started, if it has.

    From then on trainers add up the gradients of all ranks. The program finds its place in the
    environment, as PADDLE_INIT_TRAINER_ID and PADDLE_INIT_NUM_GRADIENT_SERVERS. Python's and
    NumPy's global random generators begin in the states of rank 0. On the other ranks nothing is
    printed to stdout, unless `all_output`, and files that are written are private, unless
    `own_files` or they are in the folders `shared`. `exchange` are options of
    `pd.distributed.init`: how gradients travel, such as `compression`, or `local_steps`.
    """
    if not pd.distributed.is_launched():
        return
    pd.distributed.init(reduce="sum", **exchange)
    rank, ranks = pd.distributed.rank(), pd.distributed.world_size()
    if ranks == 1:
        return
    _process.is_joined = True
    os.environ["PADDLE_INIT_TRAINER_ID"] = str(rank)
    os.environ["PADDLE_INIT_NUM_GRADIENT_SERVERS"] = str(ranks)
    set_generators(on_first(job(), generators_state))
    keep_order()
    if rank and not all_output:
        _process.output = HiddenOutput()
    if rank and not own_files:
        _process.files = PrivateFiles(shared)
    elif not own_files:
        tolerate_folders()


def share_folder(folder):
    """Let all ranks write to the files of a folder, each to other ones."""
    if _process.files is not None:
        _process.files.share(folder)


def become_trainer():
    """Print and write as a process of its own from now on.

    The program is made for a cluster: its processes know that there are others.
    """
    output, files = _process.output, _process.files
    _process.output = _process.files = None
    if output is not None:
        output.show()
    if files is not None:
        files.stop()
