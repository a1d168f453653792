"""The gradient of relu, and its exchange with that of a max pooling."""

import numpy as np

from ... import ops
from ...graph.node import Node, composite
from ...graph.variable import Inputs, Variable
from .context import Context, Outputs


def relu_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a product of dy with the mask of what is not 0: y is positive there, or NaN.

    A cast makes it: on a CPU it is a little faster than a comparison, which NaN would fail.
    """
    y, dy = inputs
    return (masked(ops.cast(y, np.bool_), dy),)


def masked(condition: Variable, x: Variable) -> Variable:
    """Return x where the condition holds, else 0.

    A product with the mask: Where takes twice as long on ONNX Runtime's CPU kernels.
    """
    return ops.cast(condition, x.dtype) * x


def exchange_relu_and_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Replace relu_grad(x, max_pool_grad(x, y, dy)) by max_pool_grad(x, y, relu_grad(y, dy)).

    Where x reaches its window's maximum y, x and y have one sign; the mask of the pooled image is
    the smaller one.
    """
    if node.op_type != "ReluGrad":
        return None
    x, dx = inputs
    pool = dx.node
    if pool is None or pool.op_type != "MaxPoolGrad" or pool.inputs[0] is not x:
        return None
    _, y, dy = pool.inputs
    inner = ops.relu_grad(y, dy)
    return (composite("MaxPoolGrad", x, y, inner, types=[(x.dims, x.dtype)], **pool.attributes),)
