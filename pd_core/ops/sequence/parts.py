"""Packed sequences cut into parts, joined, and seen through windows.

Where the rows of a result stand is computed from lengths, and so is where each of the given ones
went: a gradient gathers, it never scatters.
"""

import numpy as np

from ...graph.errors import GraphError, ShapeError
from ...graph.node import apply, refined
from ...graph.variable import constant, fresh_dim
from .. import math as m
from ..index import gather
from ..reduce import cum_sum, reduce_sum
from ..shape import arange, concat, expand, reshape, unsqueeze
from .segments import Segments, exchange_rows, repeat_rows


def sequence_windows(segments, size, from_end=False):
    """Every sequence in windows of `size` steps: (windows of sequences, steps of windows).

    Both are Segments. The last window of a sequence may be shorter; with `from_end` they are
    counted from the end, and it is the first one.
    """
    if size < 1:
        raise ShapeError(f"sequence_windows: a window has at least 1 step, not {size}")
    _check_packed("sequence_windows", segments)
    lengths = segments.lengths
    outer = Segments(m.div(m.add(lengths, size - 1), size))
    start = m.mul(outer.position, size)
    if from_end:
        missing = m.sub(m.mul(outer.lengths, size), lengths)
        start = m.sub(start, gather(missing, outer.owner))
    end = m.minimum(m.add(start, size), gather(lengths, outer.owner))
    return outer, Segments(m.sub(end, m.maximum(start, 0)), segments.tokens)


def sequence_concat(a, b, x, y):
    """Each sequence of x [T, ...] and then the one of y: (Segments, values).

    a and b are the Segments of x and y, equally many sequences.
    """
    _check_packed("sequence_concat", a, b)
    joined = Segments(m.add(a.lengths, b.lengths))
    place, length = joined.position, gather(a.lengths, joined.owner)
    in_x = m.add(gather(a.starts, joined.owner), place)
    in_y = m.add(gather(m.sub(m.add(b.starts, a.total), a.lengths), joined.owner), place)
    index = m.where(m.less_than(place, length), in_x, in_y)
    from_x = m.add(gather(joined.starts, a.owner), a.position)
    from_y = m.add(gather(m.add(joined.starts, a.lengths), b.owner), b.position)
    return joined, exchange_rows(concat([x, y]), index, concat([from_x, from_y]))


def sequence_cut(segments, values, starts, lengths):
    """Slices of sequences: (slices of sequences, steps of slices, values).

    starts and lengths are int64 [B, K], for up to K slices of each of the B sequences: where one
    begins in its sequence, and how many steps it has; a negative length is no slice. They stand
    in the order of rows, then columns, and must lie within their sequence; they may overlap.
    """
    _check_packed("sequence_cut", segments)
    there = m.greater_equal(lengths, 0)
    sizes = m.maximum(lengths, 0)
    flat = reshape(sizes, [-1])
    found = reshape(apply("NonZero", reshape(there, [-1]), known=(1, fresh_dim())), [-1])
    chosen = Segments(reduce_sum(m.cast(there, np.int64), [1]), found.dims[0])
    parts = Segments(gather(flat, found))
    first = reshape(m.add(unsqueeze(segments.starts, 1), starts), [-1])
    source = m.add(gather(gather(first, found), parts.owner), parts.position)
    # each token: whether it is in a slice k of its sequence, and where it stands there
    place = m.sub(unsqueeze(segments.position, 1), gather(starts, segments.owner))
    inside = m.logical_and(
        m.greater_equal(place, 0), m.less_than(place, gather(sizes, segments.owner))
    )
    before = reshape(m.sub(cum_sum(flat), flat), [-1, lengths.dims[1]])
    went = m.add(gather(before, segments.owner), place)
    inverse = m.where(inside, went, parts.total)
    return chosen, parts, repeat_rows(values, inverse, source)


def sequence_context(segments, values, start, count):
    """The steps t + start, …, t + start + count - 1 around each step t: [T, count, ...].

    Places outside the sequence are zero.
    """
    offsets = _offsets(start, count)
    numbers = unsqueeze(segments.numbers, 1)
    none = m.mul(segments.total, count)
    owner = m.where(_inside(segments, offsets), m.add(numbers, offsets), segments.total)
    back = m.add(m.mul(m.sub(numbers, offsets), count), np.arange(count)[None])
    inverse = m.where(_inside(segments, -offsets), back, none)
    values = segments.only_tokens(values)
    rows = repeat_rows(values, inverse, reshape(owner, [-1]), holes=True)
    return _grouped(rows, segments.tokens, count)


def sequence_overrun(segments, start, count):
    """How far each place of `sequence_context` lies outside, int64 [T, count].

    -p for p steps before the sequence, p for p steps after its last, 0 inside.
    """
    place = m.add(unsqueeze(segments.position, 1), _offsets(start, count))
    length = unsqueeze(gather(segments.lengths, segments.owner), 1)
    after = m.maximum(m.add(m.sub(place, length), 1), 0)
    return m.add(m.minimum(place, 0), after)


def sequence_top(segments, values, count):
    """Where in its sequence the `count` largest of values [T] stand, int64 [B, count].

    The largest comes first, the earlier of equal ones; -1 stands where a sequence has no more.
    """
    padded = segments.pad(values, fill=-np.inf)
    few = expand(constant(-np.inf, values.dtype), concat([segments.count, constant([count])]))
    padded = concat([padded, few], axis=1)
    known = [(segments.lengths.dims[0], count)] * 2
    _, places = apply("TopK", padded, np.array([count]), outputs=2, axis=1, known=known)
    return m.where(m.less_than(arange(count), unsqueeze(segments.lengths, 1)), places, -1)


def _check_packed(who, *several):
    """A step of a loop has the same sizes as any other, so what is there is not packed."""
    if any(type(segments) is not Segments for segments in several):
        raise GraphError(f"{who}: the sub-sequences that a step sees cannot get other lengths")


def _offsets(start, count):
    return np.arange(start, start + count, dtype=np.int64)[None]


def _inside(segments, offsets):
    """Whether the steps at these distances are in the same sequence, bool [T, count]."""
    place = m.add(unsqueeze(segments.position, 1), offsets)
    length = unsqueeze(gather(segments.lengths, segments.owner), 1)
    return m.logical_and(m.greater_equal(place, 0), m.less_than(place, length))


def _grouped(rows, tokens, count):
    """rows [T count, ...] as [T, count, ...]."""
    sizes = rows.dims[1:]
    grouped = reshape(rows, [-1, count, *sizes])
    grouped = refined(grouped, (tokens, count, *sizes))
    return grouped
