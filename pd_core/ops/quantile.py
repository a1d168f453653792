"""Order statistics: quantiles, places in sorted numbers, histograms."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.checks import differ, sizes_differ
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .control import for_loop
from .copies import all_known, full, move_axis
from .gather import gather, gather_elements
from .order import sort
from .promotion import comparable
from .reduce import Axes, fractions, reduce_max, reduce_min, reduce_sum
from .segment import segment_sum
from .shape import (
    axes_of,
    concat,
    ones_like,
    product_of_sizes,
    reshape,
    size_of,
    slice,
    squeeze,
    transpose,
    unsqueeze,
    zeros_like,
)


@op
def quantile(
    x: Operand,
    q: float | Sequence[float] | np.ndarray,
    axis: Axes | None = None,
    keep_dim: bool = False,
) -> Variable:
    """q-quantiles over axes, all of them if None: linear between the two nearest elements.

    It is NaN where an element is NaN, and of no elements along axes of open size, as np.median is.
    Gradients go to the two elements, by their shares.

    Args:
        x: numbers of any shape; integers become float32.
        q: a number within [0, 1], or a vector of k of them.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Without these axes, floats; for a vector q with a first axis of size k.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis, is known to have no elements there, or q is no number or
            vector.
        ValueError: q is outside [0, 1].
    """
    x = fractions(_numbers(x))
    levels = np.asarray(q, np.float64)
    if levels.ndim > 1:
        raise ShapeError(f"q is a number or a vector, not of shape {list(levels.shape)}")
    if not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"quantile: q is within [0, 1], not {levels.tolist()}")
    axes = sorted(axes_of(x, axis))
    if any(x.dims[a] == 0 for a in axes):
        raise ShapeError(f"no elements over axes {axes} of {describe(x)}")
    ordered = _or_nan(sort(_together(x, axes), -1))
    low, high, weight = _between(ordered, levels.reshape(-1))
    below, above = gather(ordered, low, -1), gather(ordered, high, -1)
    weight = m.cast(weight, x.dtype)
    # an infinite neighbour whose share is 0 does not count
    result = m.where(m.equal(weight, 0.0), below, below * (1.0 - weight) + above * weight)
    largest = slice(ordered, [-1], [np.iinfo(np.int64).max], [-1])  # NaN is sorted last
    result = m.where(m.is_nan(largest), largest, result)
    result = move_axis(result, -1, 0) if levels.ndim else squeeze(result, -1)
    return unsqueeze(result, [a + levels.ndim for a in axes]) if keep_dim and axes else result


@op
def median(x: Operand, axis: Axes | None = None, keep_dim: bool = False) -> Variable:
    """Median over axes, all of them if None; of an even number the mean of the two in the middle.

    That is NumPy's and Keras's; torch.median takes the lower of the two. It is NaN where an
    element is NaN, and of no elements along axes of open size, as in NumPy.

    Args:
        x: numbers of any shape; integers become float32.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Without these axes, floats.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis, or is known to have no elements there.
    """
    return quantile(x, 0.5, axis, keep_dim)


@op
def searchsorted(boundaries: Operand, x: Operand, side: str = "left") -> Variable:
    """Places in sorted numbers before which x may be inserted, int64: by bisection.

    With the side "left" boundaries[i - 1] < x <= boundaries[i], with "right"
    boundaries[i - 1] <= x < boundaries[i]. NaN is sorted last.

    Args:
        boundaries: sorted numbers [n], or [..., n] with a row for each row of x; n < 2^31.
        x: numbers of any shape, or [..., k].
        side: "left" or "right".

    Returns:
        Int64, of the shape of x.

    Raises:
        DTypeError: an operand is text, or the dtypes differ.
        ShapeError: the leading sizes differ.
        ValueError: the side is another one.
    """
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: the side is "left" or "right", not {side!r}')
    a, x = (constant(v) for v in comparable(boundaries, x))
    by_row = a.rank > 1
    if not a.rank or (by_row and (a.rank != x.rank or _lead_differs(a, x))):
        raise ShapeError(f"places of {describe(x)} in {describe(a)}")
    n: Any = a.dims[-1]
    place = refined(m.cast(zeros_like(x), np.int64), x.dims)

    def further(place, step):
        beyond = place + step
        index = m.minimum(beyond, n) - 1
        value = gather_elements(a, index, -1) if by_row else gather(a, index)
        passed = m.logical_and(beyond <= n, _is_before(value, x, side))
        return refined(m.where(passed, beyond, place), x.dims)

    if isinstance(n, int):
        for step in (1 << k for k in reversed(range(n.bit_length()))):
            place = further(place, step)
        return place
    n = squeeze(size_of(a, -1), 0)
    a = concat([a, ones_like(slice(a, [0], [1], [-1]))], -1) if by_row else _with_one_more(a)
    powers = constant(2 ** np.arange(31))
    steps = reduce_sum(m.cast(powers <= n, np.int64))
    place, _ = for_loop(
        steps, lambda k, place: (further(place, gather(powers, steps - 1 - k)), []), place
    )
    return place


@op
def histogram(
    x: Operand,
    bins: int | Operand = 10,
    low: float | None = None,
    high: float | None = None,
    weights: Operand | None = None,
) -> tuple[Variable, Variable]:
    """Count the elements of x in bins: (counts [bins], edges [bins + 1]).

    A bin has its lower edge, and the last one its upper edge, too. Elements outside, and NaN, are
    not counted.

    Args:
        x: numbers of any shape; integers become float32.
        bins: how many of one width there are, or sorted edges [bins + 1].
        low: the first edge; by default the smallest element.
        high: the last edge; by default the largest element.
        weights: floats in the shape of x to add instead of ones.

    Returns:
        Counts, int64 or of the dtype of the weights; edges, of the dtype of x.

    Raises:
        DTypeError: x is text.
        ShapeError: the edges are no vector of two or more, or the weights have another shape.
        ValueError: there is no bin, or one of low and high alone, or low is not below high.
    """
    whole = _numbers(x)
    x = reshape(fractions(whole), [-1])
    dtype = x.dtype
    if dtype == np.float16:  # rounded edges would leave out the elements that they are
        x = m.cast(x, np.float32)
    edges = _edges(x, bins, low, high)
    count = edges.dims[0]
    if edges.rank != 1 or not isinstance(count, int) or count < 2:
        raise ShapeError(f"edges are a vector of two or more, not {describe(edges)}")
    last, bins = gather(edges, count - 1), count - 1
    bin_of = searchsorted(edges, x, "right") - 1
    bin_of = m.where(m.equal(x, last), bins - 1, bin_of)
    counted = m.logical_and(bin_of >= 0, bin_of < bins)
    if weights is None:
        weights = m.cast(ones_like(x), np.int64)
    else:
        weights = constant(weights)
        if differ(weights, whole):
            raise ShapeError(f"weights {describe(weights)} of {describe(whole)}")
        weights = reshape(weights, [-1])
    sums = segment_sum(weights, m.where(counted, bin_of, bins), bins + 1)
    return slice(sums, [0], [bins]), m.cast(edges, dtype)


def _edges(x, bins, low, high):
    """Edges of bins, whose number or edges are given."""
    if not isinstance(bins, (int, np.integer)):
        return m.cast(bins, x.dtype)
    if bins < 1:
        raise ValueError(f"histogram: one bin or more, not {bins}")
    if (low is None) != (high is None):
        raise ValueError(f"histogram: both low and high, or none, not {low} and {high}")
    share = np.linspace(0.0, 1.0, bins + 1)
    if low is not None and high is not None:
        if not low < high:
            raise ValueError(f"histogram: low is below high, not {low} and {high}")
        return constant(np.linspace(low, high, bins + 1), x.dtype)
    smallest, largest = reduce_min(x), reduce_max(x)
    none = smallest > largest  # of no elements
    smallest, largest = m.where(none, 0.0, smallest), m.where(none, 1.0, largest)
    one = m.equal(smallest, largest)
    smallest, largest = (
        m.where(one, edge + half, edge) for edge, half in ((smallest, -0.5), (largest, 0.5))
    )
    upper = constant(share, x.dtype)
    return smallest * (1.0 - upper) + largest * upper


def _numbers(x):
    x = constant(x)
    if x.dtype.kind not in "biuf":
        raise DTypeError(f"takes numbers or bools, not {describe(x)}")
    return x


def _together(x, axes):
    """Bring axes to the end, as one."""
    if not axes:
        return unsqueeze(x, -1)
    if len(axes) == x.rank:
        return reshape(x, [-1])
    if len(axes) == 1:
        return move_axis(x, axes[0], -1)
    others = [a for a in range(x.rank) if a not in axes]
    y = transpose(x, [*others, *axes])
    if any(x.dims[a] == 0 for a in others):  # no elements, of which ONNX infers no sizes
        for a in range(len(others), x.rank):
            y = slice(y, [0], [1], [a])
        return reshape(y, [*[0] * len(others), 1])
    if all_known([x.dims[a] for a in axes]):
        count = int(np.prod([x.dims[a] for a in axes]))
        return reshape(y, [*[0] * len(others), count])
    sizes = [*(size_of(x, a) for a in others), product_of_sizes(x, axes)]
    y = reshape(y, concat(sizes))
    return refined(y, (*(x.dims[a] for a in others), y.dims[-1]))


def _or_nan(ordered):
    """Rows of an open size that runs find to be 0 with a NaN in them; others as they are."""
    if isinstance(ordered.dims[-1], int):
        return ordered
    lead = [d if isinstance(d, int) else size_of(ordered, a) for a, d in enumerate(ordered.dims)]
    missing = m.maximum(1 - lead.pop(), 0)
    return concat([ordered, full([*lead, missing], np.nan, ordered.dtype)], -1)


def _between(ordered, levels):
    """Indices of the neighbours of quantiles along the last axis, and the share of the upper."""
    n = ordered.dims[-1]
    if isinstance(n, int):
        place = levels * (n - 1)
        low = np.floor(place).astype(np.int64)
        return (
            constant(low),
            constant(np.minimum(low + 1, n - 1)),
            constant(place - low, np.float64),
        )
    last = size_of(ordered, -1) - 1
    place = m.cast(last, np.float64) * constant(levels, np.float64)
    whole = m.floor(place)
    low = m.cast(whole, np.int64)
    return low, m.minimum(low + 1, last), place - whole


def _lead_differs(a, b):
    return any(sizes_differ(p, q) for p, q in zip(a.dims[:-1], b.dims[:-1], strict=True))


def _with_one_more(a):
    """A vector with another element, so that an empty one can be indexed."""
    return concat([a, m.cast(constant([0]), a.dtype)])


def _is_before(a, x, side):
    """Whether a boundary is sorted before x, or with the side "right" before or beside it."""
    before = a < x if side == "left" else a <= x
    if x.dtype.kind != "f":
        return before
    other = m.logical_not(m.is_nan(a)) if side == "left" else constant(True)
    return m.logical_or(before, m.logical_and(m.is_nan(x), other))
