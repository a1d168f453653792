"""Messages between the ranks that need rows of a sharded table and the ranks that own them."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .buffers import fill
from .rows import RowPair, join_rows
from .world import World, as_bytes


class Route:
    """The way of distinct row numbers `ids` [K] of this rank to their owners, and back.

    Row `id` is owned by the rank id % ranks. `sent` counts what travels to other ranks.
    """

    def __init__(self, world: World, ids: np.ndarray, what: str, sent: Counter[str]):
        self.world, self.what, self.sent = world, what, sent
        owners = ids % world.size
        self.order = np.argsort(owners, kind="stable")
        self.counts = np.bincount(owners, minlength=world.size)
        self.foreign = len(ids) - int(self.counts[world.rank])
        self.asked = self._exchanged_counts()
        self.ids = self._to_owners(ids, "ids")

    def forth(self, values: np.ndarray, kind: str) -> list[np.ndarray]:
        """Send a row of values [K, ...] for each id to its owner; return those sent here, by rank.

        Those that the rank r sent are in the order of its `ids[r]`.
        """
        return self._to_owners(values, kind)

    def back(self, values: np.ndarray, kind: str) -> np.ndarray:
        """Send rows of values for the ids of all ranks, in their order; return those of this one.

        They are in the order of the ids [K].
        """
        total = int(self.asked.sum()) - int(self.asked[self.world.rank])
        self._count(kind, total, values)
        parts = self._send(values, self.asked, self.counts)
        returned = np.empty((len(self.order), *values.shape[1:]), values.dtype)
        returned[self.order] = parts
        return returned

    def _to_owners(self, values, kind):
        self._count(kind, self.foreign, values)
        received = self._send(values[self.order], self.counts, self.asked)
        bounds = itertools.pairwise([0, *np.cumsum(self.asked).tolist()])
        return [received[a:b] for a, b in bounds]

    def _exchanged_counts(self):
        """The numbers of rows that the other ranks ask this one for."""
        world, asked = self.world, np.array(self.counts)
        if world.size > 1:
            sent, received = as_bytes(np.array(self.counts)), as_bytes(asked)
            world.wait(world.comm.Ialltoall(sent, received), self.what, (sent, received))
        return asked

    def _send(self, values, counts, asked):
        """Send `counts[r]` rows of values to each rank r; return the rows that others sent."""
        world = self.world
        if world.size == 1:
            return values
        values = np.ascontiguousarray(values)
        received = np.empty((int(asked.sum()), *values.shape[1:]), values.dtype)
        row_bytes = int(np.prod(values.shape[1:], dtype=np.int64)) * values.itemsize
        messages = [
            _message(world, array, sizes, row_bytes)
            for array, sizes in ((values, counts), (received, asked))
        ]
        world.wait(world.comm.Ialltoallv(*messages), self.what, (values, received))
        return received

    def _count(self, kind, rows, values):
        self.sent[kind] += rows
        self.sent["bytes"] += rows * values[:1].nbytes if len(values) else 0


def _message(world, array, sizes, row_bytes) -> list[Any]:
    counts = [int(n) * row_bytes for n in sizes]
    places = [0, *itertools.accumulate(counts)][:-1]
    return [as_bytes(array), counts, places, world.mpi.BYTE]


def sum_at_owners(
    world: World,
    pair: RowPair,
    factor: float,
    wire: Any,
    what: str,
    sent: Counter[str],
    join: Callable[[list[RowPair]], Any] = join_rows,
) -> Any:
    """Return the sum over the ranks of `factor` times row-sparse gradients, of the rows owned here.

    `pair` has distinct row numbers of the whole table; those of the result are ascending, too.
    Values that several ranks have for one row are added in the order of the ranks. `wire` is the
    dtype of messages, None for that of the values; `join` makes the result of what the ranks have
    sent, in their order.
    """
    rows, values = pair
    scaled = np.empty(values.shape, values.dtype)
    fill(scaled, values, factor)
    if wire is not None:
        with np.errstate(over="ignore"):  # infinities are the caller's to see
            scaled = scaled.astype(wire)
    route = Route(world, np.asarray(rows, np.int64), what, sent)
    parts = zip(route.ids, route.forth(scaled, "gradients"), strict=True)
    return join([(r, v.astype(values.dtype, copy=False)) for r, v in parts])
