"""Order: the largest elements, sorting, and what is left without duplicates."""

from ..graph.checks import axis_of
from ..graph.errors import ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from .reduce import ordered
from .shape import size_of
from .sizes import shape_operand


@op
def arg_min(x: Operand, axis: int = -1, keep_dim: bool = False) -> Variable:
    """Index of the first minimum along an axis, int64; that of the first NaN if there is one.

    Args:
        x: numbers or bools of any shape.
        keep_dim: keep the axis, with size 1.

    Returns:
        Int64, without this axis.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
    """
    return apply("ArgMin", ordered(x), axis=axis, keepdims=int(keep_dim))


@op
def top_k(
    x: Operand, k: int | Variable, axis: int = -1, largest: bool = True
) -> tuple[Variable, Variable]:
    """The k largest elements along an axis, or the smallest: (values, int64 indices), sorted.

    Of equal elements the earlier comes first; NaN counts as larger than every number. `k` is an
    integer or an integer Variable of one element.

    Args:
        x: numbers of any shape.
        k: how many.
        largest: False for the smallest.

    Raises:
        DTypeError: x is bool or text.
        ShapeError: the axis is known to have fewer elements, or there is no such axis.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    count, size = shape_operand([k]), x.dims[axis]
    known = None if count.value is None else int(count.value.item())
    if known is not None and (known < 0 or (isinstance(size, int) and known > size)):
        raise ShapeError(f"{known} elements of axis {axis} of {describe(x)}")
    values, indices = apply("TopK", x, count, axis=axis, largest=int(largest), sorted=1, outputs=2)
    return values, indices


@op
def sort(x: Operand, axis: int = -1, descending: bool = False) -> Variable:
    """Sort along an axis, NaN as the largest number; equal elements keep their order.

    Args:
        x: numbers of any shape.
        descending: begin with the largest.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is bool or text.
        ShapeError: x has no such axis.
    """
    return _sorted(x, axis, descending)[0]


@op
def argsort(x: Operand, axis: int = -1, descending: bool = False) -> Variable:
    """Indices that sort along an axis, int64, as `sort` does; equal elements keep their order.

    Args:
        x: numbers of any shape.
        descending: begin with the largest.

    Returns:
        Int64, of the shape of x.

    Raises:
        DTypeError: x is bool or text.
        ShapeError: x has no such axis.
    """
    return _sorted(x, axis, descending)[1]


def _sorted(x, axis, descending):
    x = constant(x)
    axis = axis_of(x, axis)
    count = x.dims[axis] if isinstance(x.dims[axis], int) else size_of(x, axis)
    values, indices = top_k(x, count, axis, largest=descending)
    # all elements are taken, so the axis keeps its size
    return [apply("Identity", v, known=x.dims) for v in (values, indices)]


@op
def unique(x: Operand, axis: int | None = None) -> tuple[Variable, Variable, Variable, Variable]:
    """Distinct elements, sorted: (values, first positions, inverse, counts), the last three int64.

    values[inverse] is x, flattened where no axis is given; with an axis whole slices are compared.
    How many there are is known only at run time.

    Args:
        x: numbers, bools or text of any shape.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    axis = None if axis is None else axis_of(x, axis)
    values, first, inverse, counts = apply("Unique", x, axis=axis, sorted=1, outputs=4)
    return values, first, inverse, counts
