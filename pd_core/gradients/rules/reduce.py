"""Derivatives of reductions and of normalisations along an axis."""

import math
from typing import Any

import numpy as np

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable
from ...ops.math import quotient
from ...ops.shape import product_of_sizes
from ..registry import Gradients, compared, gradient, reapply


def _axes(node):
    """Return the reduced axes as a Variable; None for all of them, an empty list for none."""
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is not None and axes.dims != (0,):
        return axes
    return [] if node.attributes.get("noop_with_empty_axes", 0) else None


def _unreduced(node, v):
    """Insert the reduced axes with size 1 again, so that v broadcasts against the input."""
    axes, x = _axes(node), node.inputs[0]
    if node.attributes.get("keepdims", 1) or node.outputs[0].rank in (0, x.rank):
        return v
    if axes.value is not None:
        return ops.unsqueeze(v, axes)
    return ops.reshape(v, _sizes_with_ones(x, axes))


def _sizes_with_ones(x, axes):
    """Return the sizes of x with 1 at axes that are known only at run time."""
    axes = ops.where(axes < 0, axes + x.rank, axes)
    hit = ops.equal(np.arange(x.rank).reshape(-1, 1), ops.reshape(axes, [1, -1]))
    hit = ops.reduce_sum(ops.cast(hit, np.int64), [1]) > 0
    return ops.where(hit, 1, ops.shape_of(x))


def _expanded(node, v):
    return ops.expand_like(_unreduced(node, v), node.inputs[0])


def _partials(node, g):
    return [g, *[None] * (len(node.inputs) - 1)]


@gradient("ReduceSum")
def reduce_sum(node: Node, dy: Variable) -> Gradients:
    return _partials(node, _expanded(node, dy))


@gradient("ReduceMean")
def reduce_mean(node: Node, dy: Variable) -> Gradients:
    return _partials(node, _expanded(node, _over_count(node, dy)))


def _over_count(node, dy):
    """Divide dy by the number of elements in each mean."""
    x, axes = node.inputs[0], _axes(node)
    axes = range(x.rank) if axes is None else axes
    if not isinstance(axes, (range, list)):
        axes = axes.value
    if axes is None:
        count = quotient(ops.size(x), ops.maximum(ops.size(dy), 1))
        return dy / ops.cast(count, dy.dtype)
    sizes = [(int(a), x.dims[a]) for a in axes]
    known = max(1, math.prod(d for _, d in sizes if isinstance(d, int)))  # x may be empty
    named = [a for a, d in sizes if isinstance(d, str)]
    dy = dy if known == 1 else dy * (1.0 / known)
    return dy / _product_of_sizes(x, named, dy.rank) if named else dy


def _product_of_sizes(x, axes, rank):
    """Return the product of run-time sizes as a float of shape [1], or [] where `rank` is not 0."""
    count = product_of_sizes(x, axes)
    return ops.cast(count if rank == 0 else ops.squeeze(count, 0), x.dtype)


@gradient("ReduceMax", "ReduceMin")
def reduce_extreme(node: Node, dy: Variable) -> Gradients:
    """Shared evenly by the elements that equal the extreme, as in torch.amax."""
    y, x, *_ = compared(node, node.inputs)
    hits = ops.cast(ops.equal(x, _unreduced(node, y)), dy.dtype)
    return _partials(node, hits * _unreduced(node, dy / _summed(node, hits)))


def _summed(node, v):
    """Sum v over the axes of a reduction, to the shape of its result."""
    axes, keep = _axes(node), bool(node.attributes.get("keepdims", 1))
    if axes is None or isinstance(axes, list) or axes.value is not None:
        axes = axes if axes is None or isinstance(axes, list) else axes.value
        return ops.reduce_sum(v, axes, keep_dim=keep)
    return _reapply(node, v, op_type="ReduceSum")


def _reapply(node, v, **other):
    return reapply(node, v, *node.inputs[1:], known=node.outputs[0].dims, **other)


@gradient("ReduceProd")
def reduce_prod(node: Node, dy: Variable) -> Gradients:
    """dy times the product of the other elements, also where one of them is zero.

    Second derivatives at a zero are incomplete: those by that element itself are missing.
    """
    x = node.inputs[0]
    zero = ops.equal(x, 0.0)
    zeros = _unreduced(node, _summed(node, ops.cast(zero, x.dtype)))
    nonzero = ops.where(zero, 1.0, x)
    product = _unreduced(node, _reapply(node, nonzero))
    alone = ops.where(ops.logical_and(zero, ops.equal(zeros, 1.0)), product, 0.0)
    others = ops.where(ops.equal(zeros, 0.0), product / nonzero, alone)
    return _partials(node, others * _unreduced(node, dy))


@gradient("ReduceL1")
def reduce_l1(node: Node, dy: Variable) -> Gradients:
    return _partials(node, ops.sign(node.inputs[0]) * _unreduced(node, dy))


@gradient("ReduceL2")
def reduce_l2(node: Node, dy: Variable) -> Gradients:
    """x over its norm; zero where all elements are zero."""
    x, y = node.inputs[0], node.outputs[0]
    norm = ops.where(ops.equal(y, 0.0), 1.0, y)
    return _partials(node, x * _unreduced(node, dy / norm))


@gradient("ReduceSumSquare")
def reduce_sum_square(node: Node, dy: Variable) -> Gradients:
    return _partials(node, node.inputs[0] * 2.0 * _unreduced(node, dy))


@gradient("ReduceLogSum")
def reduce_log_sum(node: Node, dy: Variable) -> Gradients:
    return _partials(node, _expanded(node, dy * ops.exp(-node.outputs[0])))


@gradient("ReduceLogSumExp")
def reduce_log_sum_exp(node: Node, dy: Variable) -> Gradients:
    x, y = node.inputs[0], node.outputs[0]
    return _partials(node, ops.exp(x - _unreduced(node, y)) * _unreduced(node, dy))


@gradient("Softmax")
def softmax(node: Node, dy: Variable) -> Gradients:
    return [ops.softmax_grad(node.outputs[0], dy, node.attributes.get("axis", -1))]


@gradient("SoftmaxGrad")
def softmax_grad(node: Node, u: Variable) -> Gradients:
    (y, dy), axis = node.inputs, node.attributes["axis"]
    dot_dy, dot_u = (ops.reduce_sum(v * y, [axis], keep_dim=True) for v in (dy, u))
    return [lambda: u * (dy - dot_dy) - dy * dot_u, lambda: ops.softmax_grad(y, u, axis)]


@gradient("LogSoftmax")
def log_softmax(node: Node, dy: Variable) -> Gradients:
    y, axis = node.outputs[0], node.attributes.get("axis", -1)
    return [dy - ops.exp(y) * ops.reduce_sum(dy, [axis], keep_dim=True)]


@gradient("CumSum")
def cum_sum(node: Node, dy: Variable) -> Gradients:
    """The cumulative sum in the other direction."""
    reverse = 1 - node.attributes.get("reverse", 0)
    return [reapply(node, dy, node.inputs[1], reverse=reverse), None]


@gradient("CumProd")
def cum_prod(node: Node, dy: Variable) -> Gradients:
    """The sum of dy times each product without the element: exact at zeros, at a cost of n^2."""
    x, position = node.inputs
    if position.value is None:
        flat = _around(x, position)
        along = reapply(node, flat, np.int64(1))
        dflat: Any = cum_prod(along.node, ops.reshape_like(dy, flat))[0]
        return [ops.reshape_like(dflat, x), None]
    axis = int(np.asarray(position.value)) % x.rank
    rows = ops.arange(ops.size_of(x, axis))
    pair = _along(rows, axis, x.rank + 1), _along(rows, axis + 1, x.rank + 1)
    without = ops.where(ops.equal(*pair), 1.0, ops.unsqueeze(x, [axis]))
    products = reapply(node, without, np.int64(axis + 1))
    first, last = reversed(pair) if node.attributes.get("reverse", 0) else pair
    within = first < last if node.attributes.get("exclusive", 0) else first <= last
    terms = ops.where(within, products * ops.unsqueeze(dy, [axis]), 0.0)
    return [ops.reduce_sum(terms, [axis + 1]), None]


def _around(x, position):
    """Reshape x to [sizes before an axis, its size, sizes after it], for an axis at run time."""
    axis = ops.reshape(ops.cast(position, np.int64), [1])
    axis = ops.where(axis < 0, axis + np.int64(x.rank), axis)
    sizes, places = ops.shape_of(x), np.arange(x.rank, dtype=np.int64)
    parts = (places < axis, ops.equal(places, axis), places > axis)
    one = np.int64(1)
    return ops.reshape(x, ops.concat([_product(ops.where(p, sizes, one)) for p in parts]))


def _product(sizes):
    return ops.reduce_prod(sizes, [0], keep_dim=True)


def _along(rows, axis, rank):
    """Reshape a vector to lie along one axis."""
    return ops.reshape(rows, [-1 if k == axis else 1 for k in range(rank)])
