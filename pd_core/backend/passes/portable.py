"""Forms that run on WebGPU too, where kernels are missing, or mix up the groups of a convolution.

Tested with ONNX Runtime for the web, 1.30. Where a kernel is missing, its operator runs on the CPU,
with copies to it and back in every step, or not at all.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from ... import ops
from ...graph.node import Node, ancestors, apply, refined
from ...graph.variable import Inputs, Variable, constant, static
from .context import Context, Outputs
from .convolution import conv_filter_grad_of_rows
from .pooling import max_pool_grad_without_indices, max_pool_pick_without_indices
from .pooling_indices import max_pool_indices

_VECTOR = 4  # channels that a kernel computes at once


def log_softmax(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to z - max(z) - ln(sum(exp(z - max(z))))."""
    (z,) = inputs
    axes = np.array([node.attributes.get("axis", -1)], np.int64)
    centred = z - apply("ReduceMax", z, axes, keepdims=1)
    total = apply("ReduceSum", ops.exp(centred), axes, keepdims=1)
    return (centred - ops.log(total),)


def sign(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to (z > 0) - (z < 0)."""
    (z,) = inputs
    zero = constant(0, z.dtype)
    return (ops.cast(z > zero, z.dtype) - ops.cast(z < zero, z.dtype),)


def size(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to the product of the shape, for which no element is read."""
    (x,) = inputs
    return (apply("ReduceProd", ops.shape_of(x), keepdims=0),)


def conv(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Split into a convolution for each group, where a vector of channels would span two groups.

    The kernels take the first channel's group for all channels of such a vector.
    """
    x, w, *bias = inputs
    a = dict(node.attributes)
    groups = a.pop("group", 1)
    filters, channels = static(w.dims[:2])
    width = filters // groups if all(isinstance(d, int) for d in (filters, channels)) else 0
    if groups == 1 or width < _VECTOR or width % _VECTOR == 0 or filters % _VECTOR:
        return None
    parts = zip(
        ops.split(x, [channels] * groups, axis=1),
        ops.split(w, [width] * groups, axis=0),
        strict=True,
    )
    y = apply("Concat", *(apply("Conv", *part, **a) for part in parts), axis=1)
    if bias and bias[0] is not None:
        column = np.array([1, w.dims[0], *[1] * (x.rank - 2)], np.int64)
        y = y + ops.reshape(bias[0], column)
    y = refined(y, node.outputs[0].dims)
    return (y,)


def matmul(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Pad the inner axis by a zero where it may be empty at run time.

    The kernels fail on an empty axis, such as the tokens of sequences that are all empty. Feeds
    are taken not to be empty.
    """
    a, b = inputs
    inner = a.dims[-1]
    if not isinstance(inner, str) or inner in context.fed:
        return None
    y = _padded(a, a.rank - 1) @ _padded(b, max(b.rank - 2, 0))
    y = refined(y, node.outputs[0].dims)
    return (y,)


def _padded(x, axis):
    """x with one zero more at the end of an axis."""
    widths = np.zeros(2 * x.rank, np.int64)
    widths[x.rank + axis] = 1
    known = (*x.dims[:axis], f"{x.dims[axis]}+1", *x.dims[axis + 1 :])
    return apply("Pad", x, widths, constant(0, x.dtype), known=known)


LOWERINGS = {
    "LogSoftmax": log_softmax,
    "Sign": sign,
    "Size": size,
    "Conv": conv,
    "ConvFilterGrad": conv_filter_grad_of_rows,
    "MaxPool": max_pool_indices,
    "MaxPoolGrad": max_pool_grad_without_indices,
    "MaxPoolPick": max_pool_pick_without_indices,
    "MatMul": matmul,
}


def refused(targets: Iterable[Variable]) -> Iterator[tuple[Node, str]]:
    """Yield (node, reason) for every node that no form makes portable, bodies included."""
    for node in ancestors(targets):
        reason = _REFUSED.get(node.op_type, lambda node: None)(node)
        if reason:
            yield node, reason
        for block in node.blocks.values():
            yield from refused(block.outputs)


_REFUSED = {
    "Dropout": lambda node: "web builds have no Dropout",
    "BatchNormalization": lambda node: (
        "WebGPU has no training mode of BatchNormalization"
        if node.attributes.get("training_mode")
        else None
    ),
}
