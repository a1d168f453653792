"""Reductions that are computed from others: variance, norms, log-sum-exp, any and all."""

import math

import numpy as np

from ..graph.checks import floats
from ..graph.errors import DTypeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from .control import scan
from .copies import move_axis
from .gather import gather
from .math import (
    abs,
    cast,
    equal,
    exp,
    greater_than,
    less_than,
    log,
    logical_not,
    maximum,
    pow,
    sqrt,
    where,
)
from .mode import stop_gradient
from .reduce import Axes, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum, summable
from .shape import axes_of, ones_like, shape_of, squeeze


@op
def logsumexp(x: Operand, axis: Axes | None = None, keep_dim: bool = False) -> Variable:
    """ln(sum e^x) over axes, all of them if None, without overflow.

    The sum of nothing but -inf is -inf, with a gradient of 0.

    Args:
        x: floats of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: x has no such axis.
    """
    x = floats(x)
    axes = axes_of(x, axis)
    top = stop_gradient(reduce_max(x, axes, keep_dim=True))
    top = where(less_than(abs(top), math.inf), top, 0.0)  # inf - inf is NaN
    total = reduce_sum(exp(x - top), axes, keep_dim=True)
    none = equal(total, 0.0)
    result = where(none, -math.inf, log(where(none, 1.0, total)) + top)
    return result if keep_dim else _squeezed(result, axes)


@op
def var(
    x: Operand, axis: Axes | None = None, *, keep_dim: bool = False, correction: float = 1.0
) -> Variable:
    """Variance over axes, all of them if None: sum (x - mean)^2 / (n - correction).

    A correction of 1, the default as in PyTorch, makes it unbiased; NumPy's default is 0.

    Args:
        x: floats of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: x has no such axis.
    """
    x = floats(x)
    axes = axes_of(x, axis)
    difference = x - reduce_mean(x, axes, keep_dim=True)
    total = reduce_sum(difference * difference, axes, keep_dim)
    return total / maximum(_count(x, axes) - correction, 0.0)


@op
def std(
    x: Operand, axis: Axes | None = None, *, keep_dim: bool = False, correction: float = 1.0
) -> Variable:
    """Standard deviation over axes, the square root of `var`; the derivative at 0 is 0.

    Args:
        x: floats of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: x has no such axis.
    """
    return _root(var(floats(x), axis, keep_dim=keep_dim, correction=correction))


@op
def norm(x: Operand, p: float = 2.0, axis: Axes | None = None, keep_dim: bool = False) -> Variable:
    """Vector p-norm over axes, all of them if None: (sum |x|^p)^(1/p).

    p may be inf (the largest |x|), -inf (the smallest) or 0 (the number of elements that are not
    0). The derivative at 0 is 0. Of a matrix this is the Frobenius norm.

    Args:
        x: floats of any shape.
        p: a number, inf or -inf.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Without these axes, of the dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: x has no such axis.
    """
    x = floats(x)
    axes = axes_of(x, axis)
    if p == 2:
        return _root(reduce_sum(x * x, axes, keep_dim))
    size = abs(x)
    if p == math.inf:
        return reduce_max(size, axes, keep_dim)
    if p == -math.inf:
        return reduce_min(size, axes, keep_dim)
    if p == 1:
        return reduce_sum(size, axes, keep_dim)
    if p == 0:
        return cast(count_nonzero(x, axes, keep_dim), x.dtype)
    total = reduce_sum(_power(size, float(p)), axes, keep_dim)
    return _power(total, 1.0 / p)


@op
def cum_prod(x: Operand, axis: int = 0) -> Variable:
    """Cumulative product along an axis; of integers it has the dtype of `reduce_sum`.

    Args:
        x: numbers or bools of any shape.

    Returns:
        Of the shape of x.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no such axis.
    """
    x = summable(x)
    first = move_axis(x, axis, 0)
    _, products = scan(
        lambda state, part: (state * part,) * 2, ones_like(reduce_sum(first, 0)), first
    )
    return move_axis(products, 0, axis)


@op
def reduce_any(x: Operand, axis: Axes | None = None, keep_dim: bool = False) -> Variable:
    """Whether any bool is true, over axes, all of them if None.

    Args:
        x: bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Bools, without these axes.

    Raises:
        DTypeError: x is not bool.
        ShapeError: x has no such axis.
    """
    x = constant(x)
    return greater_than(reduce_max(_ones(x), axes_of(x, axis), keep_dim), 0)


@op
def reduce_all(x: Operand, axis: Axes | None = None, keep_dim: bool = False) -> Variable:
    """Whether all bools are true, over axes, all of them if None.

    Args:
        x: bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Bools, without these axes.

    Raises:
        DTypeError: x is not bool.
        ShapeError: x has no such axis.
    """
    x = constant(x)
    return greater_than(reduce_min(_ones(x), axes_of(x, axis), keep_dim), 0)


@op
def count_nonzero(x: Operand, axis: Axes | None = None, keep_dim: bool = False) -> Variable:
    """Number of elements that are not 0, over axes, all of them if None; int64.

    Args:
        x: numbers or bools of any shape.
        axis: an axis or several.
        keep_dim: keep the axes, with size 1.

    Returns:
        Int64, without these axes.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    zero = equal(x, constant(np.zeros((), x.dtype), x.dtype))
    return reduce_sum(cast(logical_not(zero), np.int64), axes_of(x, axis), keep_dim)


def _ones(x: Variable) -> Variable:
    """Bools as int32, which every runtime can compare."""
    if x.dtype.kind != "b":
        raise DTypeError(f"takes bools, not {describe(x)}\n  hint: compare with 0")
    return cast(x, np.int32)


def _count(x: Variable, axes: list[int]) -> Variable:
    """The number of elements of a reduction, in the dtype of x."""
    sizes = [x.dims[a] for a in axes]
    if all(isinstance(d, int) for d in sizes):
        return constant(math.prod(sizes), x.dtype)
    return cast(reduce_prod(gather(shape_of(x), axes)), x.dtype)


def _root(x: Variable) -> Variable:
    """The square root, with a derivative of 0 at 0."""
    zero = equal(x, 0.0)
    return where(zero, 0.0, sqrt(where(zero, 1.0, x)))


def _power(x: Variable, p: float) -> Variable:
    """x^p of numbers that are not negative, with a derivative of 0 at 0."""
    zero = equal(x, 0.0)
    return where(zero, 0.0 if p > 0 else math.inf, pow(where(zero, 1.0, x), p))


def _squeezed(x: Variable, axes: list[int]) -> Variable:
    return squeeze(x, axes) if axes else x
