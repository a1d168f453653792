"""Forms that run on WebGPU too, where kernels are missing, or mix up the groups of a convolution.

Found by running ONNX Runtime for the web, 1.30. Where a kernel is missing, its operator runs on the
CPU, with copies there and back in every step, or not at all.
"""

import numpy as np

from ...graph.inference import element_type
from ...graph.node import ancestors, apply, refined
from ...graph.variable import constant
from .convolution import conv_filter_grad_of_rows
from .pooling import max_pool_grad_without_indices, max_pool_pick_without_indices

_VECTOR = 4  # channels that a kernel computes at once


def log_softmax(node, inputs, sizes, seed):
    """z - max(z) - ln(sum(exp(z - max(z))))."""
    (z,) = inputs
    axes = np.array([node.attributes.get("axis", -1)], np.int64)
    centred = apply("Sub", z, apply("ReduceMax", z, axes, keepdims=1))
    total = apply("ReduceSum", apply("Exp", centred), axes, keepdims=1)
    return (apply("Sub", centred, apply("Log", total)),)


def sign(node, inputs, sizes, seed):
    """1 where z > 0, -1 where z < 0."""
    (z,) = inputs
    zero, kind = constant(0, z.dtype), element_type(z.dtype)
    above, below = (apply("Cast", apply(op, z, zero), to=kind) for op in ("Greater", "Less"))
    return (apply("Sub", above, below),)


def size(node, inputs, sizes, seed):
    """The product of the sizes of axes, for which no element is read."""
    return (apply("ReduceProd", apply("Shape", *inputs), keepdims=0),)


def conv(node, inputs, sizes, seed):
    """A convolution for each group, where a vector of channels would reach over two groups.

    The kernels take the first channel's group for all channels of such a vector.
    """
    x, w, *bias = inputs
    a = dict(node.attributes)
    groups = a.pop("group", 1)
    width = w.dims[0] // groups if all(isinstance(d, int) for d in w.dims[:2]) else 0
    if groups == 1 or width < _VECTOR or width % _VECTOR == 0 or w.dims[0] % _VECTOR:
        return None
    parts = zip(_split(x, 1, groups, w.dims[1]), _split(w, 0, groups, width), strict=True)
    y = apply("Concat", *(apply("Conv", *part, **a) for part in parts), axis=1)
    if bias and bias[0] is not None:
        column = np.array([1, w.dims[0], *[1] * (x.rank - 2)], np.int64)
        y = apply("Add", y, apply("Reshape", bias[0], column))
    y = refined(y, node.outputs[0].dims)
    return (y,)


def matmul(node, inputs, fed):
    """One more column of zeros against one more row, where there may be none to multiply.

    The kernels fail on an empty axis, such as that of sequences none of which is long. Feeds are
    taken not to be empty: `fed` are their sizes.
    """
    a, b = inputs
    inner = a.dims[-1]
    if not isinstance(inner, str) or inner in fed:
        return None
    y = apply("MatMul", _longer(a, a.rank - 1), _longer(b, max(b.rank - 2, 0)))
    y = refined(y, node.outputs[0].dims)
    return (y,)


def _longer(x, axis):
    """One zero more along an axis."""
    widths = np.zeros(2 * x.rank, np.int64)
    widths[x.rank + axis] = 1
    known = (*x.dims[:axis], f"{x.dims[axis]}+1", *x.dims[axis + 1 :])
    return apply("Pad", x, widths, constant(0, x.dtype), known=known)


def _split(x, axis, count, size):
    """An axis in so many parts of one size."""
    return apply("Split", x, np.full(count, size, np.int64), outputs=count, axis=axis)


def for_webgpu(fed):
    """The lowerings for WebGPU, of a program whose feeds have these sizes."""
    return {
        "LogSoftmax": log_softmax,
        "Sign": sign,
        "Size": size,
        "Conv": conv,
        "ConvFilterGrad": conv_filter_grad_of_rows,
        "MaxPoolGrad": max_pool_grad_without_indices,
        "MaxPoolPick": max_pool_pick_without_indices,
        "MatMul": lambda node, inputs, sizes, seed: matmul(node, inputs, fed),
    }


def refused(targets):
    """(node, why) for every node behind the targets that no form helps, bodies included."""
    for node in ancestors(targets):
        why = _REFUSED.get(node.op_type, lambda node: None)(node)
        if why:
            yield node, why
        for block in node.blocks.values():
            yield from refused(block.outputs)


_REFUSED = {
    "Dropout": lambda node: "web builds have no Dropout",
    "BatchNormalization": lambda node: (
        "WebGPU has no training mode of BatchNormalization"
        if node.attributes.get("training_mode")
        else None
    ),
    "MaxPool": lambda node: "WebGPU has no Indices of MaxPool" if len(node.outputs) > 1 else None,
}
