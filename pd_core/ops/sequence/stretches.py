"""A recurrence over packed sequences in stretches of steps, each over the sequences that reach it.

Sorted by length, the sequences that a step has are the first ones. How many that are is looked up
a few times only, since every step of one loop has the same shapes.
"""

from functools import cached_property

import numpy as np

from ...graph.node import apply, composite, refined
from ...graph.variable import constant, fresh_dim
from .. import math as m
from ..control import like, listed, scan
from ..index import gather, scatter_add
from ..reduce import cum_sum, reduce_sum
from ..shape import arange, concat, slice, unsqueeze, zeros_like
from .padded import PaddedSegments
from .segments import Segments, exchange_rows

STRETCHES = 3


def scan_bounded(sequences: Segments, step, init, inputs, reverse=False):
    """The outputs of `sequences.scan` for a step that makes no state infinite, whatever it reads.

    It is faster: a sequence that has ended need not keep its state, it goes on with some other
    input for a while and is dropped then. The step is called for each stretch; what it reads
    besides its arguments has no row for each sequence, as those are in another order.
    """
    if isinstance(sequences, PaddedSegments):
        return sequences.scan(step, init, inputs, reverse)[1]
    plan = Stretches(sequences, STRETCHES, reverse)
    xs = [plan.pad(x) for x in listed(inputs)]
    states, found = [plan.sorted(s) for s in listed(init)], []
    for k in range(plan.number):
        given = like(init, states), like(inputs, [x[k] for x in xs])
        states, ys = scan(step, *given)
        states = [plan.shortened(s, k) for s in listed(states)]
        found.append(listed(ys))
    return like(ys, [plan.pack(parts) for parts in zip(*found, strict=True)])


class Stretches:
    """Which tokens stand where, for `number` stretches of equally many steps."""

    def __init__(self, sequences, number, reverse):
        self.sequences, self.number, self.reverse = sequences, number, reverse
        self._step_dim = fresh_dim()
        self._row_dims = [fresh_dim() for _ in range(number)]

    def pad(self, values):
        """values [T, ...] as [S, B, ...] for each stretch; any row where a sequence has ended."""
        return pad_parts(values, self._places, self._indices, zeros=False)

    def pack(self, parts):
        """The inverse of `pad`."""
        return pack_parts(parts, self._places, self._indices)

    def sorted(self, rows):
        """The rows [B, ...] of the first stretch, the longest sequence first."""
        count = self._counts[0]
        back = m.where(m.less_than(self._rank, count), self._rank, count)
        return exchange_rows(rows, self._rows[0], back)

    def shortened(self, rows, k):
        """The rows of stretch k that the next one goes on with."""
        if k + 1 == self.number:
            return rows
        count = self._counts[k + 1]
        kept, rest = self._first(count, k + 1), self._first(self._counts[k], k)
        return exchange_rows(rows, kept, m.where(m.less_than(rest, count), rest, count))

    def _first(self, count, k):
        return refined(arange(count), (self._row_dims[k],))

    @cached_property
    def _by_length(self):
        """The lengths and the numbers of the sequences, the longest first."""
        lengths = self.sequences.lengths
        known = [lengths.dims] * 2
        return apply("TopK", lengths, self.sequences.count, outputs=2, axis=0, known=known)

    @cached_property
    def _rank(self):
        """The place of each sequence in that order."""
        order = self._by_length[1]
        return scatter_add(zeros_like(order), order, arange(self.sequences.count))

    @cached_property
    def _steps(self):
        """Steps of a stretch, [1]; at least one, since ONNX Runtime refuses a Scan without any."""
        rounded = m.div(m.add(self.sequences.longest, self.number - 1), self.number)
        return m.maximum(rounded, 1)

    @cached_property
    def _counts(self):
        """How many sequences reach each stretch, [1] each."""
        reached = [
            m.greater_than(self._by_length[0], m.mul(self._steps, k)) for k in range(self.number)
        ]
        return [reduce_sum(m.cast(r, np.int64), [0], keep_dim=True) for r in reached]

    @cached_property
    def _rows(self):
        """The sequences of each stretch."""
        return [
            refined(slice(self._by_length[1], [0], count, [0]), (dim,))
            for count, dim in zip(self._counts, self._row_dims, strict=True)
        ]

    @cached_property
    def _indices(self):
        """The token of each place [S, B] of each stretch, T for none."""
        return [self._index(k, rows) for k, rows in enumerate(self._rows)]

    def _index(self, k, rows):
        s = self.sequences
        steps = m.add(arange(self._steps), m.mul(self._steps, k))
        steps = refined(steps, (self._step_dim,))
        steps = unsqueeze(steps, 1)
        if self.reverse:
            tokens = m.sub(m.sub(unsqueeze(gather(s.ends, rows), 0), 1), steps)
        else:
            tokens = m.add(unsqueeze(gather(s.starts, rows), 0), steps)
        alive = m.less_than(steps, unsqueeze(gather(s.lengths, rows), 0))
        return m.where(alive, tokens, s.total)

    @cached_property
    def _places(self):
        """Where each token stands in the rows of all stretches back to back."""
        s = self.sequences
        step = s.position
        if self.reverse:
            step = m.sub(m.sub(gather(s.lengths, s.owner), 1), step)
        stretch = m.div(step, self._steps)
        counts = concat(self._counts)
        rows = m.mul(counts, self._steps)
        before = m.sub(cum_sum(rows), rows)
        within = m.mul(m.sub(step, m.mul(stretch, self._steps)), gather(counts, stretch))
        return m.add(m.add(gather(before, stretch), within), gather(self._rank, s.owner))


def pad_parts(values, places, indices, zeros=True):
    """The rows of values [T, ...] that each index [S, B] names, zeros where it is T; a list.

    `places` [T] says where each row stands in all results flattened: every row stands once. Without
    `zeros`, some row stands where an index is T: nothing may depend on it.
    """
    values = constant(values)
    types = [((*index.dims, *values.dims[1:]), values.dtype) for index in indices]
    parts = composite("PadParts", values, places, *indices, types=types, zeros=int(zeros))
    return list(_several(parts))


def pack_parts(parts, places, indices):
    """The inverse of `pad_parts`: the rows of all parts as one [T, ...]."""
    parts = [constant(part) for part in parts]
    types = [((places.dims[0], *parts[0].dims[2:]), parts[0].dtype)]
    return composite("PackParts", places, *parts, *indices, types=types)


def _several(values):
    return values if isinstance(values, tuple) else (values,)
