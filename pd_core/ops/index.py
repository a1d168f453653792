"""Reading and writing by index."""

import numpy as np

from ..graph.checks import axis_of
from ..graph.errors import DTypeError
from ..graph.node import apply
from ..graph.variable import constant, describe
from .math import cast, equal
from .shape import arange, unsqueeze


def gather(x, index, axis=0):
    """Slices of x along an axis, one for each entry of an integer index of any rank."""
    return apply("Gather", x, index, axis=axis)


def gather_elements(x, index, axis=0):
    """out[i][j] = x[index[i][j]][j] (for axis 0): one element for each entry of the index."""
    x = constant(x)
    return apply("GatherElements", x, index, axis=axis_of(x, axis))


def scatter_add(x, index, values, axis=0):
    """x with values[i][j] added at x[index[i][j]][j] (for axis 0); duplicates accumulate.

    ScatterElements, whose CPU kernel is sequential; ScatterND(add) races on duplicates.
    """
    x = constant(x)
    return apply("ScatterElements", x, index, values, axis=axis_of(x, axis), reduction="add")


def scatter(x, index, values, axis=0, reduction="none"):
    """x with values[i][j] put at x[index[i][j]][j] (for axis 0): one for each entry of the index.

    They replace what is there, or are joined with it by the reduction `add`, `mul`, `max` or `min`;
    of elements that are equally extreme each has an even share of the gradient.
    """
    x = constant(x)
    return apply("ScatterElements", x, index, values, axis=axis_of(x, axis), reduction=reduction)


def gather_nd(x, index, batch_dims=0):
    """x[index[i, 0], index[i, 1], ...] for each row of an integer index [..., k].

    The first `batch_dims` axes of x and index go together.
    """
    return apply("GatherND", x, index, batch_dims=batch_dims)


def nonzero(x):
    """Where x is not zero, int64 [rank, count]: a column for each place."""
    return apply("NonZero", x)


def one_hot(index, size, dtype="float32"):
    """Rows with a 1 at each index: [...] -> [..., size]."""
    index = constant(index)
    if index.dtype.kind not in "iu":
        raise DTypeError(f"one_hot: an index is an integer, not {describe(index)}")
    index = unsqueeze(cast(index, np.int64), -1)
    return cast(equal(index, arange(size)), dtype)
