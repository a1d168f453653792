"""Derivatives of functions that move elements: their rules move the gradient back."""

import numpy as np

from ... import ops
from ...graph.arrays import is_float
from ...graph.checks import whole
from ...graph.node import Node, apply, refined
from ...graph.variable import Operand, Variable, static
from ..registry import Gradients, gradient, unbroadcast, unbroadcast_at_runtime
from .selection import filled, selected


@gradient("Reshape", "Unsqueeze", "Squeeze")
def reshape(node: Node, dy: Variable) -> Gradients:
    return [ops.reshape_like(dy, node.inputs[0]), *[None] * (len(node.inputs) - 1)]


@gradient("Flatten")
def flatten(node: Node, dy: Variable) -> Gradients:
    return [ops.reshape_like(dy, node.inputs[0])]


@gradient("Expand")
def expand(node: Node, dy: Variable) -> Gradients:
    x = node.inputs[0]
    pairs = zip(x.dims, dy.dims[dy.rank - x.rank :], strict=True)
    at_runtime = any(isinstance(d, str) and d != e for d, e in pairs)
    return [(unbroadcast_at_runtime if at_runtime else unbroadcast)(dy, x), None]


@gradient("Concat")
def concat(node: Node, dy: Variable) -> Gradients:
    axis = node.attributes["axis"]
    sizes = [x.dims[axis] for x in node.inputs]
    if all(isinstance(d, int) for d in sizes):
        return list(ops.split(dy, static(sizes), axis))
    partials: list[Variable] = []
    start: Operand = np.zeros(1, np.int64)
    for x in node.inputs:
        end = ops.size_of(x, axis) + start
        partials.append(ops.slice(dy, start, end, [axis]))
        start = end
    return partials


@gradient("Split")
def split(node: Node, *dys: Variable | None) -> Gradients:
    parts = [
        ops.zeros_like(y) if dy is None else dy for y, dy in zip(node.outputs, dys, strict=True)
    ]
    return [ops.concat(parts, node.attributes.get("axis", 0)), *[None] * (len(node.inputs) - 1)]


@gradient("Slice")
def slice(node: Node, dy: Variable) -> Gradients:
    """Scatter each element back to where it came from; the rest is zero."""
    x, starts, ends, *rest = node.inputs
    if rest and rest[0] is not None:
        axes = rest[0].value
    else:
        axes = np.arange(starts.dims[0]) if isinstance(starts.dims[0], int) else None
    steps = rest[1] if len(rest) > 1 else None
    if axes is None:  # the axes are known only at run time
        return selected(node, dy)
    for k, axis in enumerate(int(a) % x.rank for a in axes):
        bounds = [_pick(starts, k), _pick(ends, k), whole([0])]
        step = [] if steps is None else [_pick(steps, k)]
        # not ops.slice, which has NumPy's bounds; those of an imported Slice are ONNX's
        rows = apply("Slice", ops.arange(ops.size_of(x, axis)), *bounds, *step)
        dy = _scatter_rows(dy, x, axis, rows)
    return [dy, *[None] * (len(node.inputs) - 1)]


def _pick(vector, k):
    """Return one entry of a vector, as a vector of one of int64."""
    if vector.value is not None:
        return whole(vector.value[k : k + 1])
    return ops.cast(ops.slice(vector, [k], [k + 1], [0]), np.int64)


def _scatter_rows(dy, x, axis, rows):
    """Write dy to `rows` along an axis as long as that of x, zeros elsewhere."""
    dims = [*dy.dims[:axis], x.dims[axis], *dy.dims[axis + 1 :]]
    sizes = ops.concat([ops.size_of(x if k == axis else dy, k) for k in range(dy.rank)])
    zeros = ops.expand(ops.cast(0.0, dy.dtype), sizes)
    zeros = refined(zeros, tuple(dims))
    column = ops.reshape(rows, [-1 if k == axis else 1 for k in range(dy.rank)])
    return ops.scatter_add(zeros, ops.expand_like(column, dy), dy, axis)


@gradient("Pad")
def pad(node: Node, dy: Variable) -> Gradients:
    """The part of dy that lies over x; the rest belongs to the fill value."""
    (x, widths), whole = node.inputs[:2], dy
    rest = [v for v in node.inputs[2:] if v is not None]
    plain = node.attributes.get("mode", "constant") == "constant" and len(node.inputs) < 4
    if not plain or widths.value is None or (widths.value < 0).any():
        return _pad_by_index(node, dy)
    for axis, width in enumerate(int(w) for w in widths.value[: x.rank]):
        if width or widths.value[axis + x.rank]:
            dy = ops.slice(dy, [width], ops.size_of(x, axis) + width, [axis])
    return [dy, None, *[lambda: ops.reduce_sum(whole) - ops.reduce_sum(dy) for _ in rest]]


def _pad_by_index(node, dy):
    """Differentiate a Pad of any mode, with widths known only at run time, or negative ones."""
    _, widths, *rest = node.inputs
    constant = node.attributes.get("mode", "constant") == "constant"
    value = np.int64(0) if constant else None
    inner, border = filled(node, dy, widths, value, *rest[1:])
    return [inner, None, *([border, None] if constant else [None, None])[: len(rest)]]


@gradient("Range")
def arange(node: Node, dy: Variable) -> Gradients:
    """By first + k step: the limit only decides on their number."""
    if not is_float(dy.dtype):
        return [None, None, None]
    steps = ops.cast(ops.arange(ops.size_of(dy, 0)), dy.dtype)
    return [ops.reduce_sum(dy), None, lambda: ops.reduce_sum(dy * steps)]
