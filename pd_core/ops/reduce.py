"""Reductions, and functions that normalise along an axis."""

import numpy as np

from ..graph.checks import axis_of
from ..graph.node import apply, composite
from ..graph.variable import constant


def reduce_sum(x, axes=None, keep_dim=False):
    """Sum over axes, all of them if None; the result of a full reduction has shape ()."""
    return _reduce("ReduceSum", x, axes, keep_dim)


def reduce_mean(x, axes=None, keep_dim=False):
    """Mean over axes, all of them if None."""
    return _reduce("ReduceMean", x, axes, keep_dim)


def reduce_max(x, axes=None, keep_dim=False):
    """Largest element over axes, all of them if None.

    Equal ones share the gradient evenly, as of torch.amax.
    """
    return _reduce("ReduceMax", x, axes, keep_dim)


def reduce_min(x, axes=None, keep_dim=False):
    """Smallest element over axes, all of them if None.

    Equal ones share the gradient evenly, as of torch.amin.
    """
    return _reduce("ReduceMin", x, axes, keep_dim)


def reduce_prod(x, axes=None, keep_dim=False):
    """Product over axes, all of them if None."""
    return _reduce("ReduceProd", x, axes, keep_dim)


def arg_max(x, axis=-1, keep_dim=False):
    """Index of the first largest element along an axis, int64."""
    return apply("ArgMax", x, axis=axis, keepdims=int(keep_dim))


def cum_sum(x, axis=0):
    """Running sum along an axis."""
    x = constant(x)
    return apply("CumSum", x, np.int64(axis_of(x, axis)))


def softmax(x, axis=-1):
    """e^x over its sum along an axis."""
    return apply("Softmax", x, axis=axis)


def softmax_grad(y, dy, axis=-1):
    """y (dy - sum(dy y)), the gradient of a softmax y."""
    return composite("SoftmaxGrad", y, dy, types=[(dy.dims, dy.dtype)], axis=axis)


def log_softmax(x, axis=-1):
    """Logarithm of the softmax along an axis."""
    return apply("LogSoftmax", x, axis=axis)


def _reduce(op_type, x, axes, keep_dim):
    x = constant(x)
    axes = range(x.rank) if axes is None else np.atleast_1d(axes)
    axes = sorted({axis_of(x, int(a)) for a in axes})
    if not axes:
        return x
    return apply(op_type, x, np.array(axes, np.int64), keepdims=int(keep_dim))
