"""Row-sparse gradients of all ranks, joined in a fixed order."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .buffers import WHAT, fill
from .world import World, as_bytes

RowPair = tuple[np.ndarray, np.ndarray]  # (rows int64 [K], values [K, ...])


def gather_rows(
    world: World, pairs: Sequence[RowPair], factor: float = 1.0, wires: Sequence[Any] = ()
) -> list[RowPair]:
    """Return the sums over all ranks of `factor` times row-sparse gradients.

    Their rows are distinct and ascending. Values that several ranks have for one row are added in
    the order of the ranks. `wires` are the dtypes of messages, None for that of the values.
    """
    if not pairs:
        return []
    counts = world.gather(np.array([len(rows) for rows, _ in pairs], np.int64), WHAT)
    summed = []
    for k, (rows, values) in enumerate(pairs):
        scaled = np.empty(values.shape, values.dtype)
        fill(scaled, values, factor)
        wire = (wires[k] if wires else None) or values.dtype
        sizes = counts[:, k].tolist()
        every_row = _gather(world, np.asarray(rows, np.int64), sizes)
        every_value = _gather(world, scaled.astype(wire, copy=False), sizes)
        parts = zip(every_row, every_value, strict=True)
        summed.append(join_rows([(r, v.astype(values.dtype, copy=False)) for r, v in parts]))
    return summed


def send_rows(world: World, pair: RowPair) -> list[RowPair]:
    """Return the rows and values of all ranks, in their order."""
    rows, values = np.asarray(pair[0], np.int64), pair[1]
    sizes = world.gather(np.array([len(rows)], np.int64), WHAT)[:, 0].tolist()
    every = _gather(world, rows, sizes), _gather(world, values, sizes)
    return list(zip(*every, strict=True))


def join_rows(parts: Sequence[RowPair]) -> RowPair:
    """Return the sum of row-sparse gradients, added in their order."""
    every = np.concatenate([rows for rows, _ in parts])
    values = np.concatenate([values for _, values in parts])
    distinct, place = np.unique(every, return_inverse=True)
    total = np.zeros((len(distinct), *values.shape[1:]), values.dtype)
    np.add.at(total, place, values)
    return distinct, total


def _gather(world, array, sizes):
    """The arrays [K, ...] of all ranks, of the lengths `sizes`."""
    if world.size == 1:
        return [array]
    array = np.ascontiguousarray(array)
    every = np.empty((sum(sizes), *array.shape[1:]), array.dtype)
    row_bytes = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
    places = np.cumsum([0, *sizes])
    counts = [n * row_bytes for n in sizes]
    starts = [int(p) * row_bytes for p in places[:-1]]
    sent, received = as_bytes(array), as_bytes(every)
    request = world.comm.Iallgatherv(sent, [received, counts, starts, world.mpi.BYTE])
    world.wait(request, WHAT, (sent, received))
    return [every[a:b] for a, b in itertools.pairwise(places)]
