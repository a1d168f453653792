"""Reading and writing by index."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import axis_of
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.recording import recorder
from ..graph.variable import Dim, Operand, Variable, constant, describe
from .math import cast, equal, minimum, where
from .shape import arange, unsqueeze


@op
def gather(x: Operand, index: Operand, axis: int = 0) -> Variable:
    """Take slices of x along an axis, one for each entry of an index of any rank and integer type.

    Negative indices count from the end. One outside -n … n - 1 is an OutOfRange error on a CPU.
    Rows of a sharded table are looked up, wherever they are, see `ShardedTable.lookup`.

    Args:
        x: of any dtype.
        index: integers of any shape.

    Returns:
        The axis of x is replaced by those of the index.

    Raises:
        DTypeError: the index is no integer.
        ShapeError: x has no such axis.
    """
    table = _table_of(x)
    if table is not None and axis == 0:
        rows: Variable = table.lookup(index)
        return rows
    recording = recorder()
    if recording is not None and isinstance(index, (int, np.integer)):
        index = recording.changing(constant(int(index)))
    return apply("Gather", x, _index(index), axis=axis)


def gather_stored(x: Variable, rows: Variable) -> Variable:
    """Take rows of what this process stores of x, by their places there, int32 or int64."""
    return apply("Gather", x, rows, axis=0)


def rows_of(x: Variable) -> Dim:
    """Return the number of rows that `gather` takes from x: of a sharded table all of them."""
    table = _table_of(x)
    height: Dim = x.dims[0] if table is None else table.height
    return height


def _table_of(x: Any) -> Any:
    """The sharded table whose parameter x is, else None."""
    if not isinstance(x, Variable) or not x.is_shard:
        return None
    table = x.storage.table
    return table if table.shard is x else None


def _index(index: Operand, *kernels: type) -> Variable:
    """Return an index of any integer type in one that kernels take, int32 or int64."""
    index = constant(index)
    if index.dtype.kind not in "iu" or index.dtype in (kernels or (np.int32, np.int64)):
        return index  # other types are refused with the operator that gets it
    if index.dtype == np.uint64:  # beyond int64 it would be negative, and count from the end
        index = minimum(index, constant(np.uint64(np.iinfo(np.int64).max)))
    return cast(index, np.int64)


def within(index: Operand, size: int | Variable) -> Variable:
    """Return an integer index for `gather` in which a negative one does not count from the end.

    It is an OutOfRange error on a CPU, as one of `size` or more is.
    """
    index = constant(index)
    if index.dtype not in (np.int32, np.int64):  # small types do not have `size`
        index = cast(index, np.int64)
    value, limit = index.value, size.value if isinstance(size, Variable) else size
    if value is not None and not ((value < 0) | (limit is not None and value >= limit)).any():
        return index
    return where(index < 0, cast(size, index.dtype), index)


def chosen(index: Operand, classes: int) -> Variable:
    """Return an integer index, int64, of which one outside 0 … classes - 1 is refused.

    For labels that arithmetic comes between and the tables that they choose from.
    """
    index = constant(index)
    if index.value is not None and ((index.value >= 0) & (index.value < classes)).all():
        return cast(index, np.int64)
    return gather(constant(np.arange(classes)), within(index, classes))


@op
def gather_elements(x: Operand, index: Operand, axis: int = 0) -> Variable:
    """Take one element per entry of the index: out[i, j] = x[index[i, j], j] for axis 0.

    Args:
        x: of any dtype.
        index: integers, with as many axes as x.

    Returns:
        Of the shape of the index.

    Raises:
        DTypeError: the index is no integer.
        ShapeError: x has no such axis.
    """
    x = constant(x)
    return apply("GatherElements", x, _index(index), axis=axis_of(x, axis))


@op
def scatter_add(x: Operand, index: Operand, values: Operand, axis: int = 0) -> Variable:
    """Copy x and add values[i, j] at [index[i, j], j] (for axis 0); duplicates accumulate.

    Args:
        x: numbers of any shape.
        index: integers, with as many axes as x.
        values: in the shape of the index.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: the index is no integer.
        ShapeError: x has no such axis.
    """
    # ScatterElements, whose CPU kernel is sequential: ScatterND(add) races on duplicates
    x = constant(x)
    at = _index(index)
    return apply("ScatterElements", x, at, values, axis=axis_of(x, axis), reduction="add")


@op
def scatter(
    x: Operand, index: Operand, values: Operand, axis: int = 0, reduction: str = "none"
) -> Variable:
    """Copy x and set its element [index[i, j], j] to values[i, j] (for axis 0).

    With the reduction `add`, `mul`, `max` or `min` the old and the new element are combined
    instead; equal extremes share the gradient evenly.

    Args:
        x: of any dtype.
        index: integers, with as many axes as x.
        values: in the shape of the index.
        reduction: None, "add", "mul", "max" or "min".

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: the index is no integer.
        ShapeError: x has no such axis.
    """
    x = constant(x)
    at = _index(index)
    return apply("ScatterElements", x, at, values, axis=axis_of(x, axis), reduction=reduction)


@op
def gather_nd(x: Operand, index: Operand, batch_dims: int = 0) -> Variable:
    """Take x[index[i, 0], index[i, 1], ...] for each row of an integer index [..., k].

    The first `batch_dims` axes are batch axes, common to x and index.

    Args:
        x: of any dtype.
        index: integers [..., k].

    Returns:
        [..., *x.shape[k:]].

    Raises:
        DTypeError: the index is no integer.
    """
    return apply("GatherND", x, _index(index, np.int64), batch_dims=batch_dims)


@op
def nonzero(x: Operand) -> Variable:
    """Indices of the elements that are not zero, int64 [rank, count]: a column for each.

    Args:
        x: numbers or bools of any shape.

    Returns:
        Int64 [rank, count].
    """
    return apply("NonZero", x)


@op
def one_hot(index: Operand, size: int | Variable, dtype: DTypeLike = "float32") -> Variable:
    """One-hot vectors of an integer index: [...] -> [..., size].

    An index outside 0 … size - 1, such as -1 for none, gives zeros.

    Args:
        index: integers of any shape.
        size: how many classes there are.

    Returns:
        [..., size].

    Raises:
        DTypeError: the index is no integer.
        ShapeError: the size is negative.
    """
    index = constant(index)
    if index.dtype.kind not in "iu":
        raise DTypeError(f"an index is an integer, not {describe(index)}")
    if isinstance(size, (int, np.integer)) and size < 0:
        raise ShapeError(f"a size is not negative, {size}")
    index = unsqueeze(cast(index, np.int64), -1)
    return cast(equal(index, arange(size)), dtype)
