"""Gradients of convolution in ONNX operators: no one lowering wins, so it is chosen by shape."""

import math
from itertools import product

import numpy as np

from ...graph.node import apply, refined
from ...graph.variable import constant
from .factored import factored_filter_grad
from .windows import Windows, merged, reshape, resized

_SMALL = 5_000_000  # elements of all images' products up to which they are summed afterwards
_NARROW = 16  # channels of an image below which its shifts are stacked
_CUTS = 12  # columns of a filter up to which copying is faster than convolving
_MOST = 80  # operators, beyond which a product of all taps is built at once
_PRODUCTS = 9  # beyond which shifts of any number of channels are stacked
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
    grad = refined(grad, node.outputs[0].dims)
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
    grad = refined(grad, dims)
    return grad


def conv_filter_grad(node, inputs, sizes, seed):
    """dy against the windows of x, in the form that moves least for these sizes."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, w.dims[2:])
    taps = len(windows.taps())
    if taps == 1 or x.dims[1] * taps > _FEW:
        return conv_filter_grad_of_rows(node, inputs, sizes, seed)
    grad = _columns(windows, windows.padded(x, 0.0), dy, node.attributes["group"])
    return (_of(node.outputs[0].dims, grad),)


def conv_filter_grad_of_rows(node, inputs, sizes, seed):
    """The same by slices and products alone, without a convolution."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, w.dims[2:])
    group = node.attributes["group"]
    if len(windows.taps()) == 1 and not any(windows.pads):
        grad = reshape(_per_image(dy, windows.slice(x, [0] * windows.n), group), w.dims)
    elif _operators(windows, x, dy, group) > _MOST:
        grad = factored_filter_grad(windows, x, dy, group, _per_image)
    elif group == 1 and _shifts_well(windows):
        rows = x.dims[0] if isinstance(x.dims[0], int) else sizes.get(x.dims[0], 1)
        grad = _shifted(windows, x, dy, rows)
    else:
        grad = _rows(windows, windows.padded(x, 0.0), dy, group)
    return (_of(node.outputs[0].dims, grad),)


def _operators(windows, x, dy, group):
    """The number of operators with one product for each kernel tap, or row of taps."""
    others, last = math.prod(windows.window[:-1]), windows.window[-1]
    if group > 1 or not _shifts_well(windows):
        return 2 * last + (windows.n + 3) * others
    shifts, taps = map(len, _products(windows, x, dy))
    return 4 * others + 2 * last + shifts + 2 * taps + 2 * shifts * taps


def _products(windows, x, dy):
    """Which shifts, and which taps of the last axis, are stacked and so share a product.

    Those of few channels are; and, beyond a number of products, those of fewer channels.
    """
    shifts = list(product(*(range(k) for k in windows.window[:-1])))
    taps = list(range(windows.window[-1]))
    stack = [v.dims[1] < _NARROW for v in (dy, x)]
    smaller = int(x.dims[1] <= dy.dims[1])
    for k in (smaller, 1 - smaller):
        left = math.prod(1 if s else len(v) for s, v in zip(stack, (shifts, taps), strict=True))
        stack[k] = stack[k] or left > _PRODUCTS
    return [[v] if s else [[k] for k in v] for s, v in zip(stack, (shifts, taps), strict=True)]


def _shifts_well(windows):
    """Whether dy moved within the image is not much larger than dy."""
    dense = windows.strides[:-1] == [1] * (windows.n - 1)
    return dense and np.prod(windows.image[:-1]) <= 1.3 * np.prod(windows.result[:-1])


def _columns(windows, padded, dy, group):
    """im2col, then a product per image."""
    outputs, channels = dy.dims[1], padded.dims[1]
    if windows.n != 2 or windows.strides[1] != 1 or group > 1 or windows.window[1] > _CUTS:
        total = _per_image(dy, _convolved(windows, padded), group)
        return reshape(total, [outputs, channels // group, *windows.window])
    rows, columns = windows.window
    total = _per_image(dy, _copied(windows, padded))
    total = reshape(total, [outputs, columns, channels, rows])
    return apply("Transpose", total, perm=[0, 2, 3, 1])


def _copied(windows, padded):
    """Whole rows copied: for each column of the window, channel, and row of the window."""
    taps = range(windows.window[1])
    wide = _joined([windows.slice_axis(padded, 1, tap) for tap in taps], 1)
    (rows, _), (steps, _), (holes, _) = windows.window, windows.strides, windows.dilations
    at = np.arange(rows)[:, None] * holes + np.arange(windows.result[0]) * steps
    cells = apply("Gather", wide, at, axis=2)
    return reshape(cells, [cells.dims[0], wide.dims[1] * rows, *windows.result])


def _convolved(windows, padded):
    """The taps of each channel together: a convolution with one filter for each, a single 1."""
    channels, count = padded.dims[1], len(windows.taps())
    filters = np.eye(count).reshape(count, 1, *windows.window)
    return apply(
        "Conv",
        padded,
        constant(np.tile(filters, (channels, *[1] * (windows.n + 1))), padded.dtype),
        strides=windows.strides,
        dilations=windows.dilations,
        group=channels,
    )


def _shifted(windows, x, dy, rows):
    """A product for each tap: of x moved along the last axis, and of dy moved along the others.

    Per image while the products of all images are small, else over all images at once. Moved
    images of few channels are stacked, which makes one product of several.
    """
    n, channels, outputs = windows.n, x.dims[1], dy.dims[1]
    shifts, taps = _products(windows, x, dy)
    per_image = rows * channels * outputs * len(windows.taps()) <= _SMALL
    if not per_image:
        x, dy = (apply("Transpose", v, perm=[1, 0, *range(2, v.rank)]) for v in (x, dy))
    axis, flat = (1, _flat_images) if per_image else (0, _flat_channels)
    moved = [_joined([_moved(windows, dy, shift) for shift in part], axis) for part in shifts]
    side = [_joined([_beside(windows, x, tap) for tap in part], axis) for part in taps]
    moved, side = [flat(v) for v in moved], [_turned_over(flat(v)) for v in side]
    total = _joined([_joined([_product(a, b) for b in side], 1) for a in moved], 0)
    total = reshape(total, [*windows.window[:-1], outputs, windows.window[-1], channels])
    return apply("Transpose", total, perm=[n - 1, n + 1, *range(n - 1), n])


def _moved(windows, dy, shift):
    """dy where the image is that it meets at a tap: moved along all axes but the last.

    The last two axes are one on the way, so that whole planes are copied, not rows.
    """
    image, result = windows.image[:-1], windows.result[:-1]
    offsets = zip(shift, windows.dilations, windows.pads, strict=False)
    before = [t * d - p for t, d, p in offsets]
    after = [size - r - b for size, r, b in zip(image, result, before, strict=True)]
    if not any((*before, *after)):
        return dy
    *lead, rows, columns = dy.dims
    before[-1], after[-1] = before[-1] * columns, after[-1] * columns
    moved = resized(reshape(dy, [*lead, rows * columns]), before, after, 0.0)
    return reshape(moved, [*moved.dims[:-1], image[-1], columns])


def _beside(windows, x, tap):
    """The columns of x that the result meets at a tap of the last axis."""
    last = windows.n - 1
    stride, result = windows.strides[last], windows.result[last]
    before = windows.pads[last] - tap * windows.dilations[last]
    after = (result - 1) * stride + 1 - windows.image[last] - before
    x = resized(x, [*[0] * last, before], [*[0] * last, after], 0.0)
    return x if stride == 1 else windows.slice_axis(x, last, 0)


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
    rows, products = _flat_images(dy, group), []
    for tap in product(*(range(k) for k in windows.window[:-1])):
        cells = wide
        for axis, t in enumerate(tap):
            cells = windows.slice_axis(cells, axis, t)
        products.append(_product(rows, _turned_over(_flat_images(cells, group))))
    total = _joined(products, products[0].rank - 1)
    total = reshape(total, [dy.dims[1], *windows.window, per])
    return apply("Transpose", total, perm=[0, windows.n + 1, *range(1, windows.n + 1)])


def _per_image(a, b, group=1):
    """a bᵀ over the positions of each image and group, summed over the images: [A, B / group]."""
    height, width = a.dims[1], b.dims[1] // group
    total = _product(_flat_images(a, group), _turned_over(_flat_images(b, group)))
    return reshape(total, [height, width])


def _product(a, b):
    """The product of two matrices, or of those of each image, which is summed over the images."""
    y = apply("MatMul", a, b)
    return apply("ReduceSum", y, np.array([0]), keepdims=0) if y.rank > 2 else y


def _turned_over(x):
    return apply("Transpose", x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _flat_images(x, group=1):
    """A matrix of channels by positions for each image, and group if there are several."""
    n, channels, *sizes = x.dims
    groups = [group] if group > 1 else []
    return reshape(x, [n, *groups, channels // group, math.prod(sizes)])


def _flat_channels(x):
    """A matrix of channels by the positions of all images, which stand behind the channels."""
    channels, n, *sizes = x.dims
    return reshape(x, [channels, merged(n, math.prod(sizes))])
