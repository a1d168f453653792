"""Reductions, and softmax along an axis."""

import numpy as np

from ..graph.checks import axis_of
from ..graph.node import apply, composite
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from .math import cast
from .shape import Axes, axes_of, one_of


@op
def reduce_sum(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Sum over axes, all of them if None; a full reduction gives a scalar, shape ().

    Integers wrap around, as those of `+`. Bools and integers of 8 and 16 bits are added as int64.

    Args:
        x: numbers or bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.
        axes: another name of `axis`.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
        TypeError: both axis and axes are given.
    """
    return _reduce("ReduceSum", summable(x), one_of(axis, axes), keep_dim)


@op
def reduce_mean(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Mean over axes, all of them if None; of integers and bools it is float32, as of `/`.

    Args:
        x: numbers or bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.
        axes: another name of `axis`.

    Returns:
        Without these axes, floats.

    Raises:
        ShapeError: x has no such axis.
        TypeError: both axis and axes are given.
    """
    return _reduce("ReduceMean", fractions(x), one_of(axis, axes), keep_dim)


@op
def reduce_max(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Maximum over axes, all of them if None; NaN if an element is NaN.

    Equal elements share the gradient evenly, as in torch.amax; it is NaN where the maximum is.

    Args:
        x: numbers or bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.
        axes: another name of `axis`.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
        TypeError: both axis and axes are given.
    """
    return _extreme("ReduceMax", x, one_of(axis, axes), keep_dim)


@op
def reduce_min(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Minimum over axes, all of them if None; NaN if an element is NaN.

    Equal elements share the gradient evenly, as in torch.amin; it is NaN where the minimum is.

    Args:
        x: numbers or bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.
        axes: another name of `axis`.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
        TypeError: both axis and axes are given.
    """
    return _extreme("ReduceMin", x, one_of(axis, axes), keep_dim)


@op
def reduce_prod(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Product over axes, all of them if None; of integers it has the dtype of `reduce_sum`.

    Args:
        x: numbers or bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.
        axes: another name of `axis`.

    Returns:
        Without these axes.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
        TypeError: both axis and axes are given.
    """
    return _reduce("ReduceProd", summable(x), one_of(axis, axes), keep_dim)


@op
def arg_max(x: Operand, axis: int = -1, keep_dim: bool = False) -> Variable:
    """Index of the first maximum along an axis, int64; that of the first NaN if there is one.

    Args:
        x: numbers or bools of any shape.
        keep_dim: keep the axis, with size 1.

    Returns:
        Int64, without this axis.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
    """
    return apply("ArgMax", ordered(x), axis=axis, keepdims=int(keep_dim))


@op
def cum_sum(x: Operand, axis: int = 0) -> Variable:
    """Cumulative sum along an axis; of integers it has the dtype of `reduce_sum`.

    Args:
        x: numbers or bools of any shape.

    Returns:
        Of the shape of x.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
    """
    x = summable(x)
    return apply("CumSum", x, np.int64(axis_of(x, axis)))


@op
def softmax(x: Operand, axis: int = -1) -> Variable:
    """Softmax along an axis, e^x / sum(e^x)."""
    return apply("Softmax", x, axis=axis)


@op
def softmax_grad(y: Variable, dy: Variable, axis: int = -1) -> Variable:
    """Gradient of y = softmax(x) in x: y (dy - sum(dy y))."""
    return composite("SoftmaxGrad", y, dy, types=[(dy.dims, dy.dtype)], axis=axis)


@op
def log_softmax(x: Operand, axis: int = -1) -> Variable:
    """Logarithm of the softmax along an axis, without underflow.

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: x has no such axis.
    """
    return apply("LogSoftmax", x, axis=axis)


def summable(x: Operand) -> Variable:
    """Return x, or bools and integers of less than 32 bits as int64, as PyTorch adds them."""
    x = constant(x)
    return cast(x, np.int64) if x.dtype.kind in "biu" and x.dtype.itemsize < 4 else x


def fractions(x: Operand) -> Variable:
    """Return x, or integers and bools as float32: what a mean is made of."""
    x = constant(x)
    return x if x.dtype.kind == "f" else cast(x, np.float32)


def ordered(x: Operand) -> Variable:
    """Return x, or bools as bytes, for operators that order numbers only."""
    x = constant(x)
    return cast(x, np.uint8) if x.dtype.kind == "b" else x


def _extreme(op_type, x, axes, keep_dim):
    x = constant(x)
    if x.dtype in (np.int16, np.uint16):  # ONNX has these two of all integers not
        return cast(_reduce(op_type, cast(x, np.int32), axes, keep_dim), x.dtype)
    return _reduce(op_type, x, axes, keep_dim)


def _reduce(op_type, x, axes, keep_dim):
    x = constant(x)
    axes = axes_of(x, axes)
    if not axes:
        return x
    return apply(op_type, x, np.array(axes, np.int64), keepdims=int(keep_dim))
