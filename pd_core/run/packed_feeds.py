"""Packed sequences among the feeds: lengths that fit their rows, and each other."""

import numpy as np

from ..graph.errors import ShapeError


class PackedFeeds:
    """What must hold of the fed lengths of a program, where `equal` are pairs of sizes that meet.

    Lengths add up to the number of rows that they count; where rows of two feeds meet, their
    sequences are the same. Sub-sequences may meet sequences that are not divided.
    """

    def __init__(self, fed, equal):
        self.lengths = {v.counts: v for v in fed if v.counts is not None}
        counted = {v.dims[0]: v for v in fed if v.rank and v.dims[0] in self.lengths}
        self.sums = [(self.lengths[size], v) for size, v in counted.items()]
        self.pairs = []
        for group in _groups(equal):
            first, *others = [d for d in group if d in self.lengths] or [None]
            self.pairs += [(self._chain(first), self._chain(d)) for d in others]

    def _chain(self, size):
        """The lengths that count `size`, then those that count these."""
        found = []
        while size in self.lengths:
            found.append(self.lengths[size])
            size = found[-1].dims[0]
        return found

    def check(self, fed):
        """ShapeError unless it holds for these arrays."""
        for v in self.lengths.values():
            if (fed[v] < 0).any():
                raise _negative(v, fed[v])
        for lengths, rows in self.sums:
            total, there = int(fed[lengths].sum()), len(fed[rows])
            if total != there:
                raise ShapeError(f"{lengths.name!r} adds up to {total}, {rows!r} has {there} rows")
        for a, b in self.pairs:
            if len(a) == len(b):
                for x, y in zip(a, b, strict=True):
                    _check_same(x, y, fed[x], fed[y])
            else:
                _check_same(a[-1], b[-1], *(_rows_of_samples(fed, chain) for chain in (a, b)))


def _groups(equal):
    """Sizes that are one size, by pairs."""
    groups = {}
    for a, b in equal:
        one, other = groups.setdefault(a, [a]), groups.setdefault(b, [b])
        if one is not other:
            one += other
            groups.update(dict.fromkeys(other, one))
    return {id(group): group for group in groups.values()}.values()


def _rows_of_samples(fed, chain):
    """How many rows each sample has, through all levels."""
    counts, *outer = (fed[v] for v in chain)
    for lengths in outer:
        ends = np.concatenate([[0], np.cumsum(counts)])[np.cumsum(lengths)]
        counts = np.diff(ends, prepend=0)
    return counts


def _negative(v, lengths):
    k = int(np.flatnonzero(lengths < 0)[0])
    return ShapeError(f"{v.name!r} has the length {lengths[k]} at {k}, it cannot be negative")


def _check_same(a, b, x, y):
    if np.array_equal(x, y):
        return
    if len(x) != len(y):
        counts = f"{len(x)} and {len(y)} sequences"
        raise ShapeError(f"rows meet, but {a.name!r} and {b.name!r} have {counts}")
    k = int(np.flatnonzero(x != y)[0])
    raise ShapeError(
        f"rows of different sequences meet: sequence {k} has {x[k]} by {a.name!r}, "
        f"{y[k]} by {b.name!r}"
    )
