"""Gradients of pooling in ONNX operators."""

import numpy as np

from ...node import apply
from ...variable import constant
from .relu import masked
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
        cell = masked(apply("GreaterOrEqual", windows.slice(padded, tap), y), dy)
        cells.append(reshape(cell, [merged(n, c), 1, *windows.result]))
    image = windows.scatter(apply("Concat", *cells, axis=1), (n, c))
    return (windows.unpadded(image),)


def _tiled(windows, padded, y, dy):
    """Windows that tile the image: maxima and gradients enlarged, a mask where x reaches them."""
    scales = np.array([1, 1, *windows.window], np.float32)
    dims = (*y.dims[:2], *windows.reach)
    top, spread = (
        apply(
            "Resize",
            v,
            None,
            scales,
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
            known=dims,
        )
        for v in (y, dy)
    )
    return masked(apply("GreaterOrEqual", padded, top), spread)


def max_pool_pick(node, inputs, sizes, seed):
    """The sum over each window of u where x is the maximum."""
    x, y, u = inputs
    windows = Windows(node, x, y, node.attributes["kernel_shape"])
    xp, up = windows.padded(x, _LOWEST), windows.padded(u, 0.0)
    total = None
    for tap in windows.taps():
        hit = apply("GreaterOrEqual", windows.slice(xp, tap), y)
        picked = masked(hit, windows.slice(up, tap))
        total = picked if total is None else apply("Add", total, picked)
    return (total,)


def avg_pool_grad(node, inputs, sizes, seed):
    """dy over the number of cells averaged, at every cell of its window."""
    x, dy = inputs
    windows = Windows(node, x, dy, node.attributes["kernel_shape"])
    n, c = x.dims[:2]
    share = apply("Mul", dy, constant(1.0 / _counts(windows, node), dy.dtype))
    if windows.reach == list(windows.image) and set(windows.result) == {1}:
        return (apply("Mul", share, constant(np.ones((1, 1, *windows.image)), dy.dtype)),)
    share = reshape(share, [merged(n, c), 1, *windows.result])
    ones = constant(np.ones((1, 1, *windows.window)), dy.dtype)
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
