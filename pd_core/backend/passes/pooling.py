"""Gradients of pooling in ONNX operators."""

import numpy as np

from ...node import apply
from .windows import Windows, merged, reshape

_LOWEST = float(np.finfo(np.float32).min)


def max_pool_grad(node, inputs, sizes, seed):
    """dy at every element that equals its window's maximum."""
    x, y, dy = inputs
    windows = Windows(node, x, y, node.attributes["kernel_shape"])
    padded = windows.padded(x, _LOWEST)
    if windows.strides == windows.window:
        return (windows.unpadded(_tiled(windows, padded, y, dy)),)
    n, c = x.dims[:2]
    cells = []
    for tap in windows.taps():
        hit = apply("Equal", windows.slice(padded, tap), y)
        cell = apply("Where", hit, dy, np.array(0, dy.dtype))
        cells.append(reshape(cell, [merged(n, c), 1, *windows.result]))
    image = windows.scatter(apply("Concat", *cells, axis=1), (n, c))
    return (windows.unpadded(image),)


def _tiled(windows, padded, y, dy):
    """Windows that tile the image: each cell beside the maximum of its tile."""
    lead = list(y.dims[:2])
    tiles, grid = [], []
    for r, k in zip(windows.result, windows.window, strict=True):
        tiles += [r, k]
        grid += [r, 1]
    hit = apply("Equal", reshape(padded, lead + tiles), reshape(y, lead + grid))
    spread = apply("Where", hit, reshape(dy, lead + grid), np.array(0, dy.dtype))
    return reshape(spread, lead + windows.reach)


def max_pool_pick(node, inputs, sizes, seed):
    """The sum over each window of u where x is the maximum."""
    x, y, u = inputs
    windows = Windows(node, x, y, node.attributes["kernel_shape"])
    xp, up = windows.padded(x, _LOWEST), windows.padded(u, 0.0)
    total = None
    for tap in windows.taps():
        hit = apply("Equal", windows.slice(xp, tap), y)
        picked = apply("Where", hit, windows.slice(up, tap), np.array(0, u.dtype))
        total = picked if total is None else apply("Add", total, picked)
    return (total,)


def avg_pool_grad(node, inputs, sizes, seed):
    """dy over the number of cells averaged, at every cell of its window."""
    x, dy = inputs
    windows = Windows(node, x, dy, node.attributes["kernel_shape"])
    n, c = x.dims[:2]
    share = apply("Mul", dy, (1.0 / _counts(windows, node)).astype(dy.dtype))
    share = reshape(share, [merged(n, c), 1, *windows.result])
    ones = np.ones((1, 1, *windows.window), dy.dtype)
    image = apply("ConvTranspose", share, ones, strides=windows.strides)
    return (windows.unpadded(reshape(image, [n, c, *windows.reach])),)


def _counts(windows, node):
    """How many cells each window averages, [*result]."""
    include = node.attributes.get("count_include_pad", 0)
    total = np.ones(())
    for axis in range(windows.n):
        before = windows.pads[axis]
        after = windows.pads[axis + windows.n]
        low, high = (-before, windows.image[axis] + after) if include else (0, windows.image[axis])
        starts = np.arange(windows.result[axis]) * windows.strides[axis] - before
        ends = np.minimum(starts + windows.window[axis], high)
        total = np.multiply.outer(total, ends - np.maximum(starts, low))
    return total
