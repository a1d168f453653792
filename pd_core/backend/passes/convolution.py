"""Gradients of convolution in ONNX operators: no one lowering wins, so it is chosen by shape."""

import numpy as np

from ...node import apply
from .windows import Windows, merged, reshape

_COLUMNS = 8_000_000  # elements of an im2col matrix above which a product per tap is faster


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
    """dy against the windows of x, in the form that is fastest for these sizes."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, w.dims[2:])
    padded = windows.padded(x, 0.0)
    group = node.attributes["group"]
    channels, taps = x.dims[1], len(windows.taps())
    positions = int(np.prod(windows.result))
    rows = sizes.get(x.dims[0], 32) if isinstance(x.dims[0], str) else x.dims[0]
    if group > 1:
        grad = _grouped(windows, padded, dy, group)
    elif channels * taps <= 64:
        grad = _batched(windows, padded, dy)
    elif channels * taps * rows * positions <= _COLUMNS:
        grad = _one_product(windows, padded, dy)
    else:
        grad = _by_tap(windows, padded, dy)
    grad.dims = node.outputs[0].dims
    return (grad,)


def _batched(windows, padded, dy):
    """A product per image with its im2col matrix, then the sum: few channels, large images."""
    n, channels = padded.dims[:2]
    outputs, positions = dy.dims[1], int(np.prod(windows.result))
    columns = [
        reshape(windows.slice(padded, tap), [n, channels, positions]) for tap in windows.taps()
    ]
    columns = apply("Concat", *columns, axis=1)
    per_image = apply(
        "MatMul", reshape(dy, [n, outputs, positions]), apply("Transpose", columns, perm=[0, 2, 1])
    )
    total = apply("ReduceSum", per_image, np.array([0]), keepdims=0)
    return _taps_last(reshape(total, [outputs, *windows.window, channels]))


def _one_product(windows, padded, dy):
    """One product over [C k², N P]: the largest matrices that still fit the cache."""
    n, channels = padded.dims[:2]
    outputs, positions = dy.dims[1], merged(n, int(np.prod(windows.result)))
    turned = apply("Transpose", padded, perm=[1, 0, *range(2, padded.rank)])
    columns = [
        reshape(windows.slice(turned, tap), [channels, positions]) for tap in windows.taps()
    ]
    columns = apply("Concat", *columns, axis=0)
    product = apply("MatMul", columns, _rows(dy, outputs, positions))
    product = reshape(product, [*windows.window, channels, outputs])
    k = windows.n
    return apply("Transpose", product, perm=[k + 1, k, *range(k)])


def _by_tap(windows, padded, dy):
    """A product per tap of the filter: nothing larger than the image is ever stored."""
    n, channels = padded.dims[:2]
    outputs, positions = dy.dims[1], merged(n, int(np.prod(windows.result)))
    turned = apply("Transpose", padded, perm=[1, 0, *range(2, padded.rank)])
    rows = _rows(dy, outputs, positions)
    products = [
        reshape(
            apply("MatMul", reshape(windows.slice(turned, tap), [channels, positions]), rows),
            [1, channels, outputs],
        )
        for tap in windows.taps()
    ]
    product = reshape(apply("Concat", *products, axis=0), [*windows.window, channels, outputs])
    k = windows.n
    return apply("Transpose", product, perm=[k + 1, k, *range(k)])


def _grouped(windows, padded, dy, group):
    """A batched product per image and group."""
    n, channels = padded.dims[:2]
    outputs, positions = dy.dims[1] // group, int(np.prod(windows.result))
    per = channels // group
    taps = windows.taps()
    columns = [
        reshape(windows.slice(padded, tap), [n, group, 1, per, positions]) for tap in taps
    ]
    columns = reshape(apply("Concat", *columns, axis=2), [n, group, len(taps) * per, positions])
    per_image = apply(
        "MatMul",
        reshape(dy, [n, group, outputs, positions]),
        apply("Transpose", columns, perm=[0, 1, 3, 2]),
    )
    total = apply("ReduceSum", per_image, np.array([0]), keepdims=0)
    return _taps_last(reshape(total, [group * outputs, *windows.window, per]))


def _rows(dy, outputs, positions):
    """dy as [N P, O]."""
    order = [0, *range(2, dy.rank), 1]
    return reshape(apply("Transpose", dy, perm=order), [positions, outputs])


def _taps_last(x):
    """[O, *K, C] to [O, C, *K]."""
    return apply("Transpose", x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
