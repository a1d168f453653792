"""Slices, concatenations, windows and context of packed sequences.

The index of each result row is computed from the lengths, and so is its inverse, the index to which
each input row goes: gradients gather with that, they never scatter. `/` of integer Variables rounds
toward zero.
"""

import numpy as np

from ...graph.errors import GraphError, ShapeError
from ...graph.node import apply, refined
from ...graph.op import op
from ...graph.variable import Operand, Variable, constant, fresh_dim
from .. import math as m
from ..gather import gather
from ..reduce import cum_sum, reduce_sum
from ..shape import arange, concat, expand, reshape, reshape_like, unsqueeze
from .segments import Segments, permute_rows, repeat_rows


@op
def sequence_windows(
    segments: Segments, size: int, from_end: bool = False
) -> tuple[Segments, Segments]:
    """Cut every sequence into windows of `size` steps: (windows of sequences, steps of windows).

    Both are Segments. The last window of a sequence may be shorter; with `from_end` windows are
    aligned with the end of the sequence, and the first one may be shorter.

    Args:
        segments: of the sequences.
        size: the number of steps of a window.

    Raises:
        ShapeError: the size is below 1.
    """
    if size < 1:
        raise ShapeError(f"a window has at least 1 step, not {size}")
    _check_packed(segments)
    lengths = segments.lengths
    outer = Segments(m.quotient(lengths + (size - 1), size))
    start = outer.position * size
    if from_end:
        missing = outer.lengths * size - lengths
        start = start - gather(missing, outer.owner)
    end = m.minimum(start + size, gather(lengths, outer.owner))
    return outer, Segments(end - m.maximum(start, 0), segments.tokens)


@op
def sequence_concat(a: Segments, b: Segments, x: Operand, y: Operand) -> tuple[Segments, Variable]:
    """Concatenate each sequence of x [T, ...] with that of y: (Segments, values).

    a and b are the Segments of x and y, of equally many sequences.
    """
    _check_packed(a, b)
    lengths = b.lengths
    if not (a.lengths.is_feed and lengths.is_feed):  # feeds are checked when they are fed
        lengths = reshape_like(lengths, a.lengths)  # a sum would repeat a single sequence
    joined = Segments(a.lengths + lengths)
    position, length = joined.position, gather(a.lengths, joined.owner)
    in_x = gather(a.starts, joined.owner) + position
    in_y = gather(b.starts + a.total - a.lengths, joined.owner) + position
    index = m.where(position < length, in_x, in_y)
    from_x = gather(joined.starts, a.owner) + a.position
    from_y = gather(joined.starts + a.lengths, b.owner) + b.position
    return joined, permute_rows(concat([x, y]), index, concat([from_x, from_y]))


@op
def sequence_slice(
    segments: Segments, values: Operand, starts: Variable, lengths: Variable
) -> tuple[Segments, Segments, Variable]:
    """Slice sequences: (slices of sequences, steps of slices, values).

    starts and lengths are int64 [B, K], up to K slices of each of the B sequences: the position at
    which a slice begins, and its number of steps, negative for no slice. Slices come out in the
    order of rows, then columns. They must lie within their sequence, and may overlap.
    """
    _check_packed(segments)
    exists = lengths >= 0
    sizes = m.maximum(lengths, 0)
    flat = reshape(sizes, [-1])
    slices = reshape(apply("NonZero", reshape(exists, [-1]), known=(1, fresh_dim())), [-1])
    outer = Segments(reduce_sum(m.cast(exists, np.int64), [1]), slices.dims[0])
    inner = Segments(gather(flat, slices))
    first = reshape(unsqueeze(segments.starts, 1) + starts, [-1])
    source = gather(gather(first, slices), inner.owner) + inner.position
    # the inverse: each token's index in every slice of its sequence that holds it
    offset = unsqueeze(segments.position, 1) - gather(starts, segments.owner)
    inside = m.logical_and(offset >= 0, offset < gather(sizes, segments.owner))
    before = reshape(cum_sum(flat) - flat, [-1, lengths.dims[1]])
    inverse = m.where(inside, gather(before, segments.owner) + offset, inner.total)
    return outer, inner, repeat_rows(values, inverse, source)


@op
def sequence_context(segments: Segments, values: Operand, start: int, count: int) -> Variable:
    """Return the steps t + start, …, t + start + count - 1 around each step t: [T, count, ...].

    Steps outside the sequence are zero.
    """
    offsets = _offsets(start, count)
    numbers = unsqueeze(segments.numbers, 1)
    none = segments.total * count
    owner = m.where(_inside(segments, offsets), numbers + offsets, segments.total)
    back = (numbers - offsets) * count + np.arange(count)[None]
    inverse = m.where(_inside(segments, -offsets), back, none)
    values = segments.only_tokens(constant(values))
    rows = repeat_rows(values, inverse, reshape(owner, [-1]), holes=True)
    return _grouped(rows, segments.tokens, count)


@op
def sequence_overhang(segments: Segments, start: int, count: int) -> Variable:
    """Return the distance of each step of `sequence_context` from its sequence, int64 [T, count].

    -p for p steps before the first, p for p steps after the last, 0 inside.
    """
    position = unsqueeze(segments.position, 1) + _offsets(start, count)
    length = unsqueeze(gather(segments.lengths, segments.owner), 1)
    after = m.maximum(position - length + 1, 0)
    return m.minimum(position, 0) + after


@op
def sequence_top_k(segments: Segments, values: Variable, count: int) -> Variable:
    """Return the positions of the `count` largest of values [T] in each sequence, int64 [B, count].

    The largest comes first, of equal ones the earlier; -1 where a sequence has fewer steps.
    """
    padded = segments.pad(values, fill=-np.inf)
    filler = expand(constant(-np.inf, values.dtype), concat([segments.count, constant([count])]))
    padded = concat([padded, filler], axis=1)
    known = [(segments.lengths.dims[0], count)] * 2
    _, indices = apply("TopK", padded, np.array([count]), outputs=2, axis=1, known=known)
    return m.where(arange(count) < unsqueeze(segments.lengths, 1), indices, -1)


def _check_packed(*sequences):
    """Refuse the padded sub-sequences of a loop's step: all steps of it have the same sizes."""
    if any(type(segments) is not Segments for segments in sequences):
        raise GraphError("the sub-sequences that a step sees cannot get other lengths")


def _offsets(start, count):
    return np.arange(start, start + count, dtype=np.int64)[None]


def _inside(segments, offsets):
    """Check which steps at these offsets are in the same sequence, bool [T, count]."""
    position = unsqueeze(segments.position, 1) + offsets
    length = unsqueeze(gather(segments.lengths, segments.owner), 1)
    return m.logical_and(position >= 0, position < length)


def _grouped(rows, tokens, count):
    """Reshape rows [T count, ...] to [T, count, ...]."""
    sizes = rows.dims[1:]
    grouped = reshape(rows, [-1, count, *sizes])
    grouped = refined(grouped, (tokens, count, *sizes))
    return grouped
