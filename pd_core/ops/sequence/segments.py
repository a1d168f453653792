"""Packed sequences: the tokens of a batch in one tensor, and how many each sequence has.

`values` are [T, ...], all sequences back to back, `lengths` int64 [B]. Index arithmetic is in the
graph, so that a model needs values and lengths only. No function here scatters, forward or
backward: packing and padding are each other's gradient, and so are summing and repeating.
"""

from functools import cached_property

import numpy as np

from ...graph.errors import DTypeError, ShapeError
from ...graph.node import composite, refined
from ...graph.variable import constant, describe, fresh_dim
from .. import math as m
from ..control import like, listed, scan
from ..index import gather, scatter_add
from ..matrix import matmul
from ..reduce import cum_sum, reduce_max, reduce_sum, softmax
from ..shape import arange, concat, expand, ones_like, size_of, slice, squeeze, swap_last, unsqueeze


class Segments:
    """Where the tokens of packed sequences stand, from their lengths, int64 [B].

    All attributes are int64 Variables, built when they are asked for: `count` [1] sequences begin
    at `starts` [B] and end before `ends` [B]; `longest` [1] is the greatest length, `total` [1]
    the number of tokens; `numbers` [T] counts them, `owner` [T] is the sequence of each,
    `position` [T] its place there. `tokens` names the size T of the values that belong to the
    lengths.
    """

    def __init__(self, lengths, tokens=None):
        lengths = constant(lengths)
        if lengths.rank != 1 or lengths.dtype != np.int64:
            raise DTypeError(f"Segments: lengths are int64 [B], not {describe(lengths)}")
        self.lengths = lengths
        self.tokens = fresh_dim() if tokens is None else tokens
        if lengths.is_feed and lengths.counts is None:
            lengths.counts = self.tokens
        self._merged = {}
        self._longest_dim = fresh_dim()

    @cached_property
    def count(self):
        return size_of(self.lengths, 0)

    @cached_property
    def ends(self):
        return cum_sum(self.lengths)

    @cached_property
    def starts(self):
        return m.sub(self.ends, self.lengths)

    @cached_property
    def total(self):
        return reduce_sum(self.lengths, [0], keep_dim=True)

    @cached_property
    def longest(self):
        return reduce_max(concat([constant(np.zeros(1, np.int64)), self.lengths]), [0], True)

    @cached_property
    def owner(self):
        """How many sequences end at or before each token."""
        zeros = expand(constant(np.zeros(1, np.int64)), m.add(self.total, 1))
        ones = ones_like(self.ends)
        ended = cum_sum(scatter_add(zeros, self.ends, ones))
        return _sized(slice(ended, [0], self.total, [0]), self.tokens)

    @cached_property
    def position(self):
        return m.sub(self.numbers, gather(self.starts, self.owner))

    @cached_property
    def numbers(self):
        return _sized(arange(self.total), self.tokens)

    @cached_property
    def _steps(self):
        return _sized(arange(self.longest), self._longest_dim)

    @cached_property
    def valid(self):
        """Which places of the padded form hold a token, bool [B, L]."""
        return m.less_than(unsqueeze(self._steps, 0), unsqueeze(self.lengths, 1))

    @cached_property
    def _padded(self):
        """Token of each place of the padded form [B, L], `total` for none; place of each token."""
        tokens = m.add(unsqueeze(self.starts, 1), unsqueeze(self._steps, 0))
        places = m.add(m.mul(self.owner, self.longest), self.position)
        return m.where(self.valid, tokens, self.total), places

    def pad(self, values, fill=0.0):
        """values [T, ...] as [B, L, ...], where L is the longest length, `fill` after the end."""
        return pad_rows(values, *self._padded, fill)

    def pack(self, padded):
        """The tokens of a padded [B, L, ...] as [T, ...]."""
        return pack_rows(padded, *self._padded)

    def sum(self, values):
        """The sum of each sequence, [B, ...]; zero for an empty one."""
        return segment_sum(values, self._padded[0], self.owner)

    def weighted_sum(self, weights, values):
        """The sum of values [T, D] times weights [T, 1] over each sequence, [B, D]."""
        turned = swap_last(self.pad(weights))
        sums = squeeze(matmul(turned, self.pad(values)), [1])
        some = unsqueeze(m.greater_than(self.lengths, 0), 1)
        return m.where(some, sums, np.zeros((), values.dtype))  # ONNX Runtime 1.31: 0 terms, no 0

    def repeat(self, rows):
        """A row [B, ...] for every token of its sequence, [T, ...]."""
        return repeat_rows(rows, self._padded[0], self.owner)

    def max(self, values):
        """The maximum of each sequence, [B, ...]; zero for an empty one.

        The gradient goes to the first maximum.
        """
        values = self.only_tokens(values)
        return segment_max(values, self._padded[0], self.owner, self.position, self.lengths)

    def mean(self, values):
        """The mean of each sequence, [B, ...]; zero for an empty one."""
        return m.div(self.sum(values), self.counts(values))

    def softmax(self, values):
        """exp(x) over the sum of it in each sequence, for every column of [T, ...]."""
        # not -inf, of which an empty sequence would make NaN
        padded = self.pad(values, fill=np.finfo(np.float32).min)
        if values.dims[1:] == (1,):  # the last axis needs no transposing
            return self.pack(unsqueeze(softmax(squeeze(padded, [2])), [2]))
        return self.pack(softmax(padded, axis=1))

    def counts(self, values):
        """The lengths, at least 1, as a divisor of [B, ...] in the dtype of values."""
        counts = m.cast(m.maximum(self.lengths, 1), values.dtype)
        return unsqueeze(counts, list(range(1, values.rank))) if values.rank > 1 else counts

    def last(self, values):
        """The last row of each sequence, [B, ...]; zero for an empty one."""
        return self._row(values, m.sub(self.ends, 1))

    def first(self, values):
        """The first row of each sequence, [B, ...]; zero for an empty one."""
        return self._row(values, self.starts)

    def merge(self, inner) -> "Segments":
        """The tokens of all inner sequences of each of these: a nested batch as a flat one."""
        if inner not in self._merged:
            self._merged[inner] = Segments(self.sum(inner.lengths), inner.tokens)
        return self._merged[inner]

    def zeros(self, *sizes, dtype="float32"):
        """A row of zeros for each sequence, [B, *sizes]: the usual initial state of `scan`."""
        shape = concat([self.count, constant(np.array(sizes, np.int64))])
        rows = expand(constant(0, dtype), shape)
        rows = refined(rows, (self.lengths.dims[0], *sizes))
        return rows

    def scan(self, step, init, inputs, reverse=False, keep=True):
        """Carry a state along each sequence: (final state, packed outputs).

        step(state, x) -> (new state, y) is given a row for each sequence, [B, ...], from the
        first token on, or from the last if `reverse`; state, inputs and y are each a Variable or
        a list. The rows of y stand in the order of the inputs. A sequence that has ended keeps
        its state; without `keep` it goes on with zeros for x, and no final state is given: that is
        faster, and sound for a step that makes no state infinite.
        """
        index, places, alive = self._backward if reverse else self._forward
        padded = [pad_rows(x, index, places) for x in listed(inputs)]

        def masked(states, xs):
            *xs, going = xs
            new, ys = step(states, like(inputs, xs))
            pairs = zip(listed(states), listed(new), strict=True)
            return like(states, [m.where(_spread(going, s.rank), n, s) for s, n in pairs]), ys

        if keep or not padded:
            final, ys = scan(masked, init, [*padded, alive])
        else:
            final, (_, ys) = None, scan(step, init, like(inputs, padded))
        return final, like(ys, [pack_rows(y, index, places) for y in listed(ys)])

    @cached_property
    def _forward(self):
        return self._steps_first(self._count_from_start)

    @cached_property
    def _backward(self):
        return self._steps_first(self._count_from_end)

    def _count_from_start(self, steps):
        return m.add(unsqueeze(self.starts, 0), steps), self.position

    def _count_from_end(self, steps):
        left = m.sub(gather(self.ends, self.owner), self.numbers)
        return m.sub(unsqueeze(m.sub(self.ends, 1), 0), steps), m.sub(left, 1)

    def _steps_first(self, count):
        """Token of each place of [L, B], place of each token, which places hold one.

        There is always a step, since ONNX Runtime refuses a Scan without any.
        """
        steps = _sized(arange(m.maximum(self.longest, 1)), self._longest_dim)
        steps = unsqueeze(steps, 1)
        tokens, step = count(steps)
        alive = m.less_than(steps, unsqueeze(self.lengths, 0))
        places = m.add(m.mul(step, self.count), self.owner)
        return m.where(alive, tokens, self.total), places, alive

    def _row(self, values, place):
        """One row of each sequence that has any."""
        some = m.greater_than(self.lengths, 0)
        index = m.where(some, place, self.total)
        chosen = m.equal(self.numbers, gather(place, self.owner))
        back = m.where(chosen, self.owner, self.count)
        return exchange_rows(self.only_tokens(values), index, back)

    def only_tokens(self, values):
        """The values where a row is a token, which every row of packed sequences is."""
        return values


def pad_rows(values, index, places, fill=0.0):
    """values [T, ...] at an index of any shape, `fill` where the index is T.

    `places` [T] says where each row stands in the flattened result: every row stands once.
    """
    values = _rows("pad_rows", values)
    dims = (*index.dims, *values.dims[1:])
    return composite(
        "PadRows", values, index, places, types=[(dims, values.dtype)], fill=float(fill)
    )


def pack_rows(padded, index, places):
    """The inverse of `pad_rows`: the rows of a padded tensor back to back, [T, ...]."""
    padded = constant(padded)
    dims = (places.dims[0], *padded.dims[index.rank :])
    return composite("PackRows", padded, index, places, types=[(dims, padded.dtype)])


def exchange_rows(values, index, back):
    """values [T, ...] at index [M], zeros where it is T; each row is taken at most once.

    `back` [T] is the inverse: where a row went, M if nowhere.
    """
    values = _rows("exchange_rows", values)
    dims = (index.dims[0], *values.dims[1:])
    return composite("ExchangeRows", values, index, back, types=[(dims, values.dtype)])


def segment_sum(values, index, owner, holes=False):
    """Sums of the rows that each row of index [B, L] names, [B, ...]; index T names none.

    `owner` [T] is the inverse; with `holes` it may be B, for a row that is in no sum.
    """
    values = _rows("segment_sum", values)
    types = [((index.dims[0], *values.dims[1:]), values.dtype)]
    return composite("SegmentSum", values, index, owner, types=types, holes=int(holes))


def repeat_rows(rows, index, owner, holes=False):
    """rows [B, ...] at owner [T], whose inverse is index [B, L], with T for none.

    With `holes` the owner B gives a row of zeros.
    """
    rows = _rows("repeat_rows", rows)
    types = [((owner.dims[0], *rows.dims[1:]), rows.dtype)]
    return composite("RepeatRows", rows, index, owner, types=types, holes=int(holes))


def segment_max(values, index, owner, position, lengths):
    """Maxima of the rows that each row of index [B, L] names, zero where lengths [B] are 0."""
    values = _rows("segment_max", values)
    dims = (index.dims[0], *values.dims[1:])
    types = [(dims, values.dtype)]
    return composite("SegmentMax", values, index, owner, position, lengths, types=types)


def _rows(who, values):
    values = constant(values)
    if values.rank == 0:
        raise ShapeError(f"{who}: {describe(values)} has no rows")
    return values


def _spread(flags, rank):
    """bool [B] as [B, 1, ...]."""
    return unsqueeze(flags, list(range(1, rank))) if rank > 1 else flags


def _sized(x, name):
    """A vector whose size has a name."""
    return refined(x, (name,))
