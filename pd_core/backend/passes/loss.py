"""Costs of a softmax or a sigmoid in log space, where no probability underflows.

The graph says what is meant: a logarithm of probabilities, which may be fed or come from anywhere.
Where they are a softmax or sigmoid, the two are one operator, and so are their derivatives.
"""

import numpy as np

from ...graph.node import apply
from ...graph.rewrite import is_output_of
from ...graph.variable import constant
from .scatter import is_zero


def in_log_space(node, inputs):
    """The operator and the probabilities before it as one; None where they do not meet."""
    fuse = _FUSED.get(node.op_type)
    return None if fuse is None else fuse(node, inputs)


def _log_of(node, inputs):
    """ln softmax(z); -softplus(-z) for a sigmoid, -softplus(z) for 1 less it."""
    (p,) = inputs
    if is_output_of(p, "Softmax"):
        axis = p.node.attributes.get("axis", -1)
        return (apply("LogSoftmax", p.node.inputs[0], axis=axis),)
    if is_output_of(p, "Sigmoid"):
        return (apply("Neg", apply("Softplus", apply("Neg", p.node.inputs[0]))),)
    if (
        is_output_of(p, "Sub")
        and is_output_of(p.node.inputs[1], "Sigmoid")
        and _is_one(p.node.inputs[0])
    ):
        return (apply("Neg", apply("Softplus", p.node.inputs[1].node.inputs[0])),)
    return None


def _softmax_of_log(node, inputs):
    """dy - p sum(dy)."""
    p, d = inputs
    if not is_output_of(d, "LogProbabilityGrad") or d.node.inputs[0] is not p:
        return None
    dy, axis = d.node.inputs[1], node.attributes["axis"]
    if _is_one_each(dy, p, axis):
        _, index, values = dy.node.inputs
        base = apply("Mul", p, apply("Neg", values))
        return (apply("ScatterElements", base, index, values, axis=axis, reduction="add"),)
    return (apply("Sub", dy, apply("Mul", p, _sum(dy, axis))),)


def _is_one_each(dy, p, axis):
    """Whether dy is zero but for one added number in each row: what a picked ln p gets."""
    if not is_output_of(dy, "ScatterElements") or dy.node.attributes.get("reduction") != "add":
        return False
    zeros, index, _ = dy.node.inputs
    axes = {dy.node.attributes.get("axis", 0) % p.rank, axis % p.rank}
    return axes == {axis % p.rank} and index.dims[axis % p.rank] == 1 and is_zero(zeros)


def _binary_of_sigmoid(node, inputs):
    """softplus(z) - t z."""
    p, t = inputs
    if not is_output_of(p, "Sigmoid"):
        return None
    z = p.node.inputs[0]
    return (apply("Sub", apply("Softplus", z), apply("Mul", z, t)),)


def _sigmoid_of_binary(node, inputs):
    """dy (p - t), of the product of both derivatives."""
    d, slope = inputs
    if not is_output_of(d, "BinaryCrossEntropyGrad") or not is_output_of(slope, "Mul"):
        return None
    p, t, dy = d.node.inputs
    y, rest = slope.node.inputs
    if y is not p or not is_output_of(rest, "Sub") or rest.node.inputs[1] is not p:
        return None
    return (apply("Mul", dy, apply("Sub", p, t)),)


_FUSED = {
    "LogProbability": _log_of,
    "SoftmaxGrad": _softmax_of_log,
    "BinaryCrossEntropy": _binary_of_sigmoid,
    "Mul": _sigmoid_of_binary,
}


# ---- what remains


def log_probability(node, inputs, sizes, seed):
    """ln p."""
    return (apply("Log", *inputs),)


def log_probability_grad(node, inputs, sizes, seed):
    """dy / p."""
    p, dy = inputs
    return (apply("Div", dy, p),)


def softmax_grad(node, inputs, sizes, seed):
    """y (dy - sum(dy y))."""
    y, dy = inputs
    total = _sum(apply("Mul", dy, y), node.attributes["axis"])
    return (apply("Mul", y, apply("Sub", dy, total)),)


def binary_cross_entropy(node, inputs, sizes, seed):
    """-(t ln p + (1 - t) ln(1 - p))."""
    p, t = inputs
    one = constant(1, p.dtype)
    on = apply("Mul", t, apply("Log", p))
    off = apply("Mul", apply("Sub", one, t), apply("Log", apply("Sub", one, p)))
    return (apply("Neg", apply("Add", on, off)),)


def binary_cross_entropy_grad(node, inputs, sizes, seed):
    """dy (p - t) / (p (1 - p))."""
    p, t, dy = inputs
    spread = apply("Sub", p, apply("Mul", p, p))
    return (apply("Mul", dy, apply("Div", apply("Sub", p, t), spread)),)


def _is_one(x):
    return x.value is not None and x.value.size == 1 and x.value.item() == 1


def _sum(x, axis):
    return apply("ReduceSum", x, np.array([axis], np.int64), keepdims=1)
