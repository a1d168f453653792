"""Elementwise arithmetic, comparisons and logic, broadcast as in numpy."""

import numpy as np
from numpy.typing import DTypeLike

from ..graph.inference import element_type
from ..graph.node import apply, new_node
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, provide


@op
def neg(x: Operand) -> Variable:
    """Negation, -x."""
    return apply("Neg", x)


@op
def abs(x: Operand) -> Variable:
    """Absolute value; the derivative at 0 is 0."""
    return apply("Abs", x)


@op
def sign(x: Operand) -> Variable:
    """Sign of each element: -1, 0 or 1."""
    return apply("Sign", x)


@op
def exp(x: Operand) -> Variable:
    """Exponential, e^x."""
    return apply("Exp", x)


@op
def log(x: Operand) -> Variable:
    """Natural logarithm."""
    return apply("Log", x)


@op
def sqrt(x: Operand) -> Variable:
    """Square root."""
    return apply("Sqrt", x)


@op
def reciprocal(x: Operand) -> Variable:
    """Reciprocal, 1 / x."""
    return apply("Reciprocal", x)


@op
def floor(x: Operand) -> Variable:
    """Round down: the largest integer that is not above x."""
    return apply("Floor", x)


@op
def round(x: Operand) -> Variable:
    """Round to the nearest integer, ties to even."""
    return apply("Round", x)


@op
def sin(x: Operand) -> Variable:
    """Sine; x is in radians."""
    return apply("Sin", x)


@op
def cos(x: Operand) -> Variable:
    """Cosine; x is in radians."""
    return apply("Cos", x)


@op
def erf(x: Operand) -> Variable:
    """Gauss error function."""
    return apply("Erf", x)


@op
def square(x: Operand) -> Variable:
    """Square, x^2."""
    return mul(x, x)


@op
def add(a: Operand, b: Operand) -> Variable:
    """Sum a + b, broadcast."""
    return apply("Add", *match_dtypes(a, b))


@op
def sub(a: Operand, b: Operand) -> Variable:
    """Difference a - b, broadcast."""
    return apply("Sub", *match_dtypes(a, b))


@op
def mul(a: Operand, b: Operand) -> Variable:
    """Elementwise product a b, broadcast."""
    return apply("Mul", *match_dtypes(a, b))


@op
def div(a: Operand, b: Operand) -> Variable:
    """Quotient a / b, broadcast; integer division truncates toward zero."""
    return apply("Div", *match_dtypes(a, b))


@op
def pow(a: Operand, b: Operand) -> Variable:
    """Power a^b, broadcast; the result has the dtype of a."""
    return apply("Pow", *match_dtypes(a, b))


@op
def maximum(a: Operand, b: Operand) -> Variable:
    """Elementwise maximum; equal elements share the gradient evenly, as in PyTorch."""
    return apply("Max", *match_dtypes(a, b))


@op
def minimum(a: Operand, b: Operand) -> Variable:
    """Elementwise minimum; equal elements share the gradient evenly."""
    return apply("Min", *match_dtypes(a, b))


@op
def clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Variable:
    """Limit x to [low, high], two scalars; None is no limit.

    Where x equals a bound, the gradient goes to x, as by torch.clamp.
    """
    x = constant(x)
    low, high = (None if v is None else constant(v, x.dtype) for v in (low, high))
    return apply("Clip", x, low, high)


@op
def less_than(a: Operand, b: Operand) -> Variable:
    """Elementwise a < b, bool, broadcast."""
    return apply("Less", *match_dtypes(a, b))


@op
def less_equal(a: Operand, b: Operand) -> Variable:
    """Elementwise a <= b, bool, broadcast."""
    return apply("LessOrEqual", *match_dtypes(a, b))


@op
def greater_than(a: Operand, b: Operand) -> Variable:
    """Elementwise a > b, bool, broadcast."""
    return apply("Greater", *match_dtypes(a, b))


@op
def greater_equal(a: Operand, b: Operand) -> Variable:
    """Elementwise a >= b, bool, broadcast."""
    return apply("GreaterOrEqual", *match_dtypes(a, b))


@op
def equal(a: Operand, b: Operand) -> Variable:
    """Elementwise a == b, bool, broadcast."""
    return apply("Equal", *match_dtypes(a, b))


@op
def logical_and(a: Operand, b: Operand) -> Variable:
    """Elementwise logical and of bools, broadcast."""
    return apply("And", a, b)


@op
def logical_or(a: Operand, b: Operand) -> Variable:
    """Elementwise logical or of bools, broadcast."""
    return apply("Or", a, b)


@op
def logical_not(x: Operand) -> Variable:
    """Elementwise logical not of bools."""
    return apply("Not", x)


@op
def where(condition: Operand, a: Operand, b: Operand) -> Variable:
    """Elements of a where the bool condition is true, of b elsewhere; all three broadcast."""
    return apply("Where", condition, *match_dtypes(a, b))


@op
def cast(x: Operand, dtype: DTypeLike) -> Variable:
    """Convert x to another dtype; x itself if it has that dtype already."""
    x, code = constant(x), element_type(dtype)
    return x if x.dtype == np.dtype(dtype) else apply("Cast", x, to=code)


@op
def identity(x: Operand, name: str | None = None) -> Variable:
    """Return the value of x under a name of its own."""
    x = constant(x)
    names = None if name is None else [name]
    return new_node("Identity", (x,), {}, [(x.dims, x.dtype)], output_names=names).outputs[0]


def match_dtypes(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Convert a number or array to the dtype of the Variable beside it."""
    if isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)):
        return a, b
    if isinstance(a, Variable) and not (a.literal and isinstance(b, Variable)):
        b = constant(b, a.dtype)
    elif isinstance(b, Variable):
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
