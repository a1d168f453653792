"""Flat buffers of gradients, and their reduction over the ranks in a fixed order."""

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .world import DATA_SECONDS, World, as_bytes

_ALIGNMENT = 64  # bytes, of each gradient in the buffer

WHAT = "the gradients of a training step"


class Buffer:
    """Arrays of one dtype in one piece of memory, summed over all ranks in buckets.

    Each rank gets its slice of a bucket from all others, adds them up in the order of the ranks,
    and sends the sum to all (a reduce-scatter and an allgather): the sums have the same bits on
    all ranks and in every run, which `MPI_Allreduce` does not promise. The messages of a bucket
    are under way while the next one is filled. `wire` is the dtype of messages: sums are made in
    the dtype of the arrays.
    """

    def __init__(
        self,
        world: World,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype,
        wire: np.dtype | None = None,
        bucket_bytes: int = 1 << 22,
    ):
        self.world, self.dtype = world, np.dtype(dtype)
        self.wire = self.dtype if wire is None else np.dtype(wire)
        starts, size = [], 0
        step = _ALIGNMENT // self.dtype.itemsize
        for shape in shapes:
            starts.append(size)
            size += -(-prod(shape) // step) * step
        self.sum = _aligned(size, self.dtype)
        self.sum[:] = 0  # the gaps between arrays too
        self.sent = self.sum if self.wire == self.dtype else _aligned(size, self.wire)
        self.received = np.empty(0, self.wire)
        self.views = [
            self.sum[a : a + prod(s)].reshape(s) for a, s in zip(starts, shapes, strict=True)
        ]
        self.ends = [*starts[1:], size]
        length = max(step, bucket_bytes // self.dtype.itemsize)
        self.buckets = [Bucket(self, a, min(a + length, size)) for a in range(0, size, length)]
        places = np.cumsum([0, *(b.received_size for b in self.buckets)])
        self.received = np.empty(int(places[-1]), self.wire)
        for b, place in zip(self.buckets, places, strict=False):
            b.received = self.received[place : place + b.received_size]

    def reduce(
        self, arrays: Sequence[np.ndarray], factor: float = 1.0, function: Any = np.add
    ) -> list[np.ndarray]:
        """Return the sums over all ranks of `factor` times the arrays, until the next call.

        `function` may be another ufunc, such as `np.maximum`. With the factor 0 the arrays do not
        count, not even NaN in them.
        """
        remaining = iter(self.buckets)
        bucket = next(remaining, None)
        for k, (array, end) in enumerate(zip(arrays, self.ends, strict=True)):
            self.fill(k, array, factor)
            while bucket is not None and bucket.stop <= end:
                bucket.scatter()
                bucket = next(remaining, None)
        for b in self.buckets:
            b.add(function)
        for b in self.buckets:
            b.finish()
        return self.views

    def fill(self, k: int, array: np.ndarray, factor: float) -> None:
        """Write `factor` times array `k` into the buffer."""
        fill(self.views[k], array, factor)


class Bucket:
    """The elements from `start` to `stop` of a buffer, a slice of which each rank adds up."""

    def __init__(self, buffer: Buffer, start: int, stop: int):
        self.buffer, self.start, self.stop = buffer, start, stop
        world, item = buffer.world, buffer.wire.itemsize
        bounds = [(stop - start) * r // world.size for r in range(world.size + 1)]
        self.mine = slice(start + bounds[world.rank], start + bounds[world.rank + 1])
        # the arrays that are in it, by number
        ranges = enumerate(zip([0, *buffer.ends], buffer.ends, strict=False))
        self.members = [k for k, (a, b) in ranges if a < stop and b > start]
        own = bounds[world.rank + 1] - bounds[world.rank]
        self.received_size = own * world.size
        # counts and places in bytes: MPI has no name for every dtype
        self.counts = [(b - a) * item for a, b in itertools.pairwise(bounds)]
        self.places = [a * item for a in bounds[:-1]]
        self.own_counts = [own * item] * world.size
        self.own_places = [r * own * item for r in range(world.size)]
        self.received = buffer.received
        self.request: Any = None

    def scatter(self) -> None:
        """Begin to send each rank its slice."""
        buffer, world = self.buffer, self.buffer.world
        whole = buffer.sent[self.start : self.stop]
        if buffer.sent is not buffer.sum:
            with np.errstate(over="ignore"):  # infinities are the caller's to see
                whole[:] = buffer.sum[self.start : self.stop]
        if world.size > 1:
            byte = world.mpi.BYTE
            self.request = world.comm.Ialltoallv(
                [as_bytes(whole), self.counts, self.places, byte],
                [as_bytes(self.received), self.own_counts, self.own_places, byte],
            )

    def add(self, function: Any, spin: float = DATA_SECONDS) -> None:
        """Add up the slice of this rank, and begin to send it to all."""
        buffer, world = self.buffer, self.buffer.world
        if world.size == 1:
            return
        world.wait(self.request, WHAT, self, spin)
        parts = self.received.reshape(world.size, -1)
        total = buffer.sum[self.mine]
        if buffer.sent is buffer.sum:
            function(parts[0], parts[1], out=total)
        else:
            function(parts[0].astype(buffer.dtype), parts[1], out=total)
        for part in parts[2:]:
            function(total, part, out=total)
        if buffer.sent is not buffer.sum:
            with np.errstate(over="ignore"):
                buffer.sent[self.mine] = total
        whole = as_bytes(buffer.sent[self.start : self.stop])
        self.request = world.comm.Iallgatherv(
            world.mpi.IN_PLACE, [whole, self.counts, self.places, world.mpi.BYTE]
        )

    def finish(self) -> None:
        """Wait for the sums of the other slices."""
        buffer = self.buffer
        if buffer.world.size > 1:
            buffer.world.wait(self.request, WHAT, self)
            self.request = None
        if buffer.sent is not buffer.sum:
            buffer.sum[self.start : self.stop] = buffer.sent[self.start : self.stop]


def fill(view: np.ndarray, array: np.ndarray, factor: float) -> None:
    """Write `factor` times an array; zeros for the factor 0."""
    if factor == 0.0:
        view[...] = 0
    elif factor == 1.0:
        view[...] = array
    else:
        np.multiply(array, view.dtype.type(factor), out=view)


def _aligned(size, dtype):
    """An array [size] that begins at a multiple of 64 bytes, as each gradient in it does."""
    memory = np.empty(size * dtype.itemsize + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size * dtype.itemsize].view(dtype)
