"""Derivatives of activation functions, by rules or from the formula of the function."""

import math

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable, constant
from ...ops.math import quotient
from ..expression import expression
from ..registry import Attributes, Gradients, gradient

_GELU = math.sqrt(2.0 / math.pi)
_SELU = 1.67326319217681884765625, 1.05070102214813232421875  # alpha, gamma


@expression("PRelu")
def prelu(a: Attributes, x: Variable, slope: Variable) -> Variable:
    return ops.where(x > 0.0, x, x * slope)


@expression("Elu")
def elu(a: Attributes, x: Variable) -> Variable:
    return _exponential_below_zero(x, a.get("alpha", 1.0), 1.0)


@expression("Celu")
def celu(a: Attributes, x: Variable) -> Variable:
    alpha = a.get("alpha", 1.0)
    return _exponential_below_zero(x, alpha, alpha)


@expression("Selu")
def selu(a: Attributes, x: Variable) -> Variable:
    alpha, gamma = _SELU
    return _exponential_below_zero(x, a.get("alpha", alpha), 1.0) * a.get("gamma", gamma)


def _exponential_below_zero(x, height, width):
    """Return x where positive, height (e^(x / width) - 1) elsewhere."""
    # the exponent is 0 where x is positive: e^x may overflow there, and inf * 0 is NaN
    below = ops.exp(ops.where(x > 0.0, 0.0, x) * (1.0 / width)) - 1.0
    return ops.where(x > 0.0, x, below * height)


@gradient("Gelu")
def gelu(node: Node, dy: Variable) -> Gradients:
    """Multiply by the slope of x cdf(x), cdf(x) + x pdf(x) (Hendrycks & Gimpel 2016)."""
    (x,) = node.inputs
    if node.attributes.get("approximate", "none") == "tanh":
        square = x * x
        inner = (square * (_GELU * 0.044715) + _GELU) * x
        bend = ops.tanh(inner)
        slope = (square * (_GELU * 3 * 0.044715) + _GELU) * x * (1.0 - bend * bend)
        return [(bend + 1.0 + slope) * (dy * 0.5)]
    return [(ops.normal_cdf(x) + x * ops.normal_pdf(x)) * dy]


@gradient("NormalCdf")
def normal_cdf(node: Node, dy: Variable) -> Gradients:
    return [ops.normal_pdf(node.inputs[0]) * dy]


@gradient("NormalPdf")
def normal_pdf(node: Node, dy: Variable) -> Gradients:
    return [-(node.inputs[0] * node.outputs[0]) * dy]


@expression("Swish")
def swish(a: Attributes, x: Variable) -> Variable:
    return x * ops.sigmoid(x * a.get("alpha", 1.0))


@expression("Mish")
def mish(a: Attributes, x: Variable) -> Variable:
    return ops.mish(x)


@gradient("HardSigmoid")
def hard_sigmoid(node: Node, dy: Variable) -> Gradients:
    y, slope = node.outputs[0], node.attributes.get("alpha", 0.2)
    within = ops.logical_and(y > 0.0, y < 1.0)
    return [ops.where(within, dy * slope, 0.0)]


@gradient("HardSwish")
def hard_swish(node: Node, dy: Variable) -> Gradients:
    (x,) = node.inputs
    dx = ops.where(x < 3.0, dy * (x * (1.0 / 3.0) + 0.5), dy)
    return [ops.where(x <= -3.0, 0.0, dx)]


@gradient("ThresholdedRelu")
def thresholded_relu(node: Node, dy: Variable) -> Gradients:
    (x,), alpha = node.inputs, node.attributes.get("alpha", 1.0)
    return [ops.where(x > alpha, dy, 0.0)]


@gradient("Shrink")
def shrink(node: Node, dy: Variable) -> Gradients:
    (x,), width = node.inputs, node.attributes.get("lambd", 0.5)
    return [ops.where(abs(x) > width, dy, 0.0)]


@gradient("Dropout")
def dropout(node: Node, dy: Variable, _: Variable | None = None) -> Gradients:
    """By the mask that was drawn, where it is in training."""
    rest = node.inputs[1:]
    training = rest[1] if len(rest) > 1 and rest[1] is not None else constant(False)
    if training.value is not None and not training.value.any():
        return [dy, *[None] * len(rest)]
    ratio = rest[0] if rest[0] is not None else constant(0.5)
    kept = ops.cast(node.outputs[1], dy.dtype) * dy / (1.0 - ops.cast(ratio, dy.dtype))
    return [ops.where(training, kept, dy), *[None] * len(rest)]


@expression("DequantizeLinear")
def dequantize(
    a: Attributes, x: Variable, scale: Variable, zero_point: Variable | None = None
) -> Variable:
    """(x - zero point) scale, along an axis, by blocks of it, or as a whole."""
    centred = ops.cast(x, scale.dtype)
    if zero_point is not None:
        centred = centred - _broadcastable(a, ops.cast(zero_point, scale.dtype), x)
    return centred * _broadcastable(a, scale, x)


def _broadcastable(a, v, x):
    """Bring a scale or zero point into a shape that broadcasts against x."""
    axis, block = a.get("axis", 1) % max(x.rank, 1), a.get("block_size", 0)
    if v.rank == 0 or v.dims == (1,):
        return ops.reshape(v, [])
    if not block:
        return ops.reshape(v, [-1 if k == axis else 1 for k in range(x.rank)])
    rows = quotient(ops.arange(ops.size_of(x, axis)), block)
    return ops.gather(v, rows, axis)


@expression("DynamicQuantizeLinear")
def dynamic_quantize(a: Attributes, x: Variable) -> list[Variable]:
    """Only the scale is smooth in x: x stands in for the quantized values and the zero point."""
    low, high = ops.minimum(ops.reduce_min(x), 0.0), ops.maximum(ops.reduce_max(x), 0.0)
    return [x, (high - low) * (1.0 / 255.0), x]
