"""Loops that run together: row by row of an axis that they share, so that rows stay in caches.

Such a segment is one function, whose rows are divided between threads. A loop joins one if what it
reads of the others is in the same row: softmax takes each row three times while it is at hand, and
batch normalisation each channel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .loops import Loop, Statement
from .sizes import ONE, ZERO, Dims, Size, estimate, product
from .views import View

_ROW = 64  # elements of all loops in a row, from which it is worth one
_LONG_ROW = 192  # the same for rows of several axes, of which there are more
_GROWTH = 8  # how much larger than the first loop others may be: small ones alone are as fast
_RUN = 16  # neighbours in memory of a row that is no block of memory


Axes = tuple[int, ...]


@dataclass
class Segment:
    """Loops with the axes that they share, neighbours; one loop alone has none."""

    loops: list[tuple[Loop, Axes]]

    @property
    def extents(self) -> Dims:
        """The sizes of the shared axes."""
        loop, axes = self.loops[0]
        return tuple([loop.dims[k] for k in axes])


Pattern = tuple[tuple[Size, ...], tuple[Size, ...], list[tuple[Size, Size]]]


def pattern(view: View, along: Sequence[Size], loop: Loop, axes: Axes) -> Pattern:
    """Return (offset, strides along axes, the other strides with their sizes, merged)."""
    dims = loop.dims
    if loop.product is not None and len(view.dims) > 1:
        dims = (*dims[:-2], *view.dims[-2:])
    rest: list[tuple[Size, Size]] = []
    for k, (s, d) in enumerate(zip(along, dims, strict=True)):
        if k in axes or s == ZERO or d == ONE:
            continue
        if rest and rest[-1][0] == product(s, d):
            rest[-1] = s, product(rest[-1][1], d)
        else:
            rest.append((s, d))
    return view.offset, tuple([along[k] for k in axes]), rest


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
    best: list[tuple[int, Axes]] = [(remaining[0], ())]
    most = _GROWTH * estimate(product(*first.dims))
    for axes in _axes(first):
        joined: dict[int, Axes] = {remaining[0]: axes}
        extents = [first.dims[k] for k in axes]
        run = estimate(product(*first.dims[len(axes) :]))
        if not _whole_rows(first, axes) or (len(axes) > 1 and run < _RUN):
            continue
        for k in remaining[1:]:
            inside = needs[k] & joined.keys()
            if inside and needs[k] <= done | joined.keys():
                if estimate(product(*loops[k].dims)) > most:
                    continue
                for a in _axes(loops[k]):
                    same = [loops[k].dims[q] for q in a] == extents
                    if same and _whole_rows(loops[k], a) and _aligned(loops, k, a, joined, writers):
                        joined[k] = a
                        break
        count = estimate(product(*extents))
        row = sum(estimate(product(*loops[k].dims)) // count for k in joined)
        better = len(joined) >= len(best) if len(axes) > 1 else len(joined) > len(best)
        if len(joined) > 1 and better and row >= (_ROW if len(axes) == 1 else _LONG_ROW):
            best = list(joined.items())
    return best


def _axes(loop: Loop) -> list[Axes]:
    """The axes that may be shared: those whose rows are read in runs of neighbours."""
    last = len(loop.dims) - (2 if loop.product is not None else 0)
    found: list[Axes] = []
    for k in range(last):
        run = estimate(product(*loop.dims[k + 1 :]))
        if loop.dims[k] != ONE and (k == 0 or run >= _RUN):
            found.append((k,))
    return [*found, *(tuple(range(end)) for end in range(2, last + 1))]


def _whole_rows(loop: Loop, axes: Axes) -> bool:
    """Whether reductions of a loop are inside of rows, or over all of them."""
    for s in loop.statements:
        if s.how not in ("map", "product") and len({s.along[k] == ZERO for k in axes}) > 1:
            return False
    return True


def _aligned(loops, k, axes, joined, writers):
    """Whether what a loop reads in a row is written in the same row."""
    for statement in loops[k].statements:
        for number, read in enumerate(statement.reads):
            if read is None:
                continue
            view, along = read
            if statement.at is not None and number != 1:  # it may be anywhere
                if any(j in joined for j, _ in writers.get(view.buffer, ())):
                    return False
                continue
            offset, stride, rest = pattern(view, along, loops[k], axes)
            for j, writer in writers.get(view.buffer, ()):
                if j not in joined:
                    continue
                o, s, r = pattern(writer.written, writer.along, loops[j], joined[j])
                if o != offset or s != stride or ZERO in s or any(pair not in r for pair in rest):
                    return False
    return True
