"""Gradients of convolution in ONNX operators: no form is fastest for all shapes, so that the shape
decides."""

import math
from itertools import product

import numpy as np

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.variable import Inputs, constant, static
from .context import Context, Outputs
from .factored import factored_filter_grad
from .windows import Windows, merged, pad_or_crop, reshape_dims

_SMALL = 5_000_000  # elements of all images' products up to which these are summed afterwards
_NARROW = 16  # channels of an image below which its shifts are stacked
_CUTS = 12  # columns of a filter up to which im2col by slices is faster than by convolving
_MOST = 80  # operators, beyond which a product of all taps is built at once
_PRODUCTS = 9  # beyond which shifts of any number of channels are stacked
_FEW = 64  # columns of an im2col matrix up to which one product with all of them is fastest


def conv_input_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a transposed convolution, or to an ordinary one where that makes as few products."""
    w, dy, x = inputs
    a = node.attributes
    geometry = {k: a[k] for k in ("strides", "pads", "dilations", "group")}
    windows = Windows(node, x, dy, static(w.dims[2:]))
    if _stays_in_size(windows, geometry["group"]):
        return (_flipped_conv(windows, w, dy, node.outputs[0].dims),)
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


def _flipped_conv(windows, w, dy, dims):
    """dy convolved with the flipped filters: ConvTranspose is slower on CPU kernels."""
    n = windows.n
    axes, ends = np.arange(2, 2 + n), np.full(n, np.iinfo(np.int64).min)
    flipped = apply("Slice", w, np.full(n, -1), ends, axes, np.full(n, -1), known=w.dims)
    flipped = ops.transpose(flipped, [1, 0, *range(2, 2 + n)])
    before = [k - 1 - p for k, p in zip(windows.window, windows.pads, strict=False)]
    after = [
        size - r - b + k - 1
        for size, r, b, k in zip(windows.image, windows.result, before, windows.window, strict=True)
    ]
    if min(before) >= 0 and min(after) >= 0:
        return _of(dims, apply("Conv", dy, flipped, pads=[*before, *after]))
    resized = pad_or_crop(dy, before, after, 0.0)
    return _of(dims, apply("Conv", resized, flipped))


def _of(dims, grad):
    grad = refined(grad, dims)
    return grad


def conv_filter_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to products of dy with the windows of x, in the form that copies least."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, static(w.dims[2:]))
    taps = len(windows.taps())
    if taps == 1 or static(x.dims)[1] * taps > _FEW:
        return conv_filter_grad_of_rows(node, inputs, context)
    grad = _by_im2col(windows, windows.padded(x, 0.0), dy, node.attributes["group"])
    return (_of(node.outputs[0].dims, grad),)


def conv_filter_grad_of_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to slices and products alone, without a convolution."""
    x, dy, w = inputs
    windows = Windows(node, x, dy, static(w.dims[2:]))
    group = node.attributes["group"]
    if len(windows.taps()) == 1 and not any(windows.pads):
        grad = reshape_dims(_per_image(dy, windows.slice(x, [0] * windows.n), group), w.dims)
    elif _operators(windows, x, dy, group) > _MOST:
        grad = factored_filter_grad(windows, x, dy, group, _per_image)
    elif group == 1 and _shifts_well(windows):
        grad = _by_shifts(windows, x, dy, images=context.size(x.dims[0], default=1))
    else:
        grad = _by_rows(windows, windows.padded(x, 0.0), dy, group)
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


def _by_im2col(windows, padded, dy, group):
    """im2col, then a product per image."""
    outputs, channels = dy.dims[1], padded.dims[1]
    if windows.n != 2 or windows.strides[1] != 1 or group > 1 or windows.window[1] > _CUTS:
        total = _per_image(dy, _im2col_by_conv(windows, padded), group)
        return reshape_dims(total, [outputs, channels // group, *windows.window])
    rows, columns = windows.window
    total = _per_image(dy, _im2col_by_slices(windows, padded))
    total = reshape_dims(total, [outputs, columns, channels, rows])
    return ops.transpose(total, [0, 2, 3, 1])


def _im2col_by_slices(windows, padded):
    """Cells [N, columns of the window * C * rows of the window, *result]: whole rows are copied."""
    taps = range(windows.window[1])
    wide = _concat([windows.slice_axis(padded, 1, tap) for tap in taps], 1)
    (rows, _), (stride, _), (dilation, _) = windows.window, windows.strides, windows.dilations
    at = np.arange(rows)[:, None] * dilation + np.arange(windows.result[0]) * stride
    cells = ops.gather(wide, at, axis=2)
    return reshape_dims(cells, [cells.dims[0], wide.dims[1] * rows, *windows.result])


def _im2col_by_conv(windows, padded):
    """Cells [N, C * taps, *result]: a convolution with one filter for each tap, a single 1."""
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


def _by_shifts(windows, x, dy, images):
    """A product for each tap: of x shifted along the last axis, and of dy along the others.

    Per image while the products of all images are small, else over all images at once. Shifted
    images of few channels are stacked, which makes one product of several.
    """
    n, channels, outputs = windows.n, x.dims[1], dy.dims[1]
    shifts, taps = _products(windows, x, dy)
    per_image = images * channels * outputs * len(windows.taps()) <= _SMALL
    if not per_image:
        x, dy = (ops.transpose(v, [1, 0, *range(2, v.rank)]) for v in (x, dy))
    axis, flat = (1, _flat_images) if per_image else (0, _flat_channels)
    left = [_concat([_shifted(windows, dy, shift) for shift in part], axis) for part in shifts]
    right = [_concat([_columns(windows, x, tap) for tap in part], axis) for part in taps]
    left, right = [flat(v) for v in left], [_transposed(flat(v)) for v in right]
    total = _concat([_concat([_product(a, b) for b in right], 1) for a in left], 0)
    total = reshape_dims(total, [*windows.window[:-1], outputs, windows.window[-1], channels])
    return ops.transpose(total, [n - 1, n + 1, *range(n - 1), n])


def _shifted(windows, dy, shift):
    """dy shifted to the pixels that it meets at a tap, along all axes but the last.

    The last two axes are merged meanwhile, so that whole planes are copied, not rows.
    """
    image, result = windows.image[:-1], windows.result[:-1]
    offsets = zip(shift, windows.dilations, windows.pads, strict=False)
    before = [t * d - p for t, d, p in offsets]
    after = [size - r - b for size, r, b in zip(image, result, before, strict=True)]
    if not any((*before, *after)):
        return dy
    *lead, rows, columns = dy.dims
    before[-1], after[-1] = before[-1] * columns, after[-1] * columns
    planes = pad_or_crop(reshape_dims(dy, [*lead, rows * columns]), before, after, 0.0)
    return reshape_dims(planes, [*planes.dims[:-1], image[-1], columns])


def _columns(windows, x, tap):
    """The columns of x that the result meets at a tap of the last axis."""
    last = windows.n - 1
    stride, result = windows.strides[last], windows.result[last]
    before = windows.pads[last] - tap * windows.dilations[last]
    after = (result - 1) * stride + 1 - windows.image[last] - before
    x = pad_or_crop(x, [*[0] * last, before], [*[0] * last, after], 0.0)
    return x if stride == 1 else windows.slice_axis(x, last, 0)


def _concat(parts, axis):
    return parts[0] if len(parts) == 1 else ops.concat(parts, axis)


def _by_rows(windows, padded, dy, group):
    """The taps of the last axis stacked as channels, then a product per image for each tap of the
    other axes: every copy moves whole rows.
    """
    n, channels = padded.dims[:2]
    per, last = channels // group, windows.window[-1]
    parts = []
    for tap in range(last):
        part = windows.slice_axis(padded, windows.n - 1, tap)
        parts.append(reshape_dims(part, [n, group, 1, per, *part.dims[2:]]))
    wide = ops.concat(parts, axis=2)
    wide = reshape_dims(wide, [n, channels * last, *wide.dims[4:]])
    rows, products = _flat_images(dy, group), []
    for tap in product(*(range(k) for k in windows.window[:-1])):
        cells = wide
        for axis, t in enumerate(tap):
            cells = windows.slice_axis(cells, axis, t)
        products.append(_product(rows, _transposed(_flat_images(cells, group))))
    total = _concat(products, products[0].rank - 1)
    total = reshape_dims(total, [dy.dims[1], *windows.window, per])
    return ops.transpose(total, [0, windows.n + 1, *range(1, windows.n + 1)])


def _per_image(a, b, group=1):
    """a bᵀ over the positions of each image and group, summed over the images: [A, B / group]."""
    height, width = a.dims[1], b.dims[1] // group
    total = _product(_flat_images(a, group), _transposed(_flat_images(b, group)))
    return reshape_dims(total, [height, width])


def _product(a, b):
    """The product of two matrices, or the sum of the products of each image's."""
    y = a @ b
    return ops.reduce_sum(y, 0) if y.rank > 2 else y


def _transposed(x):
    """x with its last two axes exchanged."""
    return ops.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _flat_images(x, group=1):
    """A matrix of channels by positions for each image, and group if there are several."""
    n, channels, *sizes = x.dims
    groups = [group] if group > 1 else []
    return reshape_dims(x, [n, *groups, channels // group, math.prod(sizes)])


def _flat_channels(x):
    """A matrix of channels by the positions of all images, for an image [C, N, *S]."""
    channels, n, *sizes = x.dims
    return reshape_dims(x, [channels, merged(n, math.prod(sizes))])
