"""Gradients of convolution in ONNX operators: no one lowering wins, so it is chosen by shape."""

from itertools import product

import numpy as np

from ...node import apply
from ...variable import constant
from .windows import Windows, reshape

_FEW = 64  # columns of an im2col matrix up to which one product with all of them is fastest


def conv_input_grad(node, inputs, sizes, seed):
    """A transposed convolution."""
    w, dy, x = inputs
    a = node.attributes
    geometry = {k: a[k] for k in ("strides", "pads", "dilations", "group")}
    windows = Windows(node, x, dy, w.dims[2:])
    missing = [
        size + p + q - r
        for size, p, q, r in zip(
            windows.image,
            windows.pads,
            windows.pads[windows.n :],
            windows.reach,
            strict=False,
        )
    ]
    grad = apply("ConvTranspose", dy, w, output_padding=missing, **geometry)
    grad.dims = node.outputs[0].dims
    return (grad,)


def conv_filter_grad(node, inputs, sizes, seed):
    """dy against the windows of x: one im2col product if channels are few, else one per row."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, w.dims[2:])
    padded, group = windows.padded(x, 0.0), node.attributes["group"]
    few = x.dims[1] * len(windows.taps()) <= _FEW
    grad = (_columns if few else _rows)(windows, padded, dy, group)
    grad.dims = node.outputs[0].dims
    return (grad,)


def _columns(windows, padded, dy, group):
    """im2col by a convolution with one filter per tap, each a single 1; a product per image."""
    channels, count = padded.dims[1], len(windows.taps())
    filters = np.eye(count).reshape(count, 1, *windows.window)
    columns = apply(
        "Conv",
        padded,
        constant(np.tile(filters, (channels, *[1] * (windows.n + 1))), padded.dtype),
        strides=windows.strides,
        dilations=windows.dilations,
        group=channels,
    )
    product = _per_image(windows, columns, dy, group, channels // group * count)
    return reshape(product, [dy.dims[1], channels // group, *windows.window])


def _rows(windows, padded, dy, group):
    """The taps of the last axis side by side as channels, then a product per image for each tap
    of the other axes: every copy moves whole rows.
    """
    n, channels = padded.dims[:2]
    per, last = channels // group, windows.window[-1]
    parts = []
    for tap in range(last):
        part = windows.slice_axis(padded, windows.n - 1, tap)
        parts.append(reshape(part, [n, group, 1, per, *part.dims[2:]]))
    wide = apply("Concat", *parts, axis=2)
    wide = reshape(wide, [n, channels * last, *wide.dims[4:]])
    products = []
    for tap in product(*(range(k) for k in windows.window[:-1])):
        cells = wide
        for axis, t in enumerate(tap):
            cells = windows.slice_axis(cells, axis, t)
        products.append(_per_image(windows, cells, dy, group, per * last))
    total = products[0] if len(products) == 1 else apply("Concat", *products, axis=1)
    total = reshape(total, [dy.dims[1], *windows.window, per])
    return apply("Transpose", total, perm=[0, windows.n + 1, *range(1, windows.n + 1)])


def _per_image(windows, cells, dy, group, width):
    """Sum over images of dy cellsᵀ, [O, width]."""
    n, outputs, positions = dy.dims[0], dy.dims[1], int(np.prod(windows.result))
    cells = reshape(cells, [n, group, width, positions])
    dy = reshape(dy, [n, group, outputs // group, positions])
    products = apply("MatMul", dy, apply("Transpose", cells, perm=[0, 1, 3, 2]))
    total = apply("ReduceSum", products, np.array([0]), keepdims=0)
    return reshape(total, [outputs, width])
