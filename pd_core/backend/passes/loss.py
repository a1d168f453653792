"""Costs of a softmax or a sigmoid in log space, where no probability underflows.

A cost is the logarithm of probabilities, which may be fed or come from anywhere. Where they are a
softmax or sigmoid, the two become one operator, and so do their derivatives.
"""

from ... import ops
from ...graph.node import Node, apply
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, constant
from .context import Context, Outputs
from .scatter import is_zero


def in_log_space(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Fuse a logarithm, or the gradient of one, with the softmax or sigmoid before it."""
    fuse = _FUSED.get(node.op_type)
    return None if fuse is None else fuse(node, inputs)


def _log_of(node, inputs):
    """ln softmax(z); -softplus(-z) for a sigmoid, -softplus(z) for 1 less it."""
    (p,) = inputs
    if is_output_of(p, "Softmax"):
        axis = p.node.attributes.get("axis", -1)
        return (ops.log_softmax(p.node.inputs[0], axis),)
    if is_output_of(p, "Sigmoid"):
        return (-ops.softplus(-p.node.inputs[0]),)
    if (
        is_output_of(p, "Sub")
        and is_output_of(p.node.inputs[1], "Sigmoid")
        and _is_one(p.node.inputs[0])
    ):
        return (-ops.softplus(p.node.inputs[1].node.inputs[0]),)
    return None


def _softmax_of_log(node, inputs):
    """dy - p sum(dy)."""
    p, d = inputs
    if not is_output_of(d, "LogProbabilityGrad") or d.node.inputs[0] is not p:
        return None
    dy, axis = d.node.inputs[1], node.attributes["axis"]
    if _is_one_each(dy, p, axis):
        _, index, values = dy.node.inputs
        return (apply("ScatterElements", p * -values, index, values, axis=axis, reduction="add"),)
    return (dy - p * ops.reduce_sum(dy, axis, keep_dim=True),)


def _is_one_each(dy, p, axis):
    """Whether dy is zero but for one added number in each row: the gradient of a picked ln p."""
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
    return (ops.softplus(z) - z * t,)


def _sigmoid_of_binary(node, inputs):
    """dy (p - t), from the product of both derivatives."""
    d, slope = inputs
    if not is_output_of(d, "BinaryCrossEntropyGrad") or not is_output_of(slope, "Mul"):
        return None
    p, t, dy = d.node.inputs
    y, rest = slope.node.inputs
    if y is not p or not is_output_of(rest, "Sub") or rest.node.inputs[1] is not p:
        return None
    return (dy * (p - t),)


_FUSED = {
    "LogProbability": _log_of,
    "SoftmaxGrad": _softmax_of_log,
    "BinaryCrossEntropy": _binary_of_sigmoid,
    "Mul": _sigmoid_of_binary,
}
LOGARITHMS = tuple(_FUSED)  # the operators of `in_log_space`


# ---- elsewhere


def log_probability(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """ln p."""
    (p,) = inputs
    return (ops.log(p),)


def log_probability_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """dy / p."""
    p, dy = inputs
    return (dy / p,)


def binary_cross_entropy(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """-(t ln p + (1 - t) ln(1 - p)), where 0 ln 0 is 0."""
    p, t = inputs
    zero, one = constant(0, p.dtype), constant(1, p.dtype)
    # not a choice between logarithms: no infinity is computed, which `check_numerics` would find
    log_p = ops.log(ops.where(ops.equal(t, zero), one, p))
    log_rest = ops.log(ops.where(ops.equal(t, one), one, one - p))
    return (-(t * log_p + (one - t) * log_rest),)


def binary_cross_entropy_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """dy (p - t) / (p (1 - p)); of p = t = 0 or 1, where that is 0 / 0, dy (1 - 2 t)."""
    p, t, dy = inputs
    variance, one = p - p * p, constant(1, p.dtype)
    certain = ops.logical_and(ops.equal(p, t), ops.equal(variance, constant(0, p.dtype)))
    # not a choice between quotients: no NaN is computed, which `check_numerics` would find
    slope = ops.where(certain, one - t - t, p - t) / ops.where(certain, one, variance)
    return (dy * slope,)


def _is_one(x):
    return x.value is not None and x.value.size == 1 and x.value.item() == 1
