"""Reading and writing by index."""

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import axis_of
from ..graph.errors import DTypeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.recording import recorder
from ..graph.variable import Operand, Variable, constant, describe
from .math import cast, equal, where
from .shape import arange, unsqueeze


@op
def gather(x: Operand, index: Operand, axis: int = 0) -> Variable:
    """Take slices of x along an axis, one for each entry of an integer index of any rank.

    Negative indices count from the end. One outside -n … n - 1 is an OutOfRange error on a CPU.
    """
    recording = recorder()
    if recording is not None and isinstance(index, (int, np.integer)):
        index = recording.changing(constant(int(index)))
    return apply("Gather", x, index, axis=axis)


def within(index: Operand, size: int | Variable) -> Variable:
    """Return an integer index for `gather` in which a negative one does not count from the end.

    It is an OutOfRange error on a CPU, as one of `size` or more is.
    """
    index = constant(index)
    if index.value is not None and not (index.value < 0).any():
        return index
    return where(index < 0, cast(size, index.dtype), index)


@op
def gather_elements(x: Operand, index: Operand, axis: int = 0) -> Variable:
    """Take one element per entry of the index: out[i, j] = x[index[i, j], j] for axis 0."""
    x = constant(x)
    return apply("GatherElements", x, index, axis=axis_of(x, axis))


@op
def scatter_add(x: Operand, index: Operand, values: Operand, axis: int = 0) -> Variable:
    """Copy x and add values[i, j] at [index[i, j], j] (for axis 0); duplicates accumulate."""
    # ScatterElements, whose CPU kernel is sequential: ScatterND(add) races on duplicates
    x = constant(x)
    return apply("ScatterElements", x, index, values, axis=axis_of(x, axis), reduction="add")


@op
def scatter(
    x: Operand, index: Operand, values: Operand, axis: int = 0, reduction: str = "none"
) -> Variable:
    """Copy x and set its element [index[i, j], j] to values[i, j] (for axis 0).

    With the reduction `add`, `mul`, `max` or `min` the old and the new element are combined
    instead; equal extremes share the gradient evenly.
    """
    x = constant(x)
    return apply("ScatterElements", x, index, values, axis=axis_of(x, axis), reduction=reduction)


@op
def gather_nd(x: Operand, index: Operand, batch_dims: int = 0) -> Variable:
    """Take x[index[i, 0], index[i, 1], ...] for each row of an integer index [..., k].

    The first `batch_dims` axes are batch axes, common to x and index.
    """
    return apply("GatherND", x, index, batch_dims=batch_dims)


@op
def nonzero(x: Operand) -> Variable:
    """Indices of the elements that are not zero, int64 [rank, count]: a column for each."""
    return apply("NonZero", x)


@op
def one_hot(index: Operand, size: int | Variable, dtype: DTypeLike = "float32") -> Variable:
    """One-hot vectors of an integer index: [...] -> [..., size].

    An index outside 0 … size - 1, such as -1 for none, gives zeros.
    """
    index = constant(index)
    if index.dtype.kind not in "iu":
        raise DTypeError(f"an index is an integer, not {describe(index)}")
    index = unsqueeze(cast(index, np.int64), -1)
    return cast(equal(index, arange(size)), dtype)
