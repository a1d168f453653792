"""Derivatives of convolution and pooling.

A convolution is bilinear: <conv(x, w), dy> is one trilinear form, whose three partial products
(`conv`, `conv_input_grad`, `conv_filter_grad`) are each other's derivatives, to any order.
"""

import numpy as np

from ... import ops
from ...graph.errors import NoGradient
from ...graph.node import Node
from ...graph.variable import Variable, constant, static
from ...ops.math import quotient
from ..expression import expression
from ..registry import Attributes, Gradients, gradient, reapply
from .windows import counts, geometry, known_sizes, pool_geometry, transposed_geometry


@gradient("Conv")
def conv(node: Node, dy: Variable) -> Gradients:
    x, w, *bias = node.inputs
    options = {**geometry(node, x, static(w.dims[2:])), "group": node.attributes.get("group", 1)}
    return [
        lambda: ops.conv_input_grad(w, dy, x, **options),
        lambda: ops.conv_filter_grad(x, dy, w, **options),
        *[lambda: _per_channel(dy) for _ in bias],
    ]


@gradient("ConvInputGrad")
def conv_input_grad(node: Node, u: Variable) -> Gradients:
    w, dy, _ = node.inputs
    return [
        lambda: ops.conv_filter_grad(u, dy, w, **node.attributes),
        lambda: ops.conv(u, w, **node.attributes),
        None,
    ]


@gradient("ConvFilterGrad")
def conv_filter_grad(node: Node, u: Variable) -> Gradients:
    x, dy, _ = node.inputs
    return [
        lambda: ops.conv_input_grad(u, dy, x, **node.attributes),
        lambda: ops.conv(x, u, **node.attributes),
        None,
    ]


@gradient("ConvTranspose")
def conv_transpose(node: Node, dy: Variable) -> Gradients:
    """A convolution with the image and the result exchanged."""
    x, w, *bias = node.inputs
    if 0 in x.dims:  # its result is the bias alone, and smaller than a window
        return [
            lambda: ops.zeros_like(x),
            lambda: ops.zeros_like(w),
            *[_per_channel(dy) for _ in bias],
        ]
    options = {
        **transposed_geometry(node, x, static(w.dims[2:])),
        "group": node.attributes.get("group", 1),
    }
    return [
        lambda: _crop(ops.conv(dy, w, **options), x),
        lambda: ops.conv_filter_grad(dy, x, w, **options),
        *[lambda: _per_channel(dy) for _ in bias],
    ]


def _crop(g, x):
    """Crop g to the size of x: `output_padding` adds windows that no pixel of x reaches."""
    axes = [k for k in range(2, x.rank) if g.dims[k] != x.dims[k] and known_sizes(x)]
    return ops.slice(g, [0] * len(axes), [x.dims[k] for k in axes], axes) if axes else g


def _per_channel(dy):
    return ops.reduce_sum(dy, [0, *range(2, dy.rank)])


@gradient("MaxPool", "TiedMaxPool")
def max_pool(node: Node, dy: Variable, *indices: Variable | None) -> Gradients:
    """To the first maximum of each window; to all of them with ties="all"."""
    (x,), window = node.inputs, node.attributes["kernel_shape"]
    ties = node.attributes.get("ties", "first")
    if known_sizes(x) and known_sizes(dy):
        options = {"kernel_shape": list(window), **pool_geometry(node, x, window), "ties": ties}
        return [ops.max_pool_grad(x, _maxima(node, options["pads"]), dy, **options)]
    if ties == "all":
        raise NoGradient(f"ties='all' has a gradient for images of known sizes, not {x!r}")
    _, index = reapply(node, x, outputs=2, storage_order=0)
    flat = ops.reshape(ops.zeros_like(x), [-1])
    flat = ops.scatter_add(flat, ops.reshape(index, [-1]), ops.reshape(dy, [-1]))
    return [ops.reshape_like(flat, x)]


def _maxima(node, pads):
    """Return the result of a pooling, with explicit padding where ONNX miscounts ceil_mode."""
    fits = all(p < k for p, k in zip(pads, node.attributes["kernel_shape"] * 2, strict=True))
    if not node.attributes.get("ceil_mode", 0) or not fits:
        return node.outputs[0]
    return reapply(node, *node.inputs, ceil_mode=0, pads=pads, auto_pad=None)


@gradient("MaxPoolGrad")
def max_pool_grad(node: Node, u: Variable) -> Gradients:
    x, y, _ = node.inputs
    return [None, None, ops.max_pool_pick(x, y, u, **node.attributes)]


@gradient("MaxPoolPick")
def max_pool_pick(node: Node, dz: Variable) -> Gradients:
    x, y, _ = node.inputs
    return [None, None, ops.max_pool_grad(x, y, dz, **node.attributes)]


@gradient("AveragePool")
def avg_pool(node: Node, dy: Variable) -> Gradients:
    (x,), a, window = node.inputs, node.attributes, node.attributes["kernel_shape"]
    own = geometry(node, x, window)
    if not known_sizes(x):
        return [_spread(x, dy / _counts_at_runtime(node, x, own), window, own)]
    padded = pool_geometry(node, x, window)
    if own == padded and set(own["dilations"]) == {1}:
        options = {**padded, "kernel_shape": list(window), "ceil_mode": 0}
        options["count_include_pad"] = a.get("count_include_pad", 0)
        return [ops.avg_pool_grad(x, dy, **options)]
    return [_spread(x, dy * constant(1.0 / counts(node, x, window), dy.dtype), window, padded)]


def _counts_at_runtime(node, x, form):
    """Return the number of cells that each window averages, for sizes known only at run time."""
    window = node.attributes["kernel_shape"]
    if node.attributes.get("ceil_mode", 0):
        raise NoGradient(f"ceil_mode has a gradient for images of known sizes, not {x!r}")
    if node.attributes.get("count_include_pad", 0):
        return float(np.prod(window))
    ones = constant(np.ones((1, 1, *window)), x.dtype)
    one = ops.slice(ops.ones_like(x), [0, 0], [1, 1], [0, 1])
    return ops.conv(one, ones, **form)


def _spread(x, dy, window, form):
    """Add each element of dy to all cells of its window."""
    channels = x.dims[1]
    if not isinstance(channels, int):
        raise NoGradient(f"only images with known channels have a gradient, not {x!r}")
    ones = constant(np.ones((channels, 1, *window)), dy.dtype)
    return ops.conv_input_grad(ones, dy, x, **form, group=channels)


@gradient("AveragePoolGrad")
def avg_pool_grad(node: Node, u: Variable) -> Gradients:
    a = node.attributes
    include = bool(a["count_include_pad"])
    return [None, ops.avg_pool(u, a["kernel_shape"], a["strides"], a["pads"], False, include)]


@gradient("LpPool")
def lp_pool(node: Node, dy: Variable) -> Gradients:
    """x |x|^(p-2), times the sum of dy y^(1-p) over the windows of each cell."""
    (x,), y, a = node.inputs, node.outputs[0], node.attributes
    p, window = a.get("p", 2), a["kernel_shape"]
    nonzero = ops.where(ops.equal(y, 0.0), 1.0, y)
    form = (pool_geometry if known_sizes(x) else geometry)(node, x, window)
    spread = _spread(x, dy * nonzero ** (1.0 - p), window, form)
    return [ops.sign(x) * abs(x) ** (p - 1.0) * spread]


@expression("GlobalAveragePool")
def global_average_pool(a: Attributes, x: Variable) -> Variable:
    return ops.reduce_mean(x, range(2, x.rank), keep_dim=True)


@expression("GlobalMaxPool")
def global_max_pool(a: Attributes, x: Variable) -> Variable:
    """Maximum of each channel; the gradient goes to the first of equal elements, as in MaxPool."""
    if known_sizes(x):
        return ops.max_pool(x, static(x.dims[2:]))
    flat = ops.reshape(x, [0, 0, -1])
    largest = ops.gather_elements(flat, ops.arg_max(flat, 2, keep_dim=True), 2)
    return ops.unsqueeze(largest, range(3, x.rank))


@expression("GlobalLpPool")
def global_lp_pool(a: Attributes, x: Variable) -> Variable:
    """p-norm of each channel; its gradient is zero where all elements are 0."""
    p = float(a.get("p", 2))
    total = ops.reduce_sum(abs(x) ** p, range(2, x.rank), keep_dim=True)
    empty = ops.equal(total, 0.0)
    return ops.where(empty, 0.0, ops.where(empty, 1.0, total) ** (1.0 / p))


@expression("LRN")
def local_response_norm(a: Attributes, x: Variable) -> Variable:
    alpha, beta, k = a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
    return ops.local_response_norm(x, a["size"], alpha, beta, k)


@expression("Col2Im")
def col_to_im(a: Attributes, x: Variable, image: Variable, block: Variable) -> Variable:
    """Sum the columns of an im2col into an image, `torch.nn.Fold`."""
    known = [d for v in (image, block) for d in v.dims if isinstance(d, int)]
    if not known:
        raise NoGradient(f"the number of axes of an image {image!r} is not known")
    n = known[0]
    strides, dilations = (a.get(k) or [1] * n for k in ("strides", "dilations"))
    pads = a.get("pads") or [0] * (2 * n)
    index, within = constant(np.int64(0)), constant(True)
    for k in range(n):
        size, width = (ops.slice(v, [k], [k + 1], [0]) for v in (image, block))
        extent = (width - 1) * dilations[k] + 1
        count = quotient(size + (pads[k] + pads[k + n]) - extent, strides[k]) + 1
        start = ops.arange(count) * strides[k] - pads[k]
        tap = ops.arange(width) * dilations[k]
        position = _along(tap, k, n) + _along(start, n + k, n)
        inside = ops.logical_and(position >= 0, position < size)
        index, within = index * size + position, ops.logical_and(within, inside)
    index, within = (ops.reshape(v, [-1]) for v in (index, within))
    count = ops.reshape(ops.reduce_prod(image), [1])
    index = ops.where(within, index, count)  # padding is summed in one more cell, then cut off
    lead = ops.slice(ops.shape_of(x), [0], [1], [0])
    rows = ops.reshape(x, ops.concat([lead, [-1], ops.shape_of(index)]))
    base = ops.expand(ops.cast(0.0, x.dtype), ops.concat([_leading_two(rows), count + 1]))
    index = ops.expand_like(ops.reshape(index, [1, 1, -1]), rows)
    pixels = ops.slice(ops.scatter_add(base, index, rows, 2), [0], count, [2])
    return ops.reshape(pixels, ops.concat([_leading_two(rows), image]))


def _leading_two(x):
    return ops.slice(ops.shape_of(x), [0], [2], [0])


def _along(v, axis, n):
    """Reshape a vector to lie along one of 2 n axes."""
    return ops.reshape(v, [-1 if k == axis else 1 for k in range(2 * n)])
