"""Derivatives of reductions and of normalisations along an axis."""

import math

import numpy as np

from ... import ops
from ...graph.variable import constant
from ..registry import gradient, reapply


def _axes(node):
    """The reduced axes: a Variable; None for all of them, an empty list for none."""
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is not None and axes.dims != (0,):
        return axes
    return [] if node.attributes.get("noop_with_empty_axes", 0) else None


def _stretched(node, v):
    """v with the reduced axes back in place, as size 1; a scalar stretches as it is."""
    axes, x = _axes(node), node.inputs[0]
    if node.attributes.get("keepdims", 1) or node.outputs[0].rank in (0, x.rank):
        return v
    if axes.value is not None:
        return ops.unsqueeze(v, axes)
    return ops.reshape(v, _sizes_kept(x, axes))


def _sizes_kept(x, axes):
    """The sizes of x with 1 at axes that are known only at run time."""
    axes = ops.where(axes < 0, axes + x.rank, axes)
    hit = ops.equal(np.arange(x.rank).reshape(-1, 1), ops.reshape(axes, [1, -1]))
    hit = ops.reduce_sum(ops.cast(hit, np.int64), [1]) > 0
    return ops.where(hit, 1, ops.shape_of(x))


def _like_input(node, v):
    return ops.expand_like(_stretched(node, v), node.inputs[0])


def _partials(node, g):
    return [g, *[None] * (len(node.inputs) - 1)]


@gradient("ReduceSum")
def reduce_sum(node, dy):
    return _partials(node, _like_input(node, dy))


@gradient("ReduceMean")
def reduce_mean(node, dy):
    return _partials(node, _like_input(node, _over_count(node, dy)))


def _over_count(node, dy):
    """dy over the number of elements that each mean is taken of."""
    x, axes = node.inputs[0], _axes(node)
    axes = range(x.rank) if axes is None else axes
    if not isinstance(axes, (range, list)):
        axes = axes.value
    if axes is None:
        count = ops.size(x) / ops.size(dy)
        return dy / ops.cast(count, dy.dtype)
    sizes = [(int(a), x.dims[a]) for a in axes]
    known = math.prod(d for _, d in sizes if isinstance(d, int))
    named = [a for a, d in sizes if isinstance(d, str)]
    dy = dy if known == 1 else dy * (1.0 / known)
    return dy / _rows(x, named, dy.rank) if named else dy


def _rows(x, axes, rank):
    """The product of run-time sizes as a float of shape [1], or () for a gradient of some rank."""
    count = ops.size_of(x, axes[0])
    for a in axes[1:]:
        count = count * ops.size_of(x, a)
    return ops.cast(count if rank == 0 else ops.squeeze(count, 0), x.dtype)


@gradient("ReduceMax", "ReduceMin")
def reduce_extreme(node, dy):
    """Shared evenly by the elements that are the extreme, as by torch.amax."""
    x, y = node.inputs[0], node.outputs[0]
    at = ops.cast(ops.equal(x, _stretched(node, y)), x.dtype)
    return _partials(node, at * _stretched(node, dy / _summed(node, at)))


def _summed(node, v):
    """v summed over the axes of a reduction, in the shape of its result."""
    axes, keep = _axes(node), bool(node.attributes.get("keepdims", 1))
    if axes is None or isinstance(axes, list) or axes.value is not None:
        axes = axes if axes is None or isinstance(axes, list) else axes.value
        return ops.reduce_sum(v, axes, keep_dim=keep)
    return _reapply(node, v, op_type="ReduceSum")


def _reapply(node, v, **other):
    return reapply(node, v, *node.inputs[1:], known=node.outputs[0].dims, **other)


@gradient("ReduceProd")
def reduce_prod(node, dy):
    """The product of the others, also where one of them is zero.

    Of second derivatives at a zero, those by that element itself are not found.
    """
    x = node.inputs[0]
    zero = ops.equal(x, 0.0)
    zeros = _stretched(node, _summed(node, ops.cast(zero, x.dtype)))
    nonzero = ops.where(zero, 1.0, x)
    product = _stretched(node, _reapply(node, nonzero))
    alone = ops.where(ops.logical_and(zero, ops.equal(zeros, 1.0)), product, 0.0)
    others = ops.where(ops.equal(zeros, 0.0), product / nonzero, alone)
    return _partials(node, others * _stretched(node, dy))


@gradient("ReduceL1")
def reduce_l1(node, dy):
    return _partials(node, ops.sign(node.inputs[0]) * _stretched(node, dy))


@gradient("ReduceL2")
def reduce_l2(node, dy):
    """x over its length; zero where all is zero."""
    x, y = node.inputs[0], node.outputs[0]
    length = ops.where(ops.equal(y, 0.0), 1.0, y)
    return _partials(node, x * _stretched(node, dy / length))


@gradient("ReduceSumSquare")
def reduce_sum_square(node, dy):
    return _partials(node, node.inputs[0] * 2.0 * _stretched(node, dy))


@gradient("ReduceLogSum")
def reduce_log_sum(node, dy):
    return _partials(node, _like_input(node, dy * ops.exp(-node.outputs[0])))


@gradient("ReduceLogSumExp")
def reduce_log_sum_exp(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    return _partials(node, ops.exp(x - _stretched(node, y)) * _stretched(node, dy))


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
    """The sum of all that comes after."""
    reverse = 1 - node.attributes.get("reverse", 0)
    return [reapply(node, dy, node.inputs[1], reverse=reverse), None]


@gradient("CumProd")
def cum_prod(node, dy):
    """Each later product without the element: exact at zeros too, for n^2 products."""
    x, axis = node.inputs[0], int(constant(node.inputs[1]).value) % node.inputs[0].rank
    rows = ops.arange(ops.size_of(x, axis))
    own = _across(rows, axis, x.rank + 1), _across(rows, axis + 1, x.rank + 1)
    without = ops.where(ops.equal(*own), 1.0, ops.unsqueeze(x, [axis]))
    products = reapply(node, without, np.int64(axis + 1))
    first, last = reversed(own) if node.attributes.get("reverse", 0) else own
    within = ops.less_than if node.attributes.get("exclusive", 0) else ops.less_equal
    shares = ops.where(within(first, last), products * ops.unsqueeze(dy, [axis]), 0.0)
    return [ops.reduce_sum(shares, [axis + 1]), None]


def _across(rows, axis, rank):
    return ops.reshape(rows, [-1 if k == axis else 1 for k in range(rank)])
