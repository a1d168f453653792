"""Derivatives of convolution and pooling.

A convolution is bilinear: <conv(x, w), dy> is one trilinear form, whose three partial products
(`conv`, `conv_input_grad`, `conv_filter_grad`) are each other's derivatives, to any order.
"""

from .. import ops
from .registry import gradient


def _geometry(node):
    return {k: v for k, v in node.attributes.items() if k not in ("output_padding", "sizes")}


def _conv(node, x, w):
    return ops.conv(x, w, **_geometry(node))


@gradient("Conv")
def conv(node, dy):
    x, w, *bias = node.inputs
    geometry = _geometry(node)
    return [
        lambda: ops.conv_input_grad(w, dy, x, **geometry),
        lambda: ops.conv_filter_grad(x, dy, w, **geometry),
        *[lambda: _per_channel(dy) for _ in bias],
    ]


@gradient("ConvInputGrad")
def conv_input_grad(node, u):
    w, dy, _ = node.inputs
    return [
        lambda: ops.conv_filter_grad(u, dy, w, **_geometry(node)),
        lambda: _conv(node, u, w),
        None,
    ]


@gradient("ConvFilterGrad")
def conv_filter_grad(node, u):
    x, dy, _ = node.inputs
    return [
        lambda: ops.conv_input_grad(u, dy, x, **_geometry(node)),
        lambda: _conv(node, x, u),
        None,
    ]


@gradient("ConvTranspose")
def conv_transpose(node, dy):
    """The same form with image and result exchanged."""
    x, w, *bias = node.inputs
    return [
        lambda: _conv(node, dy, w),
        lambda: ops.conv_filter_grad(dy, x, w, **_geometry(node)),
        *[lambda: _per_channel(dy) for _ in bias],
    ]


def _per_channel(dy):
    return ops.reduce_sum(dy, [0, *range(2, dy.rank)])


@gradient("MaxPool")
def max_pool(node, dy):
    return [ops.max_pool_grad(node.inputs[0], node.outputs[0], dy, **node.attributes)]


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
    return [ops.avg_pool_grad(node.inputs[0], dy, **node.attributes)]


@gradient("AveragePoolGrad")
def avg_pool_grad(node, u):
    a = node.attributes
    pads, window, strides = a["pads"], a["kernel_shape"], a["strides"]
    ceil, include = a["ceil_mode"], a["count_include_pad"]
    return [None, ops.avg_pool(u, window, strides, pads, bool(ceil), bool(include))]
