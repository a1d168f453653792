"""Flat buffers of gradients, and their reduction over the ranks in a fixed order."""

import itertools
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .tree import halvings, swaps
from .wires import ShortWire, Wire, aligned
from .world import DATA_SECONDS, FEW, World, as_bytes

_ALIGNMENT = 64  # bytes, of each gradient in the buffer
_LONG = 1 << 15  # bytes of a bucket from which on less travels, in more messages
_UNDER_WAY = 8  # buckets at the same time
_SUM_TAG, _SUM_TAGS = 7200, 256  # messages of a bucket have one of these tags

WHAT = "the gradients of a training step"


class Buffer:
    """Arrays of one dtype in one piece of memory, summed over all ranks in buckets.

    The numbers of the ranks are added in the order of `tree`, so that sums have the same bits on
    all ranks and in every run, which `MPI_Allreduce` does not promise; and for every size of the
    buckets. The messages of a bucket are under way while the next one is filled. `wire` makes what
    travels of the numbers, by default these themselves. `first` is the number of the first bucket
    where the buckets of several buffers are under way at once.
    """

    def __init__(
        self,
        world: World,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype,
        wire: type[Wire] | np.dtype | None = None,
        bucket_bytes: int = 1 << 22,
        first: int = 0,
    ):
        self.world, self.dtype = world, np.dtype(dtype)
        starts, size = [], 0
        step = _ALIGNMENT // self.dtype.itemsize
        for shape in shapes:
            starts.append(size)
            size += -(-prod(shape) // step) * step
        kind = wire if isinstance(wire, type) else Wire
        self.sum = aligned(-(-size // kind.unit) * kind.unit, self.dtype)
        self.sum[:] = 0  # the gaps between arrays too
        self.wire = kind(self.sum)
        if isinstance(wire, np.dtype) and wire != self.dtype:
            self.wire = ShortWire(self.sum, wire)
        self._places = list(zip(starts, shapes, strict=True))
        self.views = self.split(self.sum)
        self.ends = [*starts[1:], size] if starts else []
        self.errors: Sequence[np.ndarray] = ()  # what is added to the arrays, if anything
        length = max(step, bucket_bytes // self.dtype.itemsize)
        length = -(-length // kind.unit) * kind.unit
        self.buckets = [
            Bucket(self, a, min(a + length, len(self.sum)), first + number)
            for number, a in enumerate(range(0, size, length))
        ]

    def reduce(
        self, arrays: Sequence[np.ndarray], factor: float = 1.0, function: Any = np.add
    ) -> list[np.ndarray]:
        """Return the sums over all ranks of `factor` times the arrays, until the next call.

        `function` may be another ufunc, such as `np.maximum`. With the factor 0 the arrays do not
        count, not even NaN in them.
        """
        remaining = iter(self.buckets)
        bucket = next(remaining, None)
        under_way: list[Bucket] = []
        for k, (array, end) in enumerate(zip(arrays, self.ends, strict=True)):
            self.fill(k, array, factor)
            while bucket is not None and (bucket.stop <= end or k == len(arrays) - 1):
                if len(under_way) == _UNDER_WAY:
                    finish(under_way[:1], under_way)
                    del under_way[0]
                bucket.begin(function)
                under_way.append(bucket)
                bucket = next(remaining, None)
        finish(under_way)
        return self.views

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Return views of the arrays in a piece of memory as long as that of the sums."""
        return [flat[a : a + prod(s)].reshape(s) for a, s in self._places]

    def fill(self, k: int, array: np.ndarray, factor: float) -> None:
        """Write `factor` times array `k` into the buffer, and what was lost of it before."""
        view = self.views[k]
        fill(view, array, factor)
        if self.errors:
            view += self.errors[k]
        # the gap behind it, where a block of integers may have become NaN
        end = len(self.sum) if k == len(self.views) - 1 else self.ends[k]
        self.sum[self.ends[k - 1] + view.size if k else view.size : end] = 0


class Bucket:
    """The elements from `start` to `stop` of a buffer, which are summed up together."""

    def __init__(self, buffer: Buffer, start: int, stop: int, number: int):
        self.buffer, self.start, self.stop = buffer, start, stop
        # the arrays that are in it, by number
        ranges = enumerate(zip([0, *buffer.ends], buffer.ends, strict=False))
        self.members = [k for k, (a, b) in ranges if a < stop and b > start]
        self.tag = _SUM_TAG + number % _SUM_TAGS
        self._first = start // buffer.wire.unit  # in items of what travels
        self._count = (stop - start) // buffer.wire.unit
        self._received = np.empty(0, buffer.wire.sent.dtype)
        self._rounds: Iterator[list[Any]] | None = None
        self._requests: list[Any] = []

    def begin(self, function: Any = np.add) -> None:
        """Begin to sum up what the buffer has: send the first messages."""
        wire, world = self.buffer.wire, self.buffer.world
        wire.begin(self._first, self._first + self._count)
        if world.size == 1 and not wire.halves:
            self._rounds = iter(())
        elif not wire.halves and self._count * wire.sent.dtype.itemsize < _LONG:
            self._rounds = self._double(function)
        elif not wire.halves and world.size <= FEW:
            self._rounds = self._straight(function)
        else:
            self._rounds = self._halve(function)
        self._requests = next(self._rounds, [])

    def advance(self) -> bool:
        """Go on as far as messages have come; return whether the sum is made."""
        assert self._rounds is not None
        while not self._requests or self.buffer.world.mpi.Request.Testall(self._requests):
            following = next(self._rounds, None)
            if following is None:
                self._requests = []
                return True
            self._requests = following
        return False

    def _double(self, function):
        """Yield the requests of each round of doubling."""
        world, wire = self.buffer.world, self.buffer.wire
        start, stop = self._first, self._first + self._count
        total, whole = self.buffer.sum[self.start : self.stop], wire.sent[start:stop]
        received = self._room(self._count)
        for to, source, is_left in swaps(world.rank, world.size):
            own = wire.kept(start, stop)
            yield [
                world.comm.Irecv(as_bytes(received), source, self.tag),
                *(world.comm.Isend(as_bytes(whole), other, self.tag) for other in to),
            ]
            pair = own, wire.decoded(received)
            function(*(pair if is_left else pair[::-1]), out=total)
        wire.encode(start, stop)
        wire.finish(start, stop)

    def _straight(self, function):
        """Yield the requests of all slices to their owners, and of their sums to all."""
        world, wire, first = self.buffer.world, self.buffer.wire, self._first
        bounds = [self._count * r // world.size for r in range(world.size + 1)]
        slices = [(r, a, b) for r, (a, b) in enumerate(itertools.pairwise(bounds)) if a < b]
        start, stop = bounds[world.rank], bounds[world.rank + 1]
        room = self._room((stop - start) * world.size).reshape(world.size, -1)
        wire.encode(first, first + self._count)
        others = [r for r in range(world.size) if r != world.rank and start < stop]
        away = [each for each in slices if each[0] != world.rank]
        yield self._requested(away, [(r, room[r]) for r in others])
        if start < stop:
            room[world.rank] = wire.sent[first + start : first + stop]
            total = tree_sum([wire.decoded(part) for part in room], function, wire)
            self.buffer.sum[first + start : first + stop] = total
            wire.encode(first + start, first + stop)
        arrays = [(r, wire.sent[first + a : first + b]) for r, a, b in away]
        yield self._requested([(r, start, stop) for r in others], arrays)
        wire.finish(first, first + self._count)

    def _halve(self, function):
        """Yield the requests of each round of halving, and of the way back."""
        world, wire, first = self.buffer.world, self.buffer.wire, self._first
        rounds = list(halvings(world.rank, world.size, self._count))
        room = self._room(max([end - begin for _, _, (begin, end), _ in rounds], default=0))
        share = 0, self._count
        for sent, received, share, is_left in rounds:
            start, stop = first + share[0], first + share[1]
            for _, a, b in sent:
                wire.encode(first + a, first + b)
            into = room[: stop - start]
            arrays = [(r, into[a - share[0] : b - share[0]]) for r, a, b in received]
            yield self._requested(sent, arrays)
            if start < stop:
                pair = wire.kept(start, stop), wire.decoded(into)
                total = self.buffer.sum[start * wire.unit : stop * wire.unit]
                function(*(pair if is_left else pair[::-1]), out=total)
        wire.encode(first + share[0], first + share[1])
        for sent, received, _, _ in reversed(rounds):
            arrays = [(r, wire.sent[first + a : first + b]) for r, a, b in sent]
            yield self._requested(received, arrays)
        wire.finish(first, first + self._count)

    def _requested(self, sent, arrays):
        """The requests to send pieces of this bucket, and to fill arrays."""
        comm, items = self.buffer.world.comm, self.buffer.wire.sent
        return [
            *(comm.Irecv(as_bytes(array), r, self.tag) for r, array in arrays),
            *(
                comm.Isend(as_bytes(items[self._first + a : self._first + b]), r, self.tag)
                for r, a, b in sent
            ),
        ]

    def _room(self, count):
        """An array for items that come."""
        if len(self._received) < count:
            self._received = np.empty(count, self.buffer.wire.sent.dtype)
        return self._received[:count]


def tree_sum(parts: Sequence[np.ndarray], function: Any, wire: Wire) -> np.ndarray:
    """Return the sum of the ranks' parts in the order of the tree."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    sums = [tree_sum(half, function, wire) for half in (parts[:middle], parts[middle:])]
    return function(*(wire.rounded(each) for each in sums))


def finish(
    wanted: Sequence[Bucket], under_way: Sequence[Bucket] = (), spin: float = DATA_SECONDS
) -> None:
    """Wait for the sums of buckets, while others that are `under_way` go on."""
    left = list(wanted)
    others = [bucket for bucket in under_way if bucket not in left]

    def is_done():
        left[:] = [bucket for bucket in left if not bucket.advance()]
        for bucket in others:
            bucket.advance()
        return not left

    if left and not is_done():
        left[0].buffer.world.wait_until(is_done, WHAT, [*left, *others], spin)


def fill(view: np.ndarray, array: np.ndarray, factor: float) -> None:
    """Write `factor` times an array; zeros for the factor 0."""
    if factor == 0.0:
        view[...] = 0
    elif factor == 1.0:
        view[...] = array
    else:
        np.multiply(array, view.dtype.type(factor), out=view)
