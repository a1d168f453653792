"""Packed sequences: the tokens of a batch back to back in one tensor, and their lengths.

Values are [T, ...], lengths int64 [B]. Index arithmetic is part of the graph, so that a model takes
values and lengths only. No value is scattered, forward or backward: packing and padding are each
other's gradient, and so are summing and repeating.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from ...graph.errors import DTypeError, ShapeError
from ...graph.node import composite, refined
from ...graph.op import op
from ...graph.recording import as_number
from ...graph.variable import Dim, Operand, Variable, constant, describe, fresh_dim
from .. import math as m
from ..control import as_list, restructure, scan
from ..gather import gather, scatter_add
from ..matrix import matmul
from ..reduce import cum_sum, reduce_max, reduce_sum, softmax, summable
from ..shape import (
    arange,
    concat,
    expand,
    matrix_transpose,
    ones_like,
    size_of,
    slice,
    squeeze,
    unsqueeze,
)

Operands = Operand | Sequence[Operand] | None  # one value or a list of them, as `scan` takes them


class Segments:
    """Index arithmetic of packed sequences, from their lengths, int64 [B].

    Attributes are int64 Variables, built on first use: the `count` [1] of sequences, their `starts`
    [B] and exclusive `ends` [B], the length of the `longest` [1], the number of tokens `total` [1];
    for each token its number `numbers` [T], the sequence it belongs to `owner` [T], and its
    `position` [T] in that. `tokens` is the name of the size T of the packed values.
    """

    def __init__(self, lengths: Operand, tokens: Dim | None = None):
        lengths = constant(lengths)
        if lengths.rank != 1 or lengths.dtype != np.int64:
            raise DTypeError(f"Segments: lengths are int64 [B], not {describe(lengths)}")
        self.lengths = lengths
        self._rows = self._count(lengths)  # as feeds are checked; None where it is not known yet
        self.tokens = fresh_dim() if tokens is None else tokens
        self._is_unnamed = False
        if lengths.is_feed and lengths.feed.counts is None:
            lengths.feed = replace(lengths.feed, counts=self.tokens)
            self._is_unnamed = tokens is None
        self._merged: dict[Segments, Segments] = {}
        self._longest_dim = fresh_dim()
        self._loop_dim = fresh_dim()  # another one: a loop has a step where the longest has none

    @staticmethod
    def _count(lengths):
        """The number of tokens of lengths at hand, which must not be negative."""
        known = lengths.eager_value if lengths.value is None else lengths.value
        if known is None:
            return None
        known = np.asarray(known)
        if (known < 0).any():
            raise ShapeError(f"Segments: a length is not negative, {known.min()}")
        return int(known.sum())

    def fitting(self, values: Operand) -> Variable:
        """Return values; ShapeError if they are known not to have a row for each token.

        The name of their size is that of the number of tokens, for which feeds are checked.
        """
        values = constant(values)
        rows = values.dims[0] if values.rank else None
        if self._is_unnamed and isinstance(rows, str) and rows != self.lengths.dims[0]:
            self._is_unnamed = False
            self.lengths.feed = replace(self.lengths.feed, counts=rows)
        rows = as_number(rows)
        if self._rows is not None and rows is not None and rows != self._rows:
            raise ShapeError(
                f"Segments: the lengths add up to {self._rows}, the values are {rows} rows"
            )
        return values

    @cached_property
    def count(self) -> Variable:
        return size_of(self.lengths, 0)

    @cached_property
    def ends(self) -> Variable:
        return cum_sum(self.lengths)

    @cached_property
    def starts(self) -> Variable:
        return self.ends - self.lengths

    @cached_property
    def total(self) -> Variable:
        return reduce_sum(self.lengths, [0], keep_dim=True)

    @cached_property
    def longest(self) -> Variable:
        return reduce_max(concat([constant(np.zeros(1, np.int64)), self.lengths]), [0], True)

    @cached_property
    def owner(self) -> Variable:
        """The sequence of each token: the number of sequences that end at or before it."""
        zeros = expand(constant(np.zeros(1, np.int64)), self.total + 1)
        ones = ones_like(self.ends)
        ended = cum_sum(scatter_add(zeros, self.ends, ones))
        return _sized(slice(ended, [0], self.total, [0]), self.tokens)

    @cached_property
    def position(self) -> Variable:
        return self.numbers - gather(self.starts, self.owner)

    @cached_property
    def numbers(self) -> Variable:
        return _sized(arange(self.total), self.tokens)

    @cached_property
    def _steps(self) -> Variable:
        return _sized(arange(self.longest), self._longest_dim)

    @cached_property
    def valid(self) -> Variable:
        """The mask of the padded form: which cells hold a token, bool [B, L]."""
        return unsqueeze(self._steps, 0) < unsqueeze(self.lengths, 1)

    @cached_property
    def _padded(self) -> tuple[Variable, Variable]:
        """The token of each cell of the padded form [B, L], `total` for none; each token's cell."""
        tokens = unsqueeze(self.starts, 1) + unsqueeze(self._steps, 0)
        cells = self.owner * self.longest + self.position
        return m.where(self.valid, tokens, self.total), cells

    def pad(self, values: Operand, fill: float = 0.0) -> Variable:
        """Pad values [T, ...] with `fill` to [B, L, ...], where L is the longest length."""
        return pad_rows(self.fitting(values), *self._padded, fill)

    def pack(self, padded: Operand, whole: bool = False) -> Variable:
        """Return the tokens of a padded [B, L, ...] as [T, ...]: the inverse of `pad`.

        What is beyond the longest length is left out, as PyTorch's `pack_padded_sequence` does;
        `whole` says that nothing is.
        """
        index, cells = self._padded
        padded = constant(padded)
        if not whole and padded.rank > 1 and padded.dims[1] != index.dims[1]:
            padded = slice(padded, [0], self.longest, [1])
        return pack_rows(padded, index, cells)

    def sum(self, values: Variable) -> Variable:
        """Sum each sequence, [B, ...]; zero for an empty one."""
        return packed_sum(self.fitting(values), self._padded[0], self.owner)

    def weighted_sum(self, weights: Operand, values: Variable) -> Variable:
        """Sum the values [T, D] times weights [T, 1] of each sequence, [B, D]."""
        transposed = matrix_transpose(self.pad(weights))
        sums = squeeze(matmul(transposed, self.pad(values)), [1])
        nonempty = unsqueeze(self.lengths > 0, 1)
        # ONNX Runtime 1.31: a product over an axis of size 0 is not 0
        return m.where(nonempty, sums, np.zeros((), values.dtype))

    def repeat(self, rows: Operand) -> Variable:
        """Repeat a row [B, ...] for every token of its sequence, [T, ...]."""
        return repeat_rows(rows, self._padded[0], self.owner)

    def max(self, values: Variable) -> Variable:
        """Return the maximum of each sequence, [B, ...]; zero for an empty one.

        The gradient goes to the first maximum.
        """
        values = self.only_tokens(self.fitting(values))
        return packed_max(values, self._padded[0], self.owner, self.position, self.lengths)

    def mean(self, values: Variable) -> Variable:
        """Average each sequence, [B, ...]; zero for an empty one."""
        values = constant(values)
        if values.dtype.kind == "f":
            return self.sum(values) / self.counts(values)
        # as NumPy's: float32 would lose digits of integers, and their own sums wrap
        total = self.sum(m.cast(values, np.float64))
        return m.cast(total / self.counts(total), np.float32)

    def softmax(self, values: Variable) -> Variable:
        """Normalise exp(x) over each sequence, for every column of [T, ...]."""
        # not -inf, of which an empty sequence would make NaN
        padded = self.pad(values, fill=float(np.finfo(np.float32).min))
        if values.dims[1:] == (1,):  # along the last axis, the kernel does not transpose
            return self.pack(unsqueeze(softmax(squeeze(padded, [2])), [2]))
        return self.pack(softmax(padded, axis=1))

    def counts(self, values: Variable) -> Variable:
        """Return the lengths, at least 1, as a divisor of [B, ...] in the dtype of values."""
        counts = m.cast(m.maximum(self.lengths, 1), values.dtype)
        return unsqueeze(counts, list(range(1, values.rank))) if values.rank > 1 else counts

    def last(self, values: Variable) -> Variable:
        """Return the last row of each sequence, [B, ...]; zero for an empty one."""
        return self._row(values, self.ends - 1)

    def first(self, values: Variable) -> Variable:
        """Return the first row of each sequence, [B, ...]; zero for an empty one."""
        return self._row(values, self.starts)

    def merge(self, inner: "Segments") -> "Segments":
        """Flatten a nested batch: each of these sequences with the tokens of its inner ones."""
        if inner not in self._merged:
            self._merged[inner] = Segments(self.sum(inner.lengths), inner.tokens)
        return self._merged[inner]

    def zeros(self, *sizes: int, dtype: DTypeLike = "float32") -> Variable:
        """Return zeros [B, *sizes], a row for each sequence: the usual initial state of `scan`."""
        shape = concat([self.count, constant(np.array(sizes, np.int64))])
        rows = expand(constant(0, dtype), shape)
        rows = refined(rows, (self.lengths.dims[0], *sizes))
        return rows

    def scan(
        self,
        step: Callable,
        init: Operands,
        inputs: Operands,
        reverse: bool = False,
        keep: bool = True,
    ) -> tuple:
        """Carry a state along each sequence: (final state, packed outputs).

        step(state, x) -> (new state, y) takes a row of each sequence, [B, ...], from the first
        token to the last, or backwards if `reverse`; state, inputs and y are each a Variable or a
        list. The rows of y are in the order of the inputs. A sequence that has ended keeps its
        state. Without `keep` it goes on with zeros for x, and the final state is None: that is
        faster, and right for a step whose states stay finite.
        """
        index, cells, alive = self._backward if reverse else self._forward
        padded = [pad_rows(self.fitting(x), index, cells) for x in as_list(inputs)]

        def masked(states, xs):
            *xs, alive = xs
            new, ys = step(states, restructure(inputs, xs))
            pairs = zip(as_list(states), as_list(new), strict=True)
            return restructure(
                states, [m.where(_trailing_ones(alive, s.rank), n, s) for s, n in pairs]
            ), ys

        if keep or not padded:
            final, ys = scan(masked, init, [*padded, alive])
        else:
            final, (_, ys) = None, scan(step, init, restructure(inputs, padded))
        return final, restructure(ys, [pack_rows(y, index, cells) for y in as_list(ys)])

    @cached_property
    def _forward(self):
        return self._time_major(self._count_from_start)

    @cached_property
    def _backward(self):
        return self._time_major(self._count_from_end)

    def _count_from_start(self, steps):
        return unsqueeze(self.starts, 0) + steps, self.position

    def _count_from_end(self, steps):
        left = gather(self.ends, self.owner) - self.numbers
        return unsqueeze(self.ends - 1, 0) - steps, left - 1

    def _time_major(self, count):
        """The token of each cell of [L, B], `total` for none; each token's cell; the mask.

        count(steps [L, 1]) returns the token at each step, [L, B], and each token's step, [T].
        L is at least 1, since ONNX Runtime refuses a Scan without steps.
        """
        steps = _sized(arange(m.maximum(self.longest, 1)), self._loop_dim)
        steps = unsqueeze(steps, 1)
        tokens, step = count(steps)
        alive = steps < unsqueeze(self.lengths, 0)
        cells = step * self.count + self.owner
        return m.where(alive, tokens, self.total), cells, alive

    def _row(self, values, token):
        """One token of each sequence that has any, zero for the others."""
        index = m.where(self.lengths > 0, token, self.total)
        selected = m.equal(self.numbers, gather(token, self.owner))
        back = m.where(selected, self.owner, self.count)
        return permute_rows(self.only_tokens(self.fitting(values)), index, back)

    def only_tokens(self, values: Variable) -> Variable:
        """Zero the rows that hold no token; packed sequences have none of these."""
        return values


@op
def pad_rows(values: Operand, index: Variable, inverse: Variable, fill: float = 0.0) -> Variable:
    """Gather values [T, ...] at an index of any shape, `fill` where the index is T.

    `inverse` [T] has the index of each row in the flattened result: every row has one.
    """
    values = _with_rows(values)
    dims = (*index.dims, *values.dims[1:])
    return composite(
        "PadRows", values, index, inverse, types=[(dims, values.dtype)], fill=float(fill)
    )


@op
def pack_rows(padded: Operand, index: Variable, inverse: Variable) -> Variable:
    """Undo `pad_rows`: the rows of a padded tensor back to back, [T, ...]."""
    padded = constant(padded)
    dims = (inverse.dims[0], *padded.dims[index.rank :])
    return composite("PackRows", padded, index, inverse, types=[(dims, padded.dtype)])


@op
def permute_rows(values: Operand, index: Variable, back: Variable) -> Variable:
    """Permute rows: values [T, ...] at index [M], zeros where it is T; no row is taken twice.

    `back` [T] is the inverse: each row's index in the result, M if it has none.
    """
    values = _with_rows(values)
    dims = (index.dims[0], *values.dims[1:])
    return composite("PermuteRows", values, index, back, types=[(dims, values.dtype)])


@op
def packed_sum(values: Operand, index: Variable, owner: Variable, holes: bool = False) -> Variable:
    """Sum the rows of values [T, ...] at each row of index [B, L], T for none: [B, ...].

    `owner` [T] is the inverse; with `holes` it may be B, for a row that is in no sum.
    """
    values = _with_rows(summable(values))
    types = [((index.dims[0], *values.dims[1:]), values.dtype)]
    return composite("SegmentSum", values, index, owner, types=types, holes=int(holes))


@op
def repeat_rows(rows: Operand, index: Variable, owner: Variable, holes: bool = False) -> Variable:
    """Gather rows [B, ...] at owner [T], whose inverse is index [B, L], T for none.

    With `holes` the owner B gives a row of zeros.
    """
    rows = _with_rows(rows)
    types = [((owner.dims[0], *rows.dims[1:]), rows.dtype)]
    return composite("RepeatRows", rows, index, owner, types=types, holes=int(holes))


@op
def packed_max(
    values: Operand, index: Variable, owner: Variable, position: Variable, lengths: Variable
) -> Variable:
    """Return the maxima of the rows at each row of index [B, L], zero where lengths [B] are 0."""
    values = _with_rows(values)
    dims = (index.dims[0], *values.dims[1:])
    types = [(dims, values.dtype)]
    return composite("SegmentMax", values, index, owner, position, lengths, types=types)


@op
def packed_arg_max(values: Operand, index: Variable) -> Variable:
    """Return the steps of the first maxima of the rows at index [B, L], int64; 0 where none are."""
    values = _with_rows(values)
    types = [((index.dims[0], *values.dims[1:]), np.dtype(np.int64))]
    return composite("SegmentArgMax", values, index, types=types)


def _with_rows(values: Operand) -> Variable:
    values = constant(values)
    if values.rank == 0:
        raise ShapeError(f"{describe(values)} has no rows")
    return values


def _trailing_ones(flags, rank):
    """Reshape bool [B] to [B, 1, ...]."""
    return unsqueeze(flags, list(range(1, rank))) if rank > 1 else flags


def _sized(x, name):
    """Name the size of a vector."""
    return refined(x, (name,))
