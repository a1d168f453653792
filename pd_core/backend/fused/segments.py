"""Loops that run together: row by row of an axis that they share, so that rows stay in caches.

Such a segment is one function, whose rows are divided between threads. A loop joins one if what it
reads of the others is in the same row: softmax takes each row three times while it is at hand, and
batch normalisation each channel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .loops import Loop, Statement
from .sizes import ONE, ZERO, Size, estimate, product
from .views import View

_ROW = 64  # elements of all loops in a row, from which it is worth one
_RUN = 16  # neighbours in memory of a row that is no block of memory


@dataclass
class Segment:
    """Loops with the axis that they share; one loop alone has none, its axis is None."""

    loops: list[tuple[Loop, int | None]]

    @property
    def extent(self) -> Size:
        """The size of the shared axis."""
        loop, axis = self.loops[0]
        assert axis is not None
        return loop.dims[axis]


Pattern = tuple[tuple[Size, ...], Size, list[tuple[Size, Size]]]


def pattern(view: View, along: Sequence[Size], loop: Loop, axis: int) -> Pattern:
    """Return (offset, stride along an axis, the other strides with their sizes, merged)."""
    dims = loop.dims
    if loop.product is not None and len(view.dims) > 1:
        dims = (*dims[:-2], *view.dims[-2:])
    rest: list[tuple[Size, Size]] = []
    for k, (s, d) in enumerate(zip(along, dims, strict=True)):
        if k == axis or s == ZERO or d == ONE:
            continue
        if rest and rest[-1][0] == product(s, d):
            rest[-1] = s, product(rest[-1][1], d)
        else:
            rest.append((s, d))
    return view.offset, along[axis], rest


def segments(loops: Sequence[Loop]) -> list[Segment]:
    """Return the loops as segments, in an order in which they can run."""
    writers: dict[str, list[tuple[int, Statement]]] = {}
    for k, loop in enumerate(loops):
        for statement in loop.statements:
            writers.setdefault(statement.written.buffer, []).append((k, statement))
    needs = [
        {j for b in loop.buffers for j, _ in writers.get(b, ()) if j != k}
        for k, loop in enumerate(loops)
    ]
    remaining, found = list(range(len(loops))), []
    done: set[int] = set()
    while remaining:
        best = _joined(loops, remaining, done, needs, writers)
        found.append(Segment([(loops[k], axis) for k, axis in best]))
        done.update(k for k, _ in best)
        remaining = [k for k in remaining if k not in done]
    return found


def _joined(loops, remaining, done, needs, writers):
    """The first loop that remains, with those that can run in the same rows."""
    first = loops[remaining[0]]
    best: list[tuple[int, int | None]] = [(remaining[0], None)]
    for axis in _axes(first):
        joined: dict[int, int | None] = {remaining[0]: axis}
        extent = first.dims[axis]
        for k in remaining[1:]:
            inside = needs[k] & joined.keys()
            if inside and needs[k] <= done | joined.keys():
                for a in _axes(loops[k]):
                    if loops[k].dims[a] == extent and _aligned(loops, k, a, joined, writers):
                        joined[k] = a
                        break
        row = sum(estimate(product(*loops[k].dims)) // estimate(extent) for k in joined)
        if len(joined) > len(best) and row >= _ROW:
            best = list(joined.items())
    return best


def _axes(loop: Loop) -> list[int]:
    """The axes that may be shared: those whose rows are read in runs of neighbours."""
    last = len(loop.dims) - (2 if loop.product is not None else 0)
    found = []
    for k in range(last):
        run = estimate(product(*loop.dims[k + 1 :]))
        if loop.dims[k] != ONE and (k == 0 or run >= _RUN):
            found.append(k)
    return found


def _aligned(loops, k, axis, joined, writers):
    """Whether what a loop reads in a row is written in the same row."""
    for statement in loops[k].statements:
        for number, read in enumerate(statement.reads):
            if read is None:
                continue
            view, along = read
            if statement.at is not None and not number:  # it may be anywhere
                if any(j in joined for j, _ in writers.get(view.buffer, ())):
                    return False
                continue
            offset, stride, rest = pattern(view, along, loops[k], axis)
            for j, writer in writers.get(view.buffer, ()):
                if j not in joined:
                    continue
                o, s, r = pattern(writer.written, writer.along, loops[j], joined[j])
                if o != offset or s != stride or s == ZERO or any(pair not in r for pair in rest):
                    return False
    return True
