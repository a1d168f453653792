"""Reading and writing by index."""

import numpy as np

from ..node import apply
from ..variable import constant
from .math import cast, equal
from .shape import arange, unsqueeze


def gather(x, index, axis=0):
    """Slices of x along an axis, one for each entry of an integer index of any rank."""
    return apply("Gather", x, index, axis=axis)


def gather_elements(x, index, axis=0):
    """out[i][j] = x[index[i][j]][j] (for axis 0): one element for each entry of the index."""
    x = constant(x)
    return apply("GatherElements", x, index, axis=_from_front(x, axis))


def scatter_add(x, index, values, axis=0):
    """x with values[i][j] added at x[index[i][j]][j] (for axis 0); duplicates accumulate.

    ScatterElements, whose CPU kernel is sequential; ScatterND(add) races on duplicates.
    """
    x = constant(x)
    return apply("ScatterElements", x, index, values, axis=_from_front(x, axis), reduction="add")


def one_hot(index, size, dtype="float32"):
    """Rows with a 1 at each index: [...] -> [..., size]."""
    index = cast(index, np.int64)
    return cast(equal(unsqueeze(index, -1), arange(size)), np.dtype(dtype))


def _from_front(x, axis):
    """A negative axis counted from the front; ONNX says which are out of range."""
    return axis + x.rank if axis < 0 else axis
