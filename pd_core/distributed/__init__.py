"""Data-parallel training on MPI: each rank has a part of the data, all have the same parameters."""

# isort: skip_file
# fmt: off
from .collectives import allgather, allreduce, broadcast, compare, no_sync, set_batch_size
from .device import DeviceExchange, use_device_exchange
from .empty import empty_step
from .process import (
    barrier, init, is_initialized, is_launched, rank, reduction, shutdown, world_size,
)
from .table import ShardedTable

__all__ = [
    "DeviceExchange", "ShardedTable", "allgather", "allreduce", "barrier", "broadcast", "compare",
    "empty_step", "init", "is_initialized", "is_launched", "no_sync", "rank", "reduction",
    "set_batch_size", "shutdown", "use_device_exchange", "world_size",
]
