"""The gradient of relu, and its exchange with that of a pooling behind it."""

from ...graph.node import apply, composite
from ...graph.variable import constant


def relu_grad(node, inputs, sizes, seed):
    """dy where y is positive."""
    y, dy = inputs
    return (masked(apply("Greater", y, constant(0, y.dtype)), dy),)


def masked(condition, x):
    """x where the condition holds, else 0.

    A product with the mask: Where takes twice as long on ONNX Runtime's CPU kernels.
    """
    return apply("Mul", apply("Cast", condition, to=_FLOATS[x.dtype.name]), x)


def exchange(node, inputs):
    """relu_grad(x, max_pool_grad(x, y, dy)) = max_pool_grad(x, y, relu_grad(y, dy)).

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
    inner = composite("ReluGrad", y, dy, types=[(dy.dims, dy.dtype)])
    return (composite("MaxPoolGrad", x, y, inner, types=[(x.dims, x.dtype)], **pool.attributes),)


_FLOATS = {"float32": 1, "float16": 10, "float64": 11}
