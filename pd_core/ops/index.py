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
    return apply("GatherElements", x, index, axis=axis)


def scatter_add(x, index, values, axis=0):
    """x with values[i][j] added at x[index[i][j]][j] (for axis 0); duplicates accumulate.

    ScatterElements, whose CPU kernel is sequential; ScatterND(add) races on duplicates.
    """
    return apply("ScatterElements", x, index, values, axis=axis, reduction="add")


def one_hot(index, size, dtype="float32"):
    """Rows with a 1 at each index: [...] -> [..., size]."""
    classes = arange(size)
    return cast(equal(unsqueeze(constant(index), -1), classes), np.dtype(dtype))
