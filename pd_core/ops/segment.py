"""Sums, means, extremes and softmax over rows of one segment, as in graph networks.

The rows of a segment are anywhere: `ids` names the segment of each, such as the node that an edge
ends at. `Segments` is for rows that lie back to back.
"""

from typing import Any

import numpy as np

from ..graph.checks import sizes_differ
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .copies import full
from .gather import gather, scatter, scatter_add, within
from .shape import concat, expand_like, ones_like, reshape, shape_of, slice

_EMPTY = {"max": -np.inf, "min": np.inf}  # before anything is compared with it


@op
def segment_sum(x: Operand, ids: Operand, count: int | Variable) -> Variable:
    """Sum the rows of x [N, ...] of each segment: [count, ...]; zeros for an empty one.

    An id that is outside is an OutOfRange of the evaluation. PyTorch's index_add, TensorFlow's
    unsorted_segment_sum.

    Args:
        x: numbers [N, ...].
        ids: integers [N], from 0 to count - 1.
        count: the number of segments, an integer or a scalar Variable.

    Returns:
        [count, ...] of the dtype of x.

    Raises:
        DTypeError: `ids` are no integers.
        ShapeError: `ids` is not an id for each row of x.
    """
    return _sum(*_checked(x, ids, count), count)


@op
def segment_mean(x: Operand, ids: Operand, count: int | Variable) -> Variable:
    """Average the rows of x [N, ...] of each segment: [count, ...]; zeros for an empty one.

    Args:
        x: floats [N, ...].
        ids: integers [N], from 0 to count - 1.
        count: the number of segments, an integer or a scalar Variable.

    Returns:
        [count, ...] of the dtype of x.

    Raises:
        DTypeError: x are no floats, or `ids` no integers.
        ShapeError: `ids` is not an id for each row of x.
    """
    x, ids = _checked(x, ids, count, floats=True)
    one = ones_like(_column(ids, x.rank, x.dtype))
    return _sum(x, ids, count) / m.maximum(_sum(one, ids, count), 1.0)


@op
def segment_max(x: Operand, ids: Operand, count: int | Variable) -> Variable:
    """Take the largest value of the rows of x [N, ...] of each segment: [count, ...].

    Zeros for an empty one. Equal maxima share the gradient evenly.

    Args:
        x: floats [N, ...].
        ids: integers [N], from 0 to count - 1.
        count: the number of segments, an integer or a scalar Variable.

    Returns:
        [count, ...] of the dtype of x.

    Raises:
        DTypeError: x are no floats, or `ids` no integers.
        ShapeError: `ids` is not an id for each row of x.
    """
    return _extreme(*_checked(x, ids, count, floats=True), count, "max")


@op
def segment_min(x: Operand, ids: Operand, count: int | Variable) -> Variable:
    """Take the smallest value of the rows of x [N, ...] of each segment; see `segment_max`.

    Args:
        x: floats [N, ...].
        ids: integers [N], from 0 to count - 1.
        count: the number of segments, an integer or a scalar Variable.

    Returns:
        [count, ...] of the dtype of x.

    Raises:
        DTypeError: x are no floats, or `ids` no integers.
        ShapeError: `ids` is not an id for each row of x.
    """
    return _extreme(*_checked(x, ids, count, floats=True), count, "min")


@op
def segment_softmax(x: Operand, ids: Operand, count: int | Variable) -> Variable:
    """Softmax over the rows of x [N, ...] of each segment, elementwise: [N, ...].

    Attention of graph networks (Velickovic et al. 2018).

    Args:
        x: floats [N, ...].
        ids: integers [N], from 0 to count - 1.
        count: the number of segments, an integer or a scalar Variable.

    Returns:
        [N, ...] of the dtype of x.

    Raises:
        DTypeError: x are no floats, or `ids` no integers.
        ShapeError: `ids` is not an id for each row of x.
    """
    x, ids = _checked(x, ids, count, floats=True)
    powers = m.exp(x - gather(_extreme(x, ids, count, "max"), ids))
    return powers / gather(_sum(powers, ids, count), ids)


def _sum(x: Variable, ids: Variable, count: int | Variable) -> Variable:
    """The sums of rows and ids that are checked."""
    start = _rows(x, count, 0)
    return refined(scatter_add(start, _spread(ids, x), x), start.dims)


def _extreme(x: Variable, ids: Variable, count: int | Variable, which: str) -> Variable:
    start = _rows(x, count, _EMPTY[which])
    y = scatter(start, _spread(ids, x), x, reduction=which)
    taken = _sum(ones_like(_column(ids, x.rank, x.dtype)), ids, count) > 0.0
    return refined(m.where(taken, y, constant(0, x.dtype)), start.dims)


def _checked(
    x: Operand, ids: Operand, count: int | Variable, floats: bool = False
) -> tuple[Variable, Variable]:
    """Rows and the segments of them, which must be within the count."""
    x, ids = constant(x), constant(ids)
    if x.rank == 0 or ids.rank != 1 or sizes_differ(x.dims[0], ids.dims[0]):
        raise ShapeError(f"takes rows and an id for each, not {describe(x)} and {describe(ids)}")
    if ids.dtype.kind not in "iu":
        raise DTypeError(f"the ids are integers, not {describe(ids)}")
    if floats and x.dtype.kind != "f":
        raise DTypeError(f"takes floats, not {describe(x)}")
    return x, m.cast(within(ids, count), np.int64)


def _rows(x, count, value):
    """Rows like those of x, with one value."""
    rest, is_known = x.dims[1:], not isinstance(count, Variable)
    shape: Any = [count, *rest]
    if not is_known or not all(isinstance(d, int) for d in rest):
        first = reshape(m.cast(count, np.int64), [1])
        shape = concat([first, slice(shape_of(x), [1], [x.rank])])
    y = full(shape, value, x.dtype)
    return refined(y, (count if is_known else y.dims[0], *rest))


def _column(ids, rank, dtype):
    """The ids as [N, 1, ...], of a rank and dtype."""
    return m.cast(reshape(ids, [-1, *[1] * (rank - 1)]), dtype)


def _spread(ids, x):
    """The segment of each element of x."""
    return ids if x.rank == 1 else expand_like(_column(ids, x.rank, np.int64), x)
