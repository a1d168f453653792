"""Elementwise arithmetic, comparisons and logic, broadcast as in numpy."""

import math

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import numbers
from ..graph.errors import DTypeError
from ..graph.inference import element_type
from ..graph.node import apply, composite, new_node
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from .promotion import comparable, fractional, match_dtypes


@op
def neg(x: Operand) -> Variable:
    """Negation, -x; of unsigned integers it wraps around, as in numpy."""
    x = constant(x)
    return apply("Sub", constant(0, x.dtype), x) if x.dtype.kind == "u" else apply("Neg", x)


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
def log2(x: Operand) -> Variable:
    """Logarithm to base 2."""
    return mul(log(x), 1.0 / math.log(2.0))


@op
def log10(x: Operand) -> Variable:
    """Logarithm to base 10."""
    return mul(log(x), 1.0 / math.log(10.0))


@op
def log1p(x: Operand) -> Variable:
    """ln(1 + x), with all digits near x = 0 too."""
    x = constant(x)
    total = 1.0 + x
    rounded = total - 1.0  # what was added to 1; x / rounded undoes the rounding
    lost = equal(rounded, 0.0)
    near = where(lost, x, log(total) * (x / where(lost, 1.0, rounded)))
    return differentiated_as(log(total), where(abs(x) < 1.0, near, log(total)))


@op
def expm1(x: Operand) -> Variable:
    """e^x - 1, with all digits near x = 0 too."""
    x = constant(x)
    power = exp(x)
    return differentiated_as(power - 1.0, (power + 1.0) * apply("Tanh", x * 0.5))


def differentiated_as(formula: Variable, value: Variable) -> Variable:
    """Return a value that is more accurate than a formula, which has the simpler derivative."""
    types = [(value.dims, value.dtype)]
    return composite("StraightThrough", value, formula, types=types)


@op
def sqrt(x: Operand) -> Variable:
    """Square root."""
    return apply("Sqrt", x)


@op
def reciprocal(x: Operand) -> Variable:
    """Reciprocal, 1 / x."""
    return apply("Reciprocal", x)


@op
def rsqrt(x: Operand) -> Variable:
    """Reciprocal of the square root, 1 / sqrt(x)."""
    return reciprocal(sqrt(x))


@op
def floor(x: Operand) -> Variable:
    """Round down: the largest integer that is not above x."""
    return apply("Floor", x)


@op
def ceil(x: Operand) -> Variable:
    """Round up: the smallest integer that is not below x."""
    return apply("Ceil", x)


@op
def trunc(x: Operand) -> Variable:
    """Round toward zero: the integer part of x."""
    x = constant(x)
    return sign(x) * floor(abs(x))


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
def tan(x: Operand) -> Variable:
    """Tangent; x is in radians."""
    return apply("Tan", x)


@op
def asin(x: Operand) -> Variable:
    """Inverse sine, in [-pi/2, pi/2]; NaN beyond [-1, 1]."""
    return apply("Asin", x)


@op
def acos(x: Operand) -> Variable:
    """Inverse cosine, in [0, pi]; NaN beyond [-1, 1]."""
    return apply("Acos", x)


@op
def atan(x: Operand) -> Variable:
    """Inverse tangent, in (-pi/2, pi/2)."""
    return apply("Atan", x)


@op
def sinh(x: Operand) -> Variable:
    """Hyperbolic sine."""
    return apply("Sinh", x)


@op
def cosh(x: Operand) -> Variable:
    """Hyperbolic cosine."""
    return apply("Cosh", x)


@op
def asinh(x: Operand) -> Variable:
    """Inverse hyperbolic sine."""
    return apply("Asinh", x)


@op
def acosh(x: Operand) -> Variable:
    """Inverse hyperbolic cosine; NaN below 1."""
    return apply("Acosh", x)


@op
def atanh(x: Operand) -> Variable:
    """Inverse hyperbolic tangent; NaN beyond [-1, 1]."""
    return apply("Atanh", x)


@op
def atan2(y: Operand, x: Operand) -> Variable:
    """Angle of the point (x, y) in (-pi, pi], broadcast; 0 at the origin, with a gradient of 0.

    Signs of zero do not count: where numpy gives -pi for y = -0.0, this is pi.
    """
    y, x = (constant(v) for v in match_dtypes(y, x))
    # not abs(): its derivative at 0 is 0, and that of the angle is not
    width, height = where(x < 0.0, -x, x), where(y < 0.0, -y, y)
    steep = logical_not(height <= width)  # of a NaN, too, which the quotient then passes on
    longer, shorter = where(steep, height, width), where(steep, width, height)
    origin = logical_and(equal(height, 0.0), equal(width, 0.0))
    diagonal = logical_and(is_inf(shorter), is_inf(longer))  # inf / inf is no number
    shorter, longer = (where(diagonal, 1.0, v) for v in (shorter, longer))
    angle = atan(where(origin, 0.0, shorter) / where(origin, 1.0, longer))
    angle = where(steep, math.pi / 2 - angle, angle)
    angle = where(x < 0.0, math.pi - angle, angle)
    return where(y < 0.0, -angle, angle)


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
    """Quotient a / b, broadcast; of integers it is float32, as in PyTorch."""
    return apply("Div", *fractional(a, b))


def quotient(a: Operand, b: Operand) -> Variable:
    """Quotient of integers that are not negative, such as sizes, rounded down.

    `//` takes negative ones too, with a few more operators.
    """
    return apply("Div", *match_dtypes(a, b))


@op
def floor_div(a: Operand, b: Operand) -> Variable:
    """Quotient a / b rounded down, broadcast, as Python's `//`: -7 // 2 is -4.

    Integers divided by 0 give 0, as in numpy; floats infinity or NaN.
    """
    a, b = (constant(v) for v in match_dtypes(a, b))
    if a.dtype.kind == "f":
        return _floor_div_floats(a, b)
    toward_zero = apply("Div", a, b)
    if a.dtype.kind == "u":
        return toward_zero
    rest = a - toward_zero * b
    if b.value is not None and (b.value > 0).all():
        below = rest < 0
    else:
        differ = logical_xor(rest < 0, b < 0)
        below = logical_and(differ, logical_not(logical_or(equal(rest, 0), equal(b, 0))))
    return toward_zero - cast(below, a.dtype)


def _floor_div_floats(a, b):
    """a // b as numpy has it: from the exact remainder, where a / b may round up to the next."""
    rest = fmod(a, b)
    whole = (a - rest) / b
    whole = whole - cast(rest * sign(b) < 0.0, a.dtype)
    rounded = floor(whole)
    rounded = rounded + cast(whole - rounded > 0.5, a.dtype)
    return floor(where(equal(b, 0.0), a / b, rounded))


@op
def fmod(a: Operand, b: Operand) -> Variable:
    """Remainder of a / b with the sign of a, as numpy.fmod and C; broadcast.

    Of integers divided by 0 it is 0, as in numpy.
    """
    return apply("Mod", *match_dtypes(a, b), fmod=1)


@op
def mod(a: Operand, b: Operand) -> Variable:
    """Remainder of a / b with the sign of b, as numpy.mod and torch.remainder; broadcast.

    Of integers divided by 0 it is 0, as in numpy.
    """
    a, b = (constant(v) for v in match_dtypes(a, b))
    if a.dtype.kind in "iu":
        return apply("Mod", a, b)
    y = fmod(a, b)  # ONNX's Mod has the sign of b for integers only
    return where(y * sign(b) < 0.0, y + b, y)


@op
def lerp(a: Operand, b: Operand, weight: Operand) -> Variable:
    """Linear interpolation a + weight (b - a), broadcast.

    Args:
        a: floats.
        b: floats of the same dtype.
        weight: floats, or a number.

    Returns:
        Floats.

    Raises:
        DTypeError: the operands are no floats of one dtype.
        ShapeError: the operands do not broadcast.
    """
    a, b = (constant(v) for v in match_dtypes(a, b))
    return a + weight * (b - a)


@op
def pow(a: Operand, b: Operand) -> Variable:
    """Power a^b, broadcast; the result has the dtype of a.

    An integer is raised to powers that are not negative, and wraps around: 2 ** 64 is 0 in int64.
    """
    a, b = (constant(v) for v in match_dtypes(a, b))
    if a.dtype.kind in "iu":
        _check_whole_power(a, b)
        if a.dtype not in (np.int32, np.int64):  # ONNX's Pow has no others
            wide = np.int32 if a.dtype.itemsize < 4 else np.int64
            return cast(apply("Pow", cast(a, wide), b), a.dtype)
    return apply("Pow", a, b)


def _check_whole_power(a, b):
    """Refuse a power of an integer that is none."""
    if b.dtype.kind == "f":
        raise DTypeError(
            f"{describe(a)} to the power of {describe(b)} is no {a.dtype}\n"
            f"  hint: cast() the {a.dtype} to {b.dtype}"
        )
    if b.value is not None and (b.value < 0).any():
        raise DTypeError(
            f"{describe(a)} to the power of {b.value.min()} is no {a.dtype}\n"
            f"  hint: cast() the {a.dtype} to float32"
        )


@op
def maximum(a: Operand, b: Operand) -> Variable:
    """Elementwise maximum; equal elements share the gradient evenly, as in PyTorch.

    Where either is NaN, so is the result, and both get all of its gradient.
    """
    return apply("Max", *match_dtypes(a, b))


@op
def minimum(a: Operand, b: Operand) -> Variable:
    """Elementwise minimum; equal elements share the gradient evenly.

    Where either is NaN, so is the result, and both get all of its gradient.
    """
    return apply("Min", *match_dtypes(a, b))


@op
def clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Variable:
    """Limit x to [low, high], two scalars; None is no limit.

    Where x equals a bound, the gradient goes to x, as by torch.clamp; where x is NaN, nowhere.

    Args:
        x: numbers of any shape.
        low: a scalar, or None.
        high: a scalar, or None.

    Returns:
        The shape of x.

    Raises:
        DTypeError: x is bool or text.
        ShapeError: a bound is no scalar.
    """
    x = numbers(x)
    for bound in (low, high):
        x = x if bound is None else match_dtypes(x, bound)[0]  # floats make an integer x float
    low, high = (None if v is None else match_dtypes(x, v)[1] for v in (low, high))
    return apply("Clip", x, low, high)


@op
def less_than(a: Operand, b: Operand) -> Variable:
    """Elementwise a < b, bool, broadcast."""
    return apply("Less", *comparable(a, b))


@op
def less_equal(a: Operand, b: Operand) -> Variable:
    """Elementwise a <= b, bool, broadcast."""
    return apply("LessOrEqual", *comparable(a, b))


@op
def greater_than(a: Operand, b: Operand) -> Variable:
    """Elementwise a > b, bool, broadcast."""
    return apply("Greater", *comparable(a, b))


@op
def greater_equal(a: Operand, b: Operand) -> Variable:
    """Elementwise a >= b, bool, broadcast."""
    return apply("GreaterOrEqual", *comparable(a, b))


@op
def equal(a: Operand, b: Operand) -> Variable:
    """Elementwise a == b, bool, broadcast."""
    return apply("Equal", *comparable(a, b, order=False))


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
def logical_xor(a: Operand, b: Operand) -> Variable:
    """Elementwise exclusive or of bools, broadcast."""
    return apply("Xor", a, b)


@op
def bitwise_and(a: Operand, b: Operand) -> Variable:
    """Bits that both integers have, broadcast; of bools `logical_and`."""
    a, b = match_dtypes(a, b)
    return apply("And" if constant(a).dtype.kind == "b" else "BitwiseAnd", a, b)


@op
def bitwise_or(a: Operand, b: Operand) -> Variable:
    """Bits that one of the integers has, broadcast; of bools `logical_or`."""
    a, b = match_dtypes(a, b)
    return apply("Or" if constant(a).dtype.kind == "b" else "BitwiseOr", a, b)


@op
def bitwise_xor(a: Operand, b: Operand) -> Variable:
    """Bits that exactly one of the integers has, broadcast; of bools `logical_xor`."""
    a, b = match_dtypes(a, b)
    return apply("Xor" if constant(a).dtype.kind == "b" else "BitwiseXor", a, b)


@op
def bitwise_not(x: Operand) -> Variable:
    """All bits of an integer inverted, -x - 1 of a signed one; of bools `logical_not`."""
    x = constant(x)
    return apply("Not" if x.dtype.kind == "b" else "BitwiseNot", x)


@op
def is_nan(x: Operand) -> Variable:
    """Elementwise whether x is NaN, bool."""
    return apply("IsNaN", x)


@op
def is_inf(x: Operand) -> Variable:
    """Elementwise whether x is infinite, of either sign, bool."""
    return apply("IsInf", x)


@op
def is_finite(x: Operand) -> Variable:
    """Elementwise whether x is neither infinite nor NaN, bool."""
    return logical_not(logical_or(is_inf(x), is_nan(x)))


@op
def is_close(a: Operand, b: Operand, rtol: float = 1e-5, atol: float = 1e-8) -> Variable:
    """Elementwise |a - b| <= atol + rtol |b|, or both infinite of one sign, bool, broadcast."""
    a, b = (constant(v) for v in match_dtypes(a, b))
    finite = is_finite(b)
    center = where(finite, b, 0.0)
    near = abs(a - center) <= atol + rtol * abs(center)
    return logical_or(equal(a, b), logical_and(near, finite))


@op
def where(condition: Operand, a: Operand, b: Operand) -> Variable:
    """Elements of a where the bool condition is true, of b elsewhere; all three broadcast.

    Args:
        condition: bools.
        a: values of any dtype.
        b: values of the same dtype.

    Returns:
        The dtype of a.

    Raises:
        DTypeError: the condition is not bool, or a and b have different dtypes.
        ShapeError: the three do not broadcast.
    """
    return apply("Where", condition, *match_dtypes(a, b))


@op
def cast(x: Operand, dtype: DTypeLike) -> Variable:
    """Convert x to another dtype; x itself if it has that dtype already.

    Args:
        x: values of any shape.
        dtype: a dtype of NumPy, or its name.

    Returns:
        The shape of x.

    Raises:
        DTypeError: there is no such dtype in ONNX.
    """
    x, code = constant(x), element_type(dtype)
    return x if x.dtype == np.dtype(dtype) else apply("Cast", x, to=code)


@op
def identity(x: Operand, name: str | None = None) -> Variable:
    """Return the value of x under a name of its own."""
    x = constant(x)
    names = None if name is None else [name]
    return new_node("Identity", (x,), {}, [(x.dims, x.dtype)], output_names=names).outputs[0]
