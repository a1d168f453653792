"""Derivatives of reductions and of normalisations along an axis."""

import numpy as np

from .. import ops
from ..variable import constant
from .registry import gradient, zero

zero("ArgMax", "ArgMin")


def _stretched(node, v):
    """v with the reduced axes back in place, as size 1; a scalar stretches as it is."""
    if node.attributes.get("keepdims", 1) or node.outputs[0].rank == 0:
        return v
    return ops.unsqueeze(v, node.inputs[1])


@gradient("ReduceSum")
def reduce_sum(node, dy):
    return [ops.expand_like(_stretched(node, dy), node.inputs[0]), None]


@gradient("ReduceMean")
def reduce_mean(node, dy):
    x, axes = node.inputs
    sizes = [(int(a), x.dims[a]) for a in axes.value]
    known = int(np.prod([d for _, d in sizes if isinstance(d, int)]))
    named = [a for a, d in sizes if isinstance(d, str)]
    dy = dy if known == 1 else dy * (1.0 / known)
    if named:
        dy = dy / _rows(x, named, dy.rank)
    return [ops.expand_like(_stretched(node, dy), x), None]


def _rows(x, axes, rank):
    """The product of run-time sizes as a float of shape [1], or () for a gradient of some rank."""
    count = ops.size_of(x, axes[0])
    for a in axes[1:]:
        count = count * ops.size_of(x, a)
    return ops.cast(count if rank == 0 else ops.squeeze(count, 0), x.dtype)


@gradient("ReduceMax", "ReduceMin")
def reduce_extreme(node, dy):
    """Shared evenly by the elements that are the extreme."""
    x, axes = node.inputs
    at = ops.cast(ops.equal(x, _stretched(node, node.outputs[0])), x.dtype)
    share = _stretched(node, dy) / ops.reduce_sum(at, axes.value, keep_dim=True)
    return [at * share, None]


@gradient("Softmax")
def softmax(node, dy):
    return [ops.softmax_grad(node.outputs[0], dy, node.attributes.get("axis", -1))]


@gradient("SoftmaxGrad")
def softmax_grad(node, u):
    (y, dy), axis = node.inputs, node.attributes["axis"]
    both, along = (ops.reduce_sum(v * y, [axis], keep_dim=True) for v in (dy, u))
    return [lambda: u * (dy - both) - dy * along, lambda: ops.softmax_grad(y, u, axis)]


@gradient("LogSoftmax")
def log_softmax(node, dy):
    y, axis = node.outputs[0], node.attributes.get("axis", -1)
    return [dy - ops.exp(y) * ops.reduce_sum(dy, [axis], keep_dim=True)]


@gradient("CumSum")
def cum_sum(node, dy):
    """The sum of all that comes after: total - running sum + own."""
    axis = int(constant(node.inputs[1]).value)
    return [ops.reduce_sum(dy, [axis], keep_dim=True) - ops.cum_sum(dy, axis) + dy, None]
