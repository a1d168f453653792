"""The normal distribution's functions, and GELU by the one that its gradient needs anyway."""

import math

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable
from .context import Context, Outputs


def gelu_by_cdf(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute x cdf(x) where the program has cdf(x) for the gradient."""
    readers = context.readers[node.inputs[0]]
    if node.attributes.get("approximate", "none") == "tanh":
        return None
    if not any(reader.op_type == "NormalCdf" for reader in readers):
        return None
    (x,) = inputs
    return (x * ops.normal_cdf(x),)


def normal_cdf(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """(1 + erf(x / sqrt 2)) / 2, once for all its readers."""
    (x,) = inputs
    key = "NormalCdf", x
    if key not in context.cache:
        context.cache[key] = _half_of_one_more(ops.erf(_scaled(x, context)))
    return (context.cache[key],)


def _half_of_one_more(y: Variable) -> Variable:
    if y.dtype != np.float32:  # ONNX Runtime has no other HardSigmoid on a CPU
        return y * 0.5 + 0.5
    return apply("HardSigmoid", y, alpha=0.5, beta=0.5)  # one pass; y is within its bounds


def normal_pdf(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """exp(-x^2 / 2) / sqrt(2 pi), with the factor in the exponent."""
    scaled = _scaled(inputs[0], context)
    return (ops.exp(-0.5 * math.log(2 * math.pi) - scaled * scaled),)


def _scaled(x, context):
    """x / sqrt 2, of which both functions are made."""
    key = "x / sqrt 2", x
    if key not in context.cache:
        context.cache[key] = x * math.sqrt(0.5)
    return context.cache[key]
