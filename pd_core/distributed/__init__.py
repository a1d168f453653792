"""Data-parallel training on MPI: each rank has a part of the data, all have the same parameters."""

# isort: skip_file
# fmt: off
from .collectives import (
    allgather, allreduce, average_parameters, broadcast, compare, no_sync, restore, set_batch_size,
    state,
)
from .device import DeviceExchange, use_device_exchange
from .empty import empty_step
from .process import (
    barrier, init, is_initialized, is_launched, local_steps, rank, reduction, shutdown, world_size,
)
from .table import ShardedTable

__all__ = [
    "DeviceExchange", "ShardedTable", "allgather", "allreduce", "average_parameters", "barrier",
    "broadcast", "compare", "empty_step", "init", "is_initialized", "is_launched", "local_steps",
    "no_sync", "rank", "reduction", "restore", "set_batch_size", "shutdown", "state",
    "use_device_exchange", "world_size",
]
