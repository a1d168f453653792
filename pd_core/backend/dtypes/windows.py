"""Convolution and average pooling by Gather, MatMul and sums, for images of any sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant

Size = int | Variable  # a number, or an int64 scalar that is known at run time


def conv(node: Node, inputs: Inputs) -> Variable:
    """Gather the cells of all windows (im2col), and multiply them with the filters."""
    x, w, *bias = inputs
    a, n = node.attributes, x.rank - 2
    window = [size(w, 2 + k) for k in range(n)]
    axes = _axes(node, x, window)
    y = _convolved(x, w, axes, a.get("group", 1))
    return _biased(y, bias)


def conv_transpose(node: Node, inputs: Inputs) -> Variable:
    """Convolve the image, with zeros between its pixels, with the flipped filters."""
    x, w, *bias = inputs
    a, n = node.attributes, x.rank - 2
    group, window = a.get("group", 1), [size(w, 2 + k) for k in range(n)]
    strides, dilations = (list(a.get(k) or [1] * n) for k in ("strides", "dilations"))
    more = list(a.get("output_padding") or [0] * n)
    pads = _transposed_pads(node, x, window, strides, dilations, more)
    for k in range(n):
        x = _spread(x, 2 + k, strides[k])
        reach = (window[k] - 1) * dilations[k]
        x = _padded(x, 2 + k, reach - pads[k], reach - pads[n + k] + more[k])
    channels = size(w, 0)
    parts = [group, quotient(channels, group), size(w, 1)]
    w = reshaped(w, [*parts, *window])
    w = ops.transpose(w, [0, 2, 1, *range(3, 3 + n)])
    w = reshaped(w, [parts[0] * parts[2], parts[1], *window])
    w = ops.flip(w, list(range(2, 2 + n)))
    axes = [_Axis(size(x, 2 + k), window[k], 1, dilations[k], 0, 0) for k in range(n)]
    return _biased(_convolved(x, w, axes, group), bias)


def average_pool(node: Node, inputs: Inputs) -> Variable:
    """Sum the windows along one axis after the other, and divide by their areas."""
    (x,) = inputs
    include = node.attributes.get("count_include_pad", 0)
    axes = _axes(node, x, node.attributes["kernel_shape"])
    total, area = _window_sums(x, axes), constant(1, x.dtype)
    for k, axis in enumerate(axes):
        cells = ops.reduce_sum(ops.cast(axis.inside(bool(include)), x.dtype), 1)
        area = area * ops.reshape(cells, [-1, *[1] * (len(axes) - 1 - k)])
    return total / area


def lp_pool(node: Node, inputs: Inputs) -> Variable:
    """The p-norm of each window."""
    (x,), p = inputs, float(node.attributes.get("p", 2))
    total = _window_sums(abs(x) ** p, _axes(node, x, node.attributes["kernel_shape"]))
    return total ** (1.0 / p)


class _Axis:
    """The windows along an axis of an image of `size` pixels, `before` and `after` it padding."""

    def __init__(self, size: Size, window: Size, stride: int, dilation: int, before, after, ceil=0):
        self.size, self.window, self.after = size, window, after
        self.overhang = ceil or not (_is_zero(before) and _is_zero(after))
        room = size + before + after - ((window - 1) * dilation + 1)
        count = quotient(room + (stride - 1 if ceil else 0), stride) + 1
        if ceil:  # the last window begins in the image, or in the padding before it
            late = (count - 1) * stride - (size + before)
            count = count - _one_if_not_negative(late)
        self.count = count
        starts = _range(count) * stride - before
        self.at = ops.unsqueeze(starts, 1) + ops.unsqueeze(_range(window) * dilation, 0)

    def inside(self, padding: bool = False) -> Variable:
        """Return a mask of the cells within the image, or its padding too: [count, window]."""
        end = self.size + self.after if padding else self.size
        within = ops.less_than(self.at, end)
        return within if padding else ops.logical_and(within, ops.greater_equal(self.at, 0))

    def cells(self, x: Variable, axis: int) -> Variable:
        """Return the cells of the windows along an axis of x: [..., count, window, ...]."""
        if self.size == 0:
            x = _padded(x, axis, 0, 1)  # a pixel that lies outside
        last = 0 if self.size == 0 else self.size - 1
        at = ops.minimum(ops.maximum(self.at, 0), last)
        y = apply("Gather", x, at, axis=axis)
        if not self.overhang:
            return y
        inside = self.inside()
        for _ in range(y.rank - axis - 2):
            inside = ops.unsqueeze(inside, inside.rank)
        return ops.where(inside, y, 0.0)


def _axes(node, x, window):
    a, n = node.attributes, x.rank - 2
    strides, dilations = (list(a.get(k) or [1] * n) for k in ("strides", "dilations"))
    pads = _pads(node, x, window, strides, dilations)
    ceil = a.get("ceil_mode", 0)
    return [
        _Axis(size(x, 2 + k), window[k], strides[k], dilations[k], pads[k], pads[n + k], ceil)
        for k in range(n)
    ]


def _convolved(x, w, axes, group):
    n = len(axes)
    for k, axis in enumerate(axes):
        x = axis.cells(x, 2 + 2 * k)  # [N, C, count, window, ...]
    counts, windows = [axis.count for axis in axes], [axis.window for axis in axes]
    images, filters = size(x, 0), size(w, 0)
    taps = _product([size(w, 1), *windows])
    # images beside positions: ONNX Runtime's product of stacks fails on an empty one
    order = [1, *range(3, 3 + 2 * n, 2), 0, *range(2, 2 + 2 * n, 2)]
    x = reshaped(ops.transpose(x, order), [group, taps, _product([images, *counts])])
    w = reshaped(w, [group, quotient(filters, group), taps])
    y = reshaped(w @ x, [filters, images, *counts])
    return ops.transpose(y, [1, 0, *range(2, 2 + n)])


def _window_sums(x, axes):
    for k, axis in enumerate(axes):
        x = ops.reduce_sum(axis.cells(x, 2 + k), [3 + k])
    return x


def _biased(y, bias):
    if not bias or bias[0] is None:
        return y
    return y + ops.reshape(bias[0], [-1, *[1] * (y.rank - 2)])


# ---- padding


def _pads(node, x, window, strides, dilations):
    """The padding before each axis, then after each."""
    a, n = node.attributes, x.rank - 2
    kind = a.get("auto_pad", "NOTSET")
    if kind == "VALID":
        return [0] * (2 * n)
    if kind == "NOTSET":
        return list(a.get("pads") or [0] * (2 * n))
    total = []
    for k in range(n):
        pixels = size(x, 2 + k)
        last = (quotient(pixels + strides[k] - 1, strides[k]) - 1) * strides[k]
        total.append(_at_least_zero(last + (window[k] - 1) * dilations[k] + 1 - pixels))
    return _split(total, kind)


def _transposed_pads(node, x, window, strides, dilations, more):
    """The padding of a transposed convolution, from that of its result if this is given."""
    a, n = node.attributes, x.rank - 2
    kind, sizes = a.get("auto_pad", "NOTSET"), a.get("output_shape")
    if kind == "VALID" or (kind == "NOTSET" and not sizes):
        return list(a.get("pads") or [0] * (2 * n))
    total = []
    for k in range(n):
        whole = (size(x, 2 + k) - 1) * strides[k] + more[k] + (window[k] - 1) * dilations[k] + 1
        wanted = sizes[k - n] if sizes else size(x, 2 + k) * strides[k]
        total.append(whole - wanted)
    pads = _split([_at_least_zero(t) for t in total], kind)
    # a result that is larger than the windows reach has zeros at its end
    missing = [t - _at_least_zero(t) for t in total]
    return [*pads[:n], *(p + m for p, m in zip(pads[n:], missing, strict=True))]


def _split(total, kind):
    """Total pads as those before and after; the odd one is after with SAME_UPPER."""
    small = [quotient(t, 2) for t in total]
    large = [t - s for t, s in zip(total, small, strict=True)]
    return [*small, *large] if kind == "SAME_UPPER" else [*large, *small]


def _padded(x, axis, before, after):
    """x with so many zeros at both ends of an axis; cropped where a number is negative."""
    widths: list[Any] = [0] * (2 * x.rank)
    widths[axis], widths[axis + x.rank] = before, after
    return apply("Pad", x, _sizes(widths), constant(0, x.dtype))


def _spread(x, axis, stride):
    """x with zeros between the pixels of an axis."""
    if stride == 1:
        return x
    shape = [size(x, k) for k in range(x.rank)]
    spread = _padded(ops.unsqueeze(x, axis + 1), axis + 1, 0, stride - 1)
    shape[axis] = shape[axis] * stride
    return _padded(reshaped(spread, shape), axis, 0, 1 - stride)


# ---- sizes that are numbers, or known at run time only


def size(x: Variable, axis: int) -> Size:
    """Return the size of an axis as a number, or as an int64 scalar."""
    d = x.dims[axis]
    return d if isinstance(d, int) else ops.reshape(ops.size_of(x, axis), [])


def _product(sizes: Sequence[Size]) -> Size:
    total = sizes[0]
    for s in sizes[1:]:
        total = total * s
    return total


def quotient(a: Size, b: Size) -> Size:
    """Return the quotient of two sizes, neither of which is negative."""
    return a // b if isinstance(a, int) else apply("Div", a, constant(b, np.int64))


def _at_least_zero(a):
    return max(0, a) if isinstance(a, int) else ops.maximum(a, 0)


def _one_if_not_negative(a):
    return int(a >= 0) if isinstance(a, int) else ops.cast(a >= 0, np.int64)


def _is_zero(a):
    return isinstance(a, int) and a == 0


def _range(count):
    return constant(np.arange(count)) if isinstance(count, int) else ops.arange(count)


def _sizes(sizes: Sequence[Size]) -> Variable:
    """An int64 vector of sizes."""
    if all(isinstance(s, int) for s in sizes):
        return constant(np.array(sizes, np.int64))
    return ops.concat([ops.reshape(s, [1]) for s in sizes])


def reshaped(x: Variable, sizes: Sequence[Size]) -> Variable:
    """Return x in another shape; a size of 0 is one, and not that of the same axis of x."""
    return apply("Reshape", x, _sizes(sizes), allowzero=1)
