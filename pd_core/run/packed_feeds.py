"""Checks of packed sequences among the feeds: lengths against their rows and each other."""

from collections.abc import Iterable, Mapping

import numpy as np

from ..graph.errors import ShapeError
from ..graph.variable import Dim, Variable


class PackedFeeds:
    """The conditions on the fed sequence lengths of a program.

    Lengths must add up to the number of rows that they divide. Where the program combines rows of
    two feeds (`equal` are pairs of sizes that it requires to be equal), both must be divided into
    the same sequences. Sub-sequences may be combined with sequences that are not divided further.
    Rows that are combined with as many rows of a constant do not meet those of another feed there:
    a number says nothing about sequences.
    """

    def __init__(self, fed: Iterable[Variable], equal: Iterable[tuple[Dim, Dim]]):
        self.lengths = {v.feed.counts: v for v in fed if v.feed.counts is not None}
        counted = {v.dims[0]: v for v in fed if v.rank and v.dims[0] in self.lengths}
        self.sums = [(self.lengths[size], v) for size, v in counted.items()]
        self.pairs: list[tuple[list[Variable], list[Variable]]] = []
        for group in _groups((a, b) for a, b in equal if isinstance(a, str) and isinstance(b, str)):
            divided = [d for d in group if d in self.lengths]
            self.pairs += [(self._chain(divided[0]), self._chain(d)) for d in divided[1:]]

    def _chain(self, size: Dim) -> list[Variable]:
        """The lengths that add up to `size`, then those of each outer level."""
        levels = []
        while size in self.lengths and self.lengths[size] not in levels:
            levels.append(self.lengths[size])
            size = levels[-1].dims[0]
        return levels

    def check(self, fed: Mapping[Variable, np.ndarray]) -> None:
        """Raise a ShapeError unless the conditions hold for these arrays."""
        for v in self.lengths.values():
            if (fed[v] < 0).any():
                raise _negative_error(v, fed[v])
        for lengths, rows in self.sums:
            total, count = int(fed[lengths].sum()), len(fed[rows])
            if total != count:
                raise ShapeError(f"{lengths.name!r} adds up to {total}, {rows!r} has {count} rows")
        for a, b in self.pairs:
            if len(a) == len(b):
                for x, y in zip(a, b, strict=True):
                    _check_same(x, y, fed[x], fed[y])
            else:
                _check_same(a[-1], b[-1], *(_rows_per_sample(fed, chain) for chain in (a, b)))


def _groups(equal: Iterable[tuple[Dim, Dim]]) -> Iterable[list[Dim]]:
    """Groups of equal sizes, from pairs of equal sizes."""
    groups: dict[Dim, list[Dim]] = {}
    for a, b in equal:
        group, other = groups.setdefault(a, [a]), groups.setdefault(b, [b])
        if group is not other:
            group += other
            groups.update(dict.fromkeys(other, group))
    return {id(group): group for group in groups.values()}.values()


def _rows_per_sample(fed: Mapping[Variable, np.ndarray], chain: Iterable[Variable]) -> np.ndarray:
    """The number of rows of each sample, through all levels."""
    counts, *outer = (fed[v] for v in chain)
    for lengths in outer:
        ends = np.concatenate([[0], np.cumsum(counts)])[np.cumsum(lengths)]
        counts = np.diff(ends, prepend=0)
    return counts


def _negative_error(v: Variable, lengths: np.ndarray) -> ShapeError:
    k = int(np.flatnonzero(lengths < 0)[0])
    return ShapeError(f"{v.name!r} has the length {lengths[k]} at {k}, it cannot be negative")


def _check_same(a: Variable, b: Variable, x: np.ndarray, y: np.ndarray) -> None:
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
