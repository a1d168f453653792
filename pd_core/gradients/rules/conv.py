"""Derivatives of convolution and pooling.

A convolution is bilinear: <conv(x, w), dy> is one trilinear form, whose three partial products
(`conv`, `conv_input_grad`, `conv_filter_grad`) are each other's derivatives, to any order.
"""

import numpy as np

from ... import ops
from ...graph.errors import NoGradient
from ...graph.variable import constant
from ..expression import expression
from ..registry import gradient, reapply
from .windows import counts, geometry, known_sizes, reached, transposed_geometry


@gradient("Conv")
def conv(node, dy):
    x, w, *bias = node.inputs
    form = {**geometry(node, x, w.dims[2:]), "group": node.attributes.get("group", 1)}
    return [
        lambda: ops.conv_input_grad(w, dy, x, **form),
        lambda: ops.conv_filter_grad(x, dy, w, **form),
        *[lambda: _per_channel(dy) for _ in bias],
    ]


@gradient("ConvInputGrad")
def conv_input_grad(node, u):
    w, dy, _ = node.inputs
    return [
        lambda: ops.conv_filter_grad(u, dy, w, **node.attributes),
        lambda: ops.conv(u, w, **node.attributes),
        None,
    ]


@gradient("ConvFilterGrad")
def conv_filter_grad(node, u):
    x, dy, _ = node.inputs
    return [
        lambda: ops.conv_input_grad(u, dy, x, **node.attributes),
        lambda: ops.conv(x, u, **node.attributes),
        None,
    ]


@gradient("ConvTranspose")
def conv_transpose(node, dy):
    """The same form with image and result exchanged."""
    x, w, *bias = node.inputs
    form = {**transposed_geometry(node, x, w.dims[2:]), "group": node.attributes.get("group", 1)}
    return [
        lambda: _cropped(ops.conv(dy, w, **form), x),
        lambda: ops.conv_filter_grad(dy, x, w, **form),
        *[lambda: _per_channel(dy) for _ in bias],
    ]


def _cropped(g, x):
    """Without the windows that lie in what a transposed convolution was enlarged by."""
    axes = [k for k in range(2, x.rank) if g.dims[k] != x.dims[k] and known_sizes(x)]
    return ops.slice(g, [0] * len(axes), [x.dims[k] for k in axes], axes) if axes else g


def _per_channel(dy):
    return ops.reduce_sum(dy, [0, *range(2, dy.rank)])


@gradient("MaxPool", "TiedMaxPool")
def max_pool(node, dy, *_):
    """To the first that is the largest of its window; to all of them with ties="all"."""
    (x,), window = node.inputs, node.attributes["kernel_shape"]
    ties = node.attributes.get("ties", "first")
    if known_sizes(x) and known_sizes(dy):
        form = {"kernel_shape": list(window), **reached(node, x, window), "ties": ties}
        return [ops.max_pool_grad(x, _maxima(node, form["pads"]), dy, **form)]
    if ties == "all":
        raise NoGradient(f"ties='all' has a gradient for images of known sizes, not {x!r}")
    _, index = reapply(node, x, outputs=2, storage_order=0)
    flat = ops.reshape(ops.zeros_like(x), [-1])
    flat = ops.scatter_add(flat, ops.reshape(index, [-1]), ops.reshape(dy, [-1]))
    return [ops.reshape_like(flat, x)]


def _maxima(node, pads):
    """The result of a pooling; with its padding written out where ONNX miscounts ceil_mode."""
    fits = all(p < k for p, k in zip(pads, node.attributes["kernel_shape"] * 2, strict=True))
    if not node.attributes.get("ceil_mode", 0) or not fits:
        return node.outputs[0]
    return reapply(node, *node.inputs, ceil_mode=0, pads=pads, auto_pad=None)


@gradient("MaxPoolGrad")
def max_pool_grad(node, u):
    x, y, _ = node.inputs
    return [None, None, ops.max_pool_pick(x, y, u, **node.attributes)]


@gradient("MaxPoolPick")
def max_pool_pick(node, dz):
    x, y, _ = node.inputs
    return [None, None, ops.max_pool_grad(x, y, dz, **node.attributes)]


@gradient("AveragePool")
def avg_pool(node, dy):
    (x,), a, window = node.inputs, node.attributes, node.attributes["kernel_shape"]
    own = geometry(node, x, window)
    if not known_sizes(x):
        return [_spread(x, dy / _counted(node, x, own), window, own)]
    form = reached(node, x, window)
    if own == form and set(own["dilations"]) == {1}:
        more = {"kernel_shape": list(window), "ceil_mode": 0}
        more["count_include_pad"] = a.get("count_include_pad", 0)
        return [ops.avg_pool_grad(x, dy, **{**form, **more})]
    return [_spread(x, dy * constant(1.0 / counts(node, x, window), dy.dtype), window, form)]


def _counted(node, x, form):
    """How many cells each window averages, where sizes are known only at run time."""
    window = node.attributes["kernel_shape"]
    if node.attributes.get("ceil_mode", 0):
        raise NoGradient(f"ceil_mode has a gradient for images of known sizes, not {x!r}")
    if node.attributes.get("count_include_pad", 0):
        return float(np.prod(window))
    ones = constant(np.ones((1, 1, *window)), x.dtype)
    one = ops.slice(ops.ones_like(x), [0, 0], [1, 1], [0, 1])
    return ops.conv(one, ones, **form)


def _spread(x, dy, window, form):
    """Each element of dy at all cells of its window."""
    channels = x.dims[1]
    if not isinstance(channels, int):
        raise NoGradient(f"only images with known channels have a gradient, not {x!r}")
    ones = constant(np.ones((channels, 1, *window)), dy.dtype)
    return ops.conv_input_grad(ones, dy, x, **form, group=channels)


@gradient("AveragePoolGrad")
def avg_pool_grad(node, u):
    a = node.attributes
    include = bool(a["count_include_pad"])
    return [None, ops.avg_pool(u, a["kernel_shape"], a["strides"], a["pads"], False, include)]


@gradient("LpPool")
def lp_pool(node, dy):
    """x |x|^(p-2) times what each window gives, dy y^(1-p)."""
    (x,), y, a = node.inputs, node.outputs[0], node.attributes
    p, window = a.get("p", 2), a["kernel_shape"]
    nonzero = ops.where(ops.equal(y, 0.0), 1.0, y)
    form = (reached if known_sizes(x) else geometry)(node, x, window)
    spread = _spread(x, dy * ops.pow(nonzero, 1.0 - p), window, form)
    return [ops.sign(x) * ops.pow(ops.abs(x), p - 1.0) * spread]


@expression("GlobalAveragePool")
def global_average_pool(a, x):
    return ops.reduce_mean(x, range(2, x.rank), keep_dim=True)


@expression("GlobalMaxPool")
def global_max_pool(a, x):
    """The first of equal elements, as a pooling of the whole image."""
    if known_sizes(x):
        return ops.max_pool(x, x.dims[2:])
    flat = ops.reshape(x, [0, 0, -1])
    largest = ops.gather_elements(flat, ops.arg_max(flat, 2, keep_dim=True), 2)
    return ops.unsqueeze(largest, range(3, x.rank))


@expression("GlobalLpPool")
def global_lp_pool(a, x):
    """Without a slope where all is 0."""
    p = float(a.get("p", 2))
    total = ops.reduce_sum(ops.pow(ops.abs(x), p), range(2, x.rank), keep_dim=True)
    empty = ops.equal(total, 0.0)
    return ops.where(empty, 0.0, ops.pow(ops.where(empty, 1.0, total), 1.0 / p))


@expression("LRN")
def local_response_norm(a, x):
    alpha, beta, k = a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
    return ops.local_response_norm(x, a["size"], alpha, beta, k)


@expression("Col2Im")
def col_to_im(a, x, image, block):
    """Columns of windows added up to an image."""
    n = image.dims[0]
    steps, holes = (a.get(k) or [1] * n for k in ("strides", "dilations"))
    pads = a.get("pads") or [0] * (2 * n)
    at, within = constant(np.int64(0)), constant(True)
    for k in range(n):
        size, width = (ops.slice(v, [k], [k + 1], [0]) for v in (image, block))
        reach = (width - 1) * holes[k] + 1
        count = (size + (pads[k] + pads[k + n]) - reach) / steps[k] + 1
        cell = ops.arange(count) * steps[k] - pads[k]
        tap = ops.arange(width) * holes[k]
        place = _beside(tap, k, n) + _beside(cell, n + k, n)
        inside = ops.logical_and(ops.greater_equal(place, 0), ops.less_than(place, size))
        at, within = at * size + place, ops.logical_and(within, inside)
    at, within = (ops.reshape(v, [-1]) for v in (at, within))
    count = ops.reshape(ops.reduce_prod(image), [1])
    at = ops.where(within, at, count)  # what lies in the padding goes behind the end
    lead = ops.slice(ops.shape_of(x), [0], [1], [0])
    rows = ops.reshape(x, ops.concat([lead, [-1], ops.shape_of(at)]))
    base = ops.expand(ops.cast(0.0, x.dtype), ops.concat([_two(rows), count + 1]))
    index = ops.expand_like(ops.reshape(at, [1, 1, -1]), rows)
    found = ops.slice(ops.scatter_add(base, index, rows, 2), [0], count, [2])
    return ops.reshape(found, ops.concat([_two(rows), image]))


def _two(x):
    return ops.slice(ops.shape_of(x), [0], [2], [0])


def _beside(v, axis, n):
    return ops.reshape(v, [-1 if k == axis else 1 for k in range(2 * n)])
