"""Elementwise functions and arithmetic."""

import numpy as np

from ..graph.inference import element_type
from ..graph.node import Node, apply, composite
from ..graph.variable import Variable, constant, provide


def neg(x):
    """-x."""
    return apply("Neg", x)


def abs(x):
    """Absolute value; the derivative at 0 is 0."""
    return apply("Abs", x)


def sign(x):
    """-1, 0 or 1."""
    return apply("Sign", x)


def exp(x):
    """e^x."""
    return apply("Exp", x)


def log(x):
    """Natural logarithm."""
    return apply("Log", x)


def sqrt(x):
    """Square root."""
    return apply("Sqrt", x)


def reciprocal(x):
    """1/x."""
    return apply("Reciprocal", x)


def floor(x):
    """The largest whole number below."""
    return apply("Floor", x)


def round(x):
    """The nearest whole number; of two the even one."""
    return apply("Round", x)


def sin(x):
    """Sine of an angle in radians."""
    return apply("Sin", x)


def cos(x):
    """Cosine of an angle in radians."""
    return apply("Cos", x)


def erf(x):
    """Gauss error function."""
    return apply("Erf", x)


def tanh(x):
    """Hyperbolic tangent."""
    return apply("Tanh", x)


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return apply("Sigmoid", x)


def relu(x):
    """max(x, 0); the derivative at 0 is 0."""
    return apply("Relu", x)


def relu_grad(y, dy):
    """dy where the relu's result y is positive, else 0."""
    return composite("ReluGrad", y, dy, types=[(dy.dims, dy.dtype)])


def leaky_relu(x, alpha=0.01):
    """x where positive, alpha x elsewhere."""
    return apply("LeakyRelu", x, alpha=float(alpha))


def softplus(x):
    """log(1 + e^x)."""
    return apply("Softplus", x)


def softsign(x):
    """x / (1 + |x|)."""
    return apply("Softsign", x)


def square(x):
    """x^2."""
    return mul(x, x)


def add(a, b):
    """a + b, broadcast."""
    return apply("Add", *_pair(a, b))


def sub(a, b):
    """a - b, broadcast."""
    return apply("Sub", *_pair(a, b))


def mul(a, b):
    """a b, elementwise, broadcast."""
    return apply("Mul", *_pair(a, b))


def div(a, b):
    """a / b, broadcast; integers divide toward zero."""
    return apply("Div", *_pair(a, b))


def pow(a, b):
    """a^b, broadcast."""
    return apply("Pow", *_pair(a, b))


def maximum(a, b):
    """The larger of two, elementwise; equal ones share the gradient evenly, as in PyTorch."""
    return apply("Max", *_pair(a, b))


def minimum(a, b):
    """The smaller of two, elementwise; equal ones share the gradient evenly."""
    return apply("Min", *_pair(a, b))


def clip(x, low=None, high=None):
    """x held within [low, high], scalars; None leaves a side open.

    At a bound the gradient goes to x.
    """
    x = constant(x)
    low, high = (None if v is None else constant(v, x.dtype) for v in (low, high))
    return apply("Clip", x, low, high)


def less_than(a, b):
    """a < b, bool."""
    return apply("Less", *_pair(a, b))


def less_equal(a, b):
    """a <= b, bool."""
    return apply("LessOrEqual", *_pair(a, b))


def greater_than(a, b):
    """a > b, bool."""
    return apply("Greater", *_pair(a, b))


def greater_equal(a, b):
    """a >= b, bool."""
    return apply("GreaterOrEqual", *_pair(a, b))


def equal(a, b):
    """a == b, bool."""
    return apply("Equal", *_pair(a, b))


def logical_and(a, b):
    """Both, elementwise on bools."""
    return apply("And", a, b)


def logical_or(a, b):
    """Either, elementwise on bools."""
    return apply("Or", a, b)


def logical_not(x):
    """The contrary, elementwise on bools."""
    return apply("Not", x)


def where(condition, a, b):
    """a where the bool condition holds, b elsewhere; broadcast."""
    return apply("Where", condition, *_pair(a, b))


def cast(x, dtype):
    """x in another element type; x itself if it has that type."""
    x, code = constant(x), element_type(dtype)
    return x if x.dtype == np.dtype(dtype) else apply("Cast", x, to=code)


def identity(x, name=None, kind=Variable, **state):
    """x under a name of its own, as a Variable of a class of yours with this `state`."""
    x = constant(x)
    return Node(
        "Identity",
        (x,),
        {},
        [(x.dims, x.dtype)],
        output_names=None if name is None else [name],
        output_class=kind,
        output_state=state,
    ).outputs[0]


def _pair(a, b):
    """Numbers and arrays take the dtype of the Variable beside them."""
    if isinstance(a, Variable) and not isinstance(b, (Variable, str, bytes)):
        b = constant(b, a.dtype)
    elif isinstance(b, Variable) and not isinstance(a, (Variable, str, bytes)):
        a = constant(a, b.dtype)
    return a, b


provide(
    abs=abs,
    add=add,
    div=div,
    greater_equal=greater_equal,
    greater_than=greater_than,
    less_equal=less_equal,
    less_than=less_than,
    mul=mul,
    neg=neg,
    pow=pow,
    sub=sub,
)
