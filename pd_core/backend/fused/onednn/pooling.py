"""Pooling of images whose channels come last, by windows that lie side by side."""

import math
from collections.abc import Sequence

import numpy as np

from ....graph.node import Node, apply
from ....graph.variable import Dim, Inputs, Variable, constant, static
from ...layout.pooling import geometry_of, shares
from .images import LastOf

POOLS = frozenset(
    {
        *("MaxPool", "TiedMaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
        *("MaxPoolGrad", "AveragePoolGrad"),
    }
)
_MOST = 25  # cells of a window, each of which is a Slice


def pooled(node: Node, inputs: Inputs, last_of: LastOf) -> Variable | None:
    """Return a pooling or its gradient; None for windows that overlap, or leave pixels out."""
    is_grad = node.op_type.endswith("Grad")
    window = _window_of(node, inputs[0], node.inputs[-1] if is_grad else node.outputs[0])
    if window is None or len(node.outputs) > 1:
        return None
    if "Average" in node.op_type:
        x = last_of(inputs[-1])
        return _mean_grad(x, window) if is_grad else _mean(x, window)
    if math.prod(window) > _MOST:
        return None
    if not is_grad:
        largest, *others = _cells(last_of(inputs[0]), window)
        for cell in others:  # one by one: together they are a fused kernel
            largest = apply("Max", largest, cell, known=cell.dims)
        return largest
    x, y, dy = map(last_of, inputs)
    return _max_grad(x, y, dy, window, node.attributes.get("ties", "first") == "all")


def _window_of(node, image, result):
    """The sizes of windows that are tiles of the image."""
    g = geometry_of(node, image, result)
    if g is None or any(g.pads):
        return None
    axes = zip(g.window, g.strides, static(image.dims[2:]), g.sizes, strict=True)
    tiles = all(k * r == size and (s == k or r == 1) for k, s, size, r in axes)
    return g.window if tiles else None


def _reshaped(x: Variable, *dims: Dim) -> Variable:
    """x with these sizes, the first of which takes what remains."""
    return apply("Reshape", x, np.array([-1, *static(dims[1:])]), known=dims)


def _cells(x: Variable, window: Sequence[int]) -> list[Variable]:
    """The pixels [N, H / k, W / l, C] at each place of the windows."""
    rows = [_every(x, 1, k, window[0]) for k in range(window[0])]
    return [_every(row, 2, k, window[1]) for row in rows for k in range(window[1])]


def _every(x, axis, start, step):
    """Each step-th element along an axis: a view inside of fused kernels."""
    if step == 1:
        return x
    (size,) = static(x.dims[axis : axis + 1])
    dims = (*x.dims[:axis], size // step, *x.dims[axis + 1 :])
    bounds = (np.array([v]) for v in (start, x.dims[axis], axis, step))
    return apply("Slice", x, *bounds, known=dims)


def _joined(cells: Sequence[Variable], window: Sequence[int]) -> Variable:
    """The image of the pixels at each place of the windows."""
    n, channels = cells[0].dims[0], cells[0].dims[3]
    height, width = static(cells[0].dims[1:3])
    down, across = window
    parts = [_reshaped(c, n, height, 1, width, 1, channels) for c in cells]
    rows = []
    for k in range(down):
        row, wide = parts[k * across : (k + 1) * across], (n, height, 1, width, across, channels)
        rows.append(apply("Concat", *row, axis=4, known=wide))
    whole = apply("Concat", *rows, axis=2, known=(n, height, down, width, across, channels))
    return _reshaped(whole, n, height * down, width * across, channels)


def _mean(x, window):
    n, height, width, channels = x.dims
    down, across = height // window[0], width // window[1]
    dims = (n, down, across, channels)
    if (down, across) == (1, 1):
        return apply("ReduceMean", x, np.array([1, 2]), keepdims=1, known=dims)
    cells = _reshaped(x, n, down, window[0], across, window[1], channels)
    return apply("ReduceMean", cells, np.array([2, 4]), keepdims=0, known=dims)


def _mean_grad(dy, window):
    n, height, width, channels = dy.dims
    down, across = window
    share = dy * constant(1 / math.prod(window), np.float32)
    share = _reshaped(share, n, height, 1, width, 1, channels)
    target = np.array([1, height, down, width, across, channels])
    spread = apply("Expand", share, target, known=(n, *target[1:].tolist()))
    return _reshaped(spread, n, height * down, width * across, channels)


def _max_grad(x, y, dy, window, all_ties):
    """dy at the largest element of each window: the first of equal ones, or all of them.

    The last NaN of a window is its largest, or all of them are.
    """
    cells = _cells(x, window)
    parts, left = shares([apply("Equal", c, y, known=c.dims) for c in cells], dy, all_ties)
    last = [apply("IsNaN", c) for c in reversed(cells)]  # none of which is equal to y
    more, _ = shares(last, left, all_ties)
    parts = [a + b for a, b in zip(parts, reversed(more), strict=True)]
    return _joined(parts, window)
