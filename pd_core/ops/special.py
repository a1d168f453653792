"""Special functions, and elementwise ones whose formula fails at infinities, zeros or NaN."""

import math

import numpy as np

from ..graph.checks import floats
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from . import math as m
from .math import differentiated_as
from .mode import stop_gradient
from .promotion import match_dtypes

# Factors of 1 / z, 1 / z^3, … in Stirling's series of ln Gamma(z): B_2k / (2k (2k - 1))
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
# Factors of 1 / z^2, 1 / z^4, … in that of its derivative: -B_2k / (2k)
_STIRLING_SLOPE = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_SHIFT = 8  # from which on both series have the digits of float64
# Giles 2010, "Approximating the erfinv function": polynomials in -ln(1 - x^2), highest power first
_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


@op
def logaddexp(a: Operand, b: Operand) -> Variable:
    """ln(e^a + e^b), broadcast, without overflow and with all digits of a small addend.

    Of two times -inf it is -inf. Gradients are the shares e^a / (e^a + e^b), and 0 where both are
    -inf.

    Args:
        a: floats.
        b: floats of the same dtype.

    Returns:
        Of the dtype of a.

    Raises:
        DTypeError: the operands are no floats of one dtype.
        ShapeError: the operands do not broadcast.
    """
    a, b = (floats(v) for v in match_dtypes(a, b))
    top = stop_gradient(m.maximum(a, b))
    infinite = m.is_inf(top)  # inf - inf is no number
    finite = m.where(infinite, 0.0, top)
    below = m.where(infinite, -math.inf, m.minimum(a, b) - finite)
    total = m.exp(a - finite) + m.exp(b - finite)
    none = m.equal(total, 0.0)
    formula = m.log(m.where(none, 1.0, total)) + finite
    return differentiated_as(formula, top + m.log1p(m.exp(below)))


@op
def xlogy(x: Operand, y: Operand) -> Variable:
    """x ln(y), broadcast, which is 0 where x is 0 and y is no NaN, as in entropies.

    Where x is 0 and y not positive, both gradients are 0.

    Args:
        x: floats.
        y: floats of the same dtype.

    Returns:
        Of the dtype of x.

    Raises:
        DTypeError: the operands are no floats of one dtype.
        ShapeError: the operands do not broadcast.
    """
    x, y = (floats(v) for v in match_dtypes(x, y))
    no_number = m.logical_or(y <= 0.0, m.equal(y, math.inf))
    return x * m.log(m.where(m.logical_and(m.equal(x, 0.0), no_number), 1.0, y))


@op
def nan_to_num(
    x: Operand, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Variable:
    """Replace NaN and infinities by numbers; no gradient passes there.

    Args:
        x: numbers of any shape; integers are returned as they are.
        nan: what NaN becomes.
        posinf: what infinity becomes, the largest number of the dtype by default.
        neginf: what -infinity becomes, the smallest number of the dtype by default.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is text.
    """
    x = constant(x)
    if x.dtype.kind in "biu":
        return x
    floats(x)
    limit = float(np.finfo(x.dtype).max)
    high, low = limit if posinf is None else posinf, -limit if neginf is None else neginf
    number = m.where(m.is_nan(x), float(nan), x)
    number = m.where(m.equal(x, math.inf), float(high), number)
    return m.where(m.equal(x, -math.inf), float(low), number)


@op
def lgamma(x: Operand) -> Variable:
    """ln |Gamma(x)|, the logarithm of the gamma function; infinite at 0, -1, -2, …

    Stirling's series beyond 8, to which smaller numbers are shifted, and the reflection formula for
    negative ones. Near its zeros at 1 and 2 it has the absolute error of numbers near 10.

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    x = floats(x)
    negative, infinite = x <= 0.0, m.is_inf(x)
    safe = m.where(infinite, 1.0, x)
    positive = m.where(negative, 1.0 - safe, safe)
    small = positive < float(_SHIFT)
    z = m.where(small, positive + float(_SHIFT), positive)
    squares = m.reciprocal(z * z)
    value = z * (m.log(z) - 1.0) - 0.5 * m.log(z * (0.5 / math.pi))
    value = value + _polynomial(_STIRLING[::-1], squares) / z
    # ln x (x + 1) … (x + 7), in pairs of one sum: (x + 1) (x + 6) is x (x + 7) + 6
    p = m.where(small, positive, 1.0)
    t = p * (p + 7.0)
    shift = m.log(p) + m.log(p + 7.0) + m.log(t + 6.0) + m.log(t + 10.0) + m.log(t + 12.0)
    value = m.where(small, value - shift, value)
    offset = m.where(negative, safe - m.round(safe), 0.5)
    mirrored = math.log(math.pi) - m.log(abs(m.sin(offset * math.pi))) - value
    return m.where(infinite, math.inf, m.where(negative, mirrored, value))


@op
def digamma(x: Operand) -> Variable:
    """Digamma function, the derivative of `lgamma`; -inf at 0 and NaN at -1, -2, …

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    x = floats(x)
    negative = x <= 0.0
    positive = m.where(negative, 1.0 - x, x)
    small = positive < float(_SHIFT)
    z = m.where(small, positive + float(_SHIFT), positive)
    squares = m.reciprocal(z * z)
    value = m.log(z) - 0.5 / z + _polynomial(_STIRLING_SLOPE[::-1], squares) * squares
    t = m.where(small, positive, 1.0)
    shift = m.reciprocal(t)
    for k in range(1, _SHIFT):
        shift = shift + m.reciprocal(t + float(k))
    value = m.where(small, value - shift, value)
    offset = m.where(negative, x - m.round(x), 0.5)
    pole = m.logical_and(m.equal(offset, 0.0), x < 0.0)
    mirrored = value - m.where(pole, math.nan, math.pi / m.tan(offset * math.pi))
    return m.where(negative, mirrored, value)


@op
def erfinv(x: Operand) -> Variable:
    """Inverse error function: erf(erfinv(x)) = x; infinite at -1 and 1, NaN beyond.

    sqrt(2) erfinv(2 p - 1) is the p-quantile of the standard normal distribution. Polynomials of
    Giles 2010, in float64 with two steps of Newton's.

    Args:
        x: floats of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x is no float.
    """
    x = floats(x)
    inside = abs(x) < 1.0
    safe = m.where(inside, x, 0.0)
    w = -m.log((1.0 - safe) * (1.0 + safe))
    tail = w >= 5.0
    centre = _polynomial(_CENTRE, m.where(tail, 0.0, w) - 2.5)
    outer = _polynomial(_TAIL, m.sqrt(m.where(tail, w, 9.0)) - 3.0)
    y = m.where(tail, outer, centre) * safe
    for _ in range(2 if x.dtype.itemsize == 8 else 0):
        y = y + _newton(y, safe)
    # a step whose residual is 0: derivatives are those of the inverse, not of the polynomials
    residual = safe - m.erf(y)
    exact = y + (residual - stop_gradient(residual)) * (m.exp(y * y) * (math.sqrt(math.pi) / 2))
    exact = m.where(m.equal(x, 1.0), math.inf, m.where(m.equal(x, -1.0), -math.inf, exact))
    return m.where(abs(x) > 1.0, math.nan, m.where(m.is_nan(x), x, exact))


def _newton(y, x):
    """Return the step that brings erf(y) to x."""
    return (x - m.erf(y)) * m.exp(y * y) * (math.sqrt(math.pi) / 2)


def _polynomial(factors, x):
    """Evaluate a polynomial by Horner's rule; the factor of the highest power comes first."""
    first, *rest = factors
    result = x * 0.0 + first
    for factor in rest:
        result = result * x + factor
    return result
