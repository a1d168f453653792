"""The normal distribution's functions, and GELU by the one that its gradient needs anyway."""

import math

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable
from .context import Context, Outputs


def gelu_by_cdf(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute x cdf(x) where the program has cdf(x) for the gradient."""
    if node.attributes.get("approximate", "none") == "tanh":
        return None
    readers = context.readers[node.inputs[0]]
    if not any(reader.op_type == "NormalCdf" for reader in readers):
        return None
    (x,) = inputs
    return (x * ops.normal_cdf(x),)


def normal_cdf(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """(1 + erf(x / sqrt 2)) / 2, once for all its readers."""
    (x,) = inputs
    key = "NormalCdf", x
    return (context.cached(key, lambda: _to_unit_interval(ops.erf(_scaled(x, context)))),)


def _to_unit_interval(y: Variable) -> Variable:
    """Map [-1, 1] to [0, 1]."""
    if y.dtype != np.float32:  # ONNX Runtime has no other HardSigmoid on a CPU
        return y * 0.5 + 0.5
    return apply("HardSigmoid", y, alpha=0.5, beta=0.5)  # one pass; y is within its bounds


def normal_pdf(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """exp(-x^2 / 2) / sqrt(2 pi), with the factor in the exponent."""
    scaled = _scaled(inputs[0], context)
    return (ops.exp(-0.5 * math.log(2 * math.pi) - scaled * scaled),)


def _scaled(x, context):
    """x / sqrt 2, of which both functions are made."""
    return context.cached(("x / sqrt 2", x), lambda: x * math.sqrt(0.5))
