"""Derivatives of elementwise functions."""

import functools
import math

import numpy as np

from ... import ops
from ...graph.node import Node
from ...graph.variable import Inputs, Variable, constant
from ...ops.distributions.gamma_slope import log_gamma_slope
from ..registry import Gradients, compared, elementwise, gradient, unbroadcast

# fmt: off
elementwise("Neg",        lambda x, y, dy: -dy)
elementwise("Abs",        lambda x, y, dy: dy * ops.sign(x))
elementwise("Exp",        lambda x, y, dy: dy * y)
elementwise("Log",        lambda x, y, dy: dy / x)
elementwise("Sqrt",       lambda x, y, dy: dy / (y * 2.0))
elementwise("Reciprocal", lambda x, y, dy: -dy * (y * y))
elementwise("Sin",        lambda x, y, dy: dy * ops.cos(x))
elementwise("Cos",        lambda x, y, dy: -dy * ops.sin(x))
elementwise("Tan",        lambda x, y, dy: dy * (1.0 + y * y))
elementwise("Asin",       lambda x, y, dy: dy / ops.sqrt(1.0 - x * x))
elementwise("Acos",       lambda x, y, dy: -dy / ops.sqrt(1.0 - x * x))
elementwise("Atan",       lambda x, y, dy: dy / (1.0 + x * x))
elementwise("Sinh",       lambda x, y, dy: dy * (0.5 * (ops.exp(x) + ops.exp(-x))))
elementwise("Cosh",       lambda x, y, dy: dy * (0.5 * (ops.exp(x) - ops.exp(-x))))
elementwise("Asinh",      lambda x, y, dy: dy / ops.sqrt(x * x + 1.0))
elementwise("Acosh",      lambda x, y, dy: dy / ops.sqrt((x - 1.0) * (x + 1.0)))
elementwise("Atanh",      lambda x, y, dy: dy / (1.0 - x * x))
elementwise("Erf",        lambda x, y, dy: dy * ops.exp(-(x * x)) * (2.0 / math.sqrt(math.pi)))
elementwise("Tanh",       lambda x, y, dy: dy * (1.0 - y * y))
elementwise("Sigmoid",    lambda x, y, dy: dy * (y * (1.0 - y)))
elementwise("Relu",       lambda x, y, dy: ops.relu_grad(y, dy))
elementwise("ReluGrad",   None, lambda y, dy, dx, u: ops.relu_grad(y, u))
elementwise("Softplus",   lambda x, y, dy: dy * ops.sigmoid(x))
elementwise("Softsign",   lambda x, y, dy: dy / ops.square(1.0 + abs(x)))
elementwise("Add",        lambda a, b, y, dy: dy,     lambda a, b, y, dy: dy)
elementwise("Sub",        lambda a, b, y, dy: dy,     lambda a, b, y, dy: -dy)
elementwise("Mul",        lambda a, b, y, dy: dy * b, lambda a, b, y, dy: dy * a)
elementwise("Div",        lambda a, b, y, dy: dy / b, lambda a, b, y, dy: -(dy * y / b))
elementwise("Pow",        lambda a, b, y, dy: dy * ops.cast(b, a.dtype) * _power_below(a, b),
                          lambda a, b, y, dy: ops.cast(dy * y * _log_of_base(a, b), b.dtype))
elementwise("Mod",        lambda a, b, y, dy: dy, lambda a, b, y, dy: dy * (y - a) / b)
elementwise("CastLike",   lambda x, like, y, dy: ops.cast(dy, x.dtype), None)
elementwise("Where",      None, lambda c, a, b, y, dy: ops.where(c, dy, 0.0),
                                lambda c, a, b, y, dy: ops.where(c, 0.0, dy))
elementwise("Identity",   lambda x, y, dy: dy)
# fmt: on


def _power_below(a, b):
    """Return a^(b-1), and a finite number where b is 0: the slope of x^0 is 0, also at x = 0."""
    if b.value is not None:
        return a ** constant(np.where(b.value == 0, 0, b.value - 1), b.dtype)
    return a ** (ops.where(ops.equal(b, 0), 1, b) - 1)


def _log_of_base(a, b):
    """Return ln a, and 0 where a is 0 and b not negative: 0^b is constant in b."""
    if a.value is not None and a.value.all():
        return ops.log(a)
    constant_in_b = ops.equal(a, 0)
    if b.value is None or (b.value < 0).any():
        constant_in_b = ops.logical_and(constant_in_b, b >= 0)
    return ops.log(ops.where(constant_in_b, 1, a))


@gradient("LeakyRelu")
def leaky_relu(node: Node, dy: Variable) -> Gradients:
    (x,), alpha = node.inputs, node.attributes.get("alpha", 0.01)
    return [ops.where(x > 0.0, dy, dy * alpha)]


@gradient("Clip")
def clip(node: Node, dy: Variable) -> Gradients:
    """To x within the bounds and at them, as torch.clamp; else to the bound that was applied.

    Where the bounds cross, that is the upper one. NaN is outside of all bounds.
    """
    inputs: Inputs = (*node.inputs, None, None)
    x, low, high = inputs[:3]
    dx, dlow, dhigh = dy, None, None
    raised = x
    if low is not None:
        dlow, dx = ops.where(x < low, dy, 0.0), ops.where(x >= low, dy, 0.0)
        raised = ops.maximum(x, low)
    if high is not None:
        above = raised > high
        dhigh, dx = ops.where(above, dy, 0.0), ops.where(raised <= high, dx, 0.0)
        dlow = dlow if dlow is None else ops.where(above, 0.0, dlow)
    bounds = [None if g is None else unbroadcast(g, v) for v, g in ((low, dlow), (high, dhigh))]
    return [dx, *bounds][: len(node.inputs)]


@gradient("Sum")
def sum(node: Node, dy: Variable) -> Gradients:
    return [lambda x=x: unbroadcast(dy, x) for x in node.inputs]


@gradient("Mean")
def mean(node: Node, dy: Variable) -> Gradients:
    share = dy * (1.0 / len(node.inputs))
    return [lambda x=x: unbroadcast(share, x) for x in node.inputs]


@gradient("Max", "Min")
def extreme(node: Node, dy: Variable) -> Gradients:
    """Shared evenly by the operands that equal the result, as in torch.maximum.

    Where the result is NaN, each of them gets all of it, as there.
    """
    if len(node.inputs) == 1:
        return [dy]
    (y, *inputs) = compared(node, node.inputs)
    beaten = ops.less_than if node.op_type == "Max" else ops.greater_than
    equal = [ops.cast(ops.equal(x, y), dy.dtype) for x in inputs]
    share = dy / ops.maximum(functools.reduce(ops.add, equal), 1.0)
    hits = [ops.cast(ops.logical_not(beaten(x, y)), dy.dtype) for x in inputs]
    return [
        lambda x=x, hit=hit: unbroadcast(hit * share, x)
        for x, hit in zip(node.inputs, hits, strict=True)
    ]


@gradient("Cast")
def cast(node: Node, dy: Variable) -> Gradients:
    return [ops.cast(dy, node.inputs[0].dtype)]


@gradient("StraightThrough")
def straight_through(node: Node, dy: Variable) -> Gradients:
    return [None, dy]


@gradient("GammaDraw")
def gamma_draw(node: Node, dy: Variable) -> Gradients:
    """The draw's own derivative in the concentration, by implicit reparameterization."""
    return [None, lambda: dy * log_gamma_slope(node.inputs[1], node.outputs[0])]


@gradient("ClipGradient")
def clip_gradient(node: Node, dy: Variable) -> Gradients:
    limit = node.attributes["limit"]
    return [ops.clip(dy, -limit, limit)]


@gradient("ModeSwitch")
def mode_switch(node: Node, dy: Variable) -> Gradients:
    return [dy, dy]  # each holds in the mode of its side: see `Adjoints.of`


@gradient("OnnxForm")
def onnx_form(node: Node, *dys: Variable | None) -> Gradients:
    return [*dys, *[None] * (len(node.inputs) - len(dys))]


@gradient("ScaleGradient")
def scale_gradient(node: Node, dy: Variable) -> Gradients:
    return [dy * node.attributes["factor"]]
