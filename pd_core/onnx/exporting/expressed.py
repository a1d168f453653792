"""Operators of later opsets, expressed by older ones.

Most operators that have been added to ONNX are formulas of others, by which they are differentiated
(`gradients.expression`); here are those that have a rule instead.
"""

import math

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant, static


def cast_like(node: Node, inputs: Inputs) -> Variable:
    """x in the element type of the second input."""
    return ops.cast(inputs[0], inputs[1].dtype)


def gelu(node: Node, inputs: Inputs) -> Variable:
    """0.5 x (1 + erf(x / sqrt 2)), or the formula with tanh of Hendrycks & Gimpel (2016)."""
    x = constant(inputs[0])
    if node.attributes.get("approximate", "none") == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + ops.tanh(inner))
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def hard_swish(node: Node, inputs: Inputs) -> Variable:
    """x max(0, min(1, x / 6 + 0.5))."""
    return inputs[0] * apply("HardSigmoid", inputs[0], alpha=1 / 6, beta=0.5)


def trilu(node: Node, inputs: Inputs) -> Variable:
    """The lower or upper triangle of matrices, zeros elsewhere."""
    padded: Inputs = (*inputs, None)
    x, k = padded[:2]
    rows, columns = static(x.dims[-2:])
    if not isinstance(rows, int) or not isinstance(columns, int):
        rows, columns = (ops.size_of(x, x.rank + axis) for axis in (-2, -1))
    distance = ops.arange(columns) - ops.unsqueeze(ops.arange(rows), 1)
    diagonal = constant(np.int64(0)) if k is None else k
    upper = node.attributes.get("upper", 1)
    kept = distance >= diagonal if upper else distance <= diagonal
    return ops.where(kept, x, constant(0, x.dtype))


# {operator: (the first opset that has it, what it computes)}
EXPRESSED = {
    "CastLike": (15, cast_like),
    "Gelu": (20, gelu),
    "HardSwish": (14, hard_swish),
    "Trilu": (14, trilu),
}
