"""Reductions, and softmax along an axis."""

import numpy as np

from ..graph.checks import axis_of
from ..graph.node import apply, composite
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from .shape import Axes, axes_of, one_of


@op
def reduce_sum(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Sum over axes, all of them if None; a full reduction gives a scalar, shape ()."""
    return _reduce("ReduceSum", x, one_of(axis, axes), keep_dim)


@op
def reduce_mean(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Mean over axes, all of them if None."""
    return _reduce("ReduceMean", x, one_of(axis, axes), keep_dim)


@op
def reduce_max(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Maximum over axes, all of them if None.

    Equal elements share the gradient evenly, as in torch.amax.
    """
    return _reduce("ReduceMax", x, one_of(axis, axes), keep_dim)


@op
def reduce_min(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Minimum over axes, all of them if None.

    Equal elements share the gradient evenly, as in torch.amin.
    """
    return _reduce("ReduceMin", x, one_of(axis, axes), keep_dim)


@op
def reduce_prod(
    x: Operand, axis: Axes | None = None, keep_dim: bool = False, *, axes: Axes | None = None
) -> Variable:
    """Product over axes, all of them if None."""
    return _reduce("ReduceProd", x, one_of(axis, axes), keep_dim)


@op
def arg_max(x: Operand, axis: int = -1, keep_dim: bool = False) -> Variable:
    """Index of the first maximum along an axis, int64."""
    return apply("ArgMax", x, axis=axis, keepdims=int(keep_dim))


@op
def cum_sum(x: Operand, axis: int = 0) -> Variable:
    """Cumulative sum along an axis."""
    x = constant(x)
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
    """Logarithm of the softmax along an axis, without underflow."""
    return apply("LogSoftmax", x, axis=axis)


def _reduce(op_type, x, axes, keep_dim):
    x = constant(x)
    axes = axes_of(x, axes)
    if not axes:
        return x
    return apply(op_type, x, np.array(axes, np.int64), keepdims=int(keep_dim))
