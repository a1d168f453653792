"""Gradients of convolution in ONNX operators: no one lowering wins, so it is chosen by shape."""

from itertools import product

import numpy as np

from ...node import apply
from ...variable import constant
from .windows import Windows, merged, reshape, resized

_SMALL = 5_000_000  # elements of all images' products up to which they are summed afterwards
_NARROW = 16  # channels of an image below which its shifts are stacked
_CUTS = 12  # slices up to which an image is cut up faster than it is convolved
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
    elif group == 1 and _shifts_well(windows):
        rows = x.dims[0] if isinstance(x.dims[0], int) else sizes.get(x.dims[0], 1)
        grad = _shifted(windows, x, dy, rows)
    else:
        grad = _rows(windows, windows.padded(x, 0.0), dy, group)
    return (_of(node.outputs[0].dims, grad),)


def _shifts_well(windows):
    """Whether dy moved within the image is not much larger than dy."""
    dense = windows.strides[:-1] == [1] * (windows.n - 1)
    return dense and np.prod(windows.image[:-1]) <= 1.3 * np.prod(windows.result[:-1])


def _columns(windows, padded, dy, group):
    """im2col, then a product per image."""
    cut = windows.n > 1 and windows.strides[-1] == group == 1 and sum(windows.window) <= _CUTS
    columns = (_cut if cut else _convolved)(windows, padded)
    total = _per_image(dy, columns, group)
    if cut:
        total = reshape(total, [dy.dims[1], *windows.window, padded.dims[1]])
        return apply("Transpose", total, perm=[0, windows.n + 1, *range(1, windows.n + 1)])
    return reshape(total, [dy.dims[1], padded.dims[1] // group, *windows.window])


def _cut(windows, x):
    """The taps one above the other, the channels of each together: axis by axis, last one first."""
    for axis in reversed(range(windows.n)):
        taps = range(windows.window[axis])
        x = _joined([windows.slice_axis(x, axis, tap) for tap in taps], 1)
    return x


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
    per_image = rows * channels * outputs * len(windows.taps()) <= _SMALL
    if not per_image:
        x, dy = (apply("Transpose", v, perm=[1, 0, *range(2, v.rank)]) for v in (x, dy))
    axis, of_product = (1, _per_image) if per_image else (0, _all_images)
    shifts = list(product(*(range(k) for k in windows.window[:-1])))
    moved = [_moved(windows, dy, shift) for shift in shifts]
    side = [_beside(windows, x, tap) for tap in range(windows.window[-1])]
    moved, side = (_stacked(v, axis) for v in (moved, side))
    total = _joined([_joined([of_product(a, b) for b in side], 1) for a in moved], 0)
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


def _stacked(parts, axis):
    """The parts one above the other where they have few channels."""
    return [_joined(parts, axis)] if parts[0].dims[axis] < _NARROW else parts


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
