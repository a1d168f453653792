"""Gradients of convolution in ONNX operators: no one lowering wins, so it is chosen by shape."""

from itertools import product

import numpy as np

from ...node import apply
from ...variable import constant
from .windows import Windows, merged, reshape, resized

_SMALL = 4_000_000  # elements of all images' products up to which they are summed afterwards
_FEW = 64  # columns of an im2col matrix up to which one product with all of them is fastest


def conv_input_grad(node, inputs, sizes, seed):
    """A transposed convolution; where no more positions go in than come out, an ordinary one."""
    w, dy, x = inputs
    a = node.attributes
    geometry = {k: a[k] for k in ("strides", "pads", "dilations", "group")}
    windows = Windows(node, x, dy, w.dims[2:])
    if _stays_in_size(windows, geometry["group"]):
        return (_turned(windows, w, dy, node.outputs[0].dims),)
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


def _stays_in_size(windows, group):
    """Whether a convolution of dy makes about as many products as the transposed one."""
    whole = windows.strides == windows.dilations == [1] * windows.n
    image, result = np.prod(windows.image), np.prod(windows.result)
    return whole and group == 1 and image <= 1.2 * result


def _turned(windows, w, dy, dims):
    """dy convolved with the filters turned around: ConvTranspose is slower on CPU kernels."""
    n = windows.n
    axes, ends = np.arange(2, 2 + n), np.full(n, np.iinfo(np.int64).min)
    turned = apply("Slice", w, np.full(n, -1), ends, axes, np.full(n, -1), known=w.dims)
    turned = apply("Transpose", turned, perm=[1, 0, *range(2, 2 + n)])
    before = [k - 1 - p for k, p in zip(windows.window, windows.pads, strict=False)]
    after = [
        size - r - b + k - 1
        for size, r, b, k in zip(windows.image, windows.result, before, windows.window, strict=True)
    ]
    if min(before) >= 0 and min(after) >= 0:
        return _of(dims, apply("Conv", dy, turned, pads=[*before, *after]))
    widened = resized(dy, before, after, 0.0)
    return _of(dims, apply("Conv", widened, turned))


def _of(dims, grad):
    grad.dims = dims
    return grad


def conv_filter_grad(node, inputs, sizes, seed):
    """dy against the windows of x, in the form that moves least for these sizes."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, w.dims[2:])
    padded, group = windows.padded(x, 0.0), node.attributes["group"]
    if x.dims[1] * len(windows.taps()) <= _FEW:
        grad = _columns(windows, padded, dy, group)
    elif group == 1 and _shifts_well(windows):
        rows = x.dims[0] if isinstance(x.dims[0], int) else sizes.get(x.dims[0], 1)
        grad = _shifted(windows, padded, dy, rows)
    else:
        grad = _rows(windows, padded, dy, group)
    return (_of(node.outputs[0].dims, grad),)


def _shifts_well(windows):
    """Whether dy moved within the reach of the windows is not much larger than dy."""
    dense = windows.strides[:-1] == [1] * (windows.n - 1)
    return dense and np.prod(windows.reach[:-1]) <= 1.3 * np.prod(windows.result[:-1])


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
    total = _per_image(dy, columns, group)
    return reshape(total, [dy.dims[1], channels // group, *windows.window])


def _shifted(windows, padded, dy, rows):
    """The taps of the last axis as channels of x, those of the others as shifts of dy.

    All taps are then one product of [C k] with [O k']; per image while the products of all images
    are small, else over all images at once.
    """
    channels, outputs = padded.dims[1], dy.dims[1]
    last, others = windows.window[-1], [range(k) for k in windows.window[:-1]]
    shifts = list(product(*others))
    per_image = rows * channels * last * outputs * len(shifts) <= _SMALL
    if not per_image:
        padded, dy = (apply("Transpose", v, perm=[1, 0, *range(2, v.rank)]) for v in (padded, dy))
    axis = 1 if per_image else 0
    side = [windows.slice_axis(padded, windows.n - 1, tap) for tap in range(last)]
    moved = [_moved(windows, dy, shift) for shift in shifts]
    total = (_per_image if per_image else _all_images)(_joined(side, axis), _joined(moved, axis))
    total = reshape(total, [last, channels, *windows.window[:-1], outputs])
    n = windows.n
    return apply("Transpose", total, perm=[n + 1, 1, *range(2, n + 1), 0])


def _moved(windows, dy, shift):
    """dy among zeros, as tall as the windows reach, moved along all axes but the last."""
    before = [t * d for t, d in zip(shift, windows.dilations, strict=False)] + [0]
    after = [
        reach - size - b
        for reach, size, b in zip(windows.reach[:-1], windows.result, before, strict=False)
    ] + [0]
    return resized(dy, before, after, 0.0)


def _joined(parts, axis):
    return parts[0] if len(parts) == 1 else apply("Concat", *parts, axis=axis)


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
        products.append(_per_image(dy, cells, group))
    total = reshape(_joined(products, 1), [dy.dims[1], *windows.window, per])
    return apply("Transpose", total, perm=[0, windows.n + 1, *range(1, windows.n + 1)])


def _per_image(a, b, group=1):
    """a bᵀ over the positions of each image and group, summed over the images: [A, B / group]."""
    n, positions = a.dims[0], int(np.prod(a.dims[2:]))
    height, width = a.dims[1], b.dims[1] // group
    a = reshape(a, [n, group, height // group, positions])
    b = reshape(b, [n, group, width, positions])
    products = apply("MatMul", a, apply("Transpose", b, perm=[0, 1, 3, 2]))
    total = apply("ReduceSum", products, np.array([0]), keepdims=0)
    return reshape(total, [height, width])


def _all_images(a, b):
    """a bᵀ over the positions of all images, which stand behind the channels: [A, B]."""
    positions = merged(a.dims[1], int(np.prod(a.dims[2:])))
    a, b = (reshape(v, [v.dims[0], positions]) for v in (a, b))
    return apply("MatMul", a, apply("Transpose", b, perm=[1, 0]))
