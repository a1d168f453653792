"""Elementwise functions in float64, of those that ONNX Runtime's CPU provider has in it.

Each is right to a few units in the last place; tests/core/backend/test_double.py measures it.
"""

import math
from collections.abc import Callable

import numpy as np

from ... import ops
from ...graph.variable import Operand, Variable

_TERMS = 24  # of a Chebyshev series at first
_LEAST = 1e-16  # the terms from the first smaller one on are left out: they are rounding errors
_LINEAR = math.tan(math.pi / 8)  # up to which the series of the inverse tangent is used
_FAR = 6.5  # erf(x) is 1 in float64
_SELU = 1.67326319217681884765625, 1.05070102214813232421875  # alpha, gamma


# ---- trigonometric and hyperbolic functions


def tan(x: Variable) -> Variable:
    """sin x / cos x."""
    return ops.sin(x) / ops.cos(x)


def atan(x: Variable) -> Variable:
    """By a series for |x| <= tan(pi / 8), to which larger arguments are reduced."""
    size = abs(x)
    steep = size > 1.0
    small = ops.where(steep, 1.0 / ops.where(steep, size, 1.0), size)
    turned = small > _LINEAR
    z = ops.where(turned, (small - 1.0) / (small + 1.0), small)
    series = z * _series(z * z, 0.0, _LINEAR**2, lambda u: math.atan(u**0.5) / u**0.5)
    angle = ops.where(turned, math.pi / 4 + series, series)
    return _signed(x, ops.where(steep, math.pi / 2 - angle, angle))


def asin(x: Variable) -> Variable:
    """atan(x / sqrt(1 - x^2))."""
    return atan(x / ops.sqrt((1.0 - x) * (1.0 + x)))


def acos(x: Variable) -> Variable:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    return 2.0 * atan(ops.sqrt((1.0 - x) / (1.0 + x)))


def sinh(x: Variable) -> Variable:
    """(e^x - e^-x) / 2, without cancellation near 0 and in two factors where e^x overflows."""
    size = abs(x)
    less = ops.expm1(size)
    near = 0.5 * (less + less / (less + 1.0))
    half = ops.exp(0.5 * size)
    return _signed(x, ops.where(size > 1.0, _halved_sum(half, -1.0), near))


def cosh(x: Variable) -> Variable:
    """(e^x + e^-x) / 2, in two factors where e^x overflows."""
    return _halved_sum(ops.exp(0.5 * abs(x)), 1.0)


def _halved_sum(half, sign):
    """(half^2 + sign / half^2) / 2."""
    return 0.5 * half * half + (0.5 * sign) / half / half


def asinh(x: Variable) -> Variable:
    """ln(|x| + sqrt(x^2 + 1)), with the sign of x."""
    size = abs(x)
    huge = size > 1e8
    part = ops.where(huge, 1.0, size)
    near = ops.log1p(part + part * part / (1.0 + ops.sqrt(part * part + 1.0)))
    return _signed(x, ops.where(huge, ops.log(size) + math.log(2.0), near))


def acosh(x: Variable) -> Variable:
    """ln(x + sqrt(x^2 - 1)); NaN below 1."""
    huge = x > 1e8
    above = ops.where(huge, 1.0, x) - 1.0
    near = ops.log1p(above + ops.sqrt(above * (above + 2.0)))
    return ops.where(huge, ops.log(x) + math.log(2.0), near)


def atanh(x: Variable) -> Variable:
    """ln((1 + x) / (1 - x)) / 2; NaN beyond [-1, 1]."""
    size = abs(x)
    return _signed(x, 0.5 * ops.log1p(2.0 * size / (1.0 - size)))


def _signed(x, magnitude):
    """A magnitude with the sign of x, that of a zero too."""
    small = ops.equal(x, 0.0)
    return ops.where(small, x, ops.where(x < 0.0, -magnitude, magnitude))


# ---- the error function


def erf(x: Variable) -> Variable:
    """By a series in x^2 up to 1, and beyond by one of e^(x^2) (1 - erf x)."""
    size = abs(x)
    near = x * _series(x * x, 0.0, 1.0, lambda u: math.erf(u**0.5) / u**0.5)
    t = 1.0 / (1.0 + 0.5 * size)  # from 2 / 3 at 1 to 0 at infinity
    first, last = (1.0 / (1.0 + 0.5 * v) for v in (_FAR, 1.0))
    rest = ops.exp(-x * x) * _series(t, first, last, _scaled_erfc)
    far = ops.where(size > _FAR, 1.0, 1.0 - rest)
    return ops.where(size > 1.0, _signed(x, far), near)


def _scaled_erfc(t):
    x = 2.0 / t - 2.0
    return math.exp(x * x) * math.erfc(x)


def gelu(x: Variable, approximate: str = "none") -> Variable:
    """x times the normal distribution function of x, or the formula with tanh."""
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + ops.tanh(inner))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


# ---- activations


def softplus(x: Variable) -> Variable:
    """ln(1 + e^x)."""
    return ops.maximum(x, 0.0) + ops.log1p(ops.exp(-abs(x)))


def softsign(x: Variable) -> Variable:
    """x / (1 + |x|)."""
    return x / (1.0 + abs(x))


def leaky_relu(x: Variable, alpha: float = 0.01) -> Variable:
    """x where it is not negative, alpha x elsewhere."""
    return ops.where(x < 0.0, x * alpha, x)


def prelu(x: Variable, slope: Variable) -> Variable:
    """x where it is not negative, slope x elsewhere."""
    return ops.where(x < 0.0, x * slope, x)


def elu(x: Variable, alpha: float = 1.0) -> Variable:
    """x where it is positive, alpha (e^x - 1) elsewhere."""
    return _exponential_below_zero(x, alpha, 1.0)


def celu(x: Variable, alpha: float = 1.0) -> Variable:
    """x where it is positive, alpha (e^(x / alpha) - 1) elsewhere."""
    return _exponential_below_zero(x, alpha, alpha)


def selu(x: Variable, alpha: float = _SELU[0], gamma: float = _SELU[1]) -> Variable:
    """gamma times the ELU."""
    return gamma * _exponential_below_zero(x, alpha, 1.0)


def _exponential_below_zero(x, height, width):
    return ops.where(x > 0.0, x, height * ops.expm1(x / width))


def thresholded_relu(x: Variable, alpha: float = 1.0) -> Variable:
    """x where it is above alpha, 0 elsewhere."""
    return ops.where(x <= alpha, 0.0, x)


def hard_sigmoid(x: Variable, alpha: float = 0.2, beta: float = 0.5) -> Variable:
    """alpha x + beta, limited to [0, 1]."""
    return ops.minimum(ops.maximum(x * alpha + beta, 0.0), 1.0)


def hard_swish(x: Variable) -> Variable:
    """x (x / 6 + 1 / 2), the factor limited to [0, 1]."""
    return x * hard_sigmoid(x, 1.0 / 6.0, 0.5)


def swish(x: Variable, alpha: float = 1.0) -> Variable:
    """x sigmoid(alpha x)."""
    return x * ops.sigmoid(x * alpha)


def mish(x: Variable) -> Variable:
    """x tanh(softplus(x))."""
    return x * ops.tanh(softplus(x))


def mean(*xs: Variable) -> Variable:
    """The mean of several tensors, broadcast."""
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total / float(len(xs))


def log_softmax(x: Variable, axis: int = -1) -> Variable:
    """x - ln(sum(e^x)) along an axis, without overflow."""
    centred = x - ops.reduce_max(x, [axis], keep_dim=True)
    return centred - ops.log(ops.reduce_sum(ops.exp(centred), [axis], keep_dim=True))


def hardmax(x: Variable, axis: int = -1) -> Variable:
    """1 at the first maximum along an axis, 0 elsewhere."""
    axis %= x.rank
    first = ops.arg_max(x, axis, keep_dim=True)
    shape = [-1 if k == axis else 1 for k in range(x.rank)]
    indices = ops.reshape(ops.arange(ops.size_of(x, axis)), shape)
    return ops.cast(ops.equal(first, indices), x.dtype)


FUNCTIONS: dict[str, Callable[..., Variable]] = {
    "Acos": acos,
    "Acosh": acosh,
    "Asin": asin,
    "Asinh": asinh,
    "Atan": atan,
    "Atanh": atanh,
    "Celu": celu,
    "Cosh": cosh,
    "Elu": elu,
    "Erf": erf,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Hardmax": hardmax,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": log_softmax,
    "Mean": mean,
    "Mish": mish,
    "PRelu": prelu,
    "Selu": selu,
    "Sinh": sinh,
    "Softplus": softplus,
    "Softsign": softsign,
    "Swish": swish,
    "Tan": tan,
    "ThresholdedRelu": thresholded_relu,
}


# ---- series


def _series(u: Variable, low: float, high: float, function: Callable[[float], float]) -> Variable:
    """A function of u, interpolated between Chebyshev's points of [low, high] (Clenshaw 1955)."""
    scale = 2.0 / (high - low)
    s = u * scale - (1.0 + low * scale)
    coefficients = _chebyshev(function, low, high)
    double = s * 2.0
    b1: Operand = coefficients[-1]
    b2: Operand = 0.0
    for c in coefficients[-2:0:-1]:
        b1, b2 = double * b1 - b2 + c, b1
    return s * b1 - b2 + coefficients[0]


def _chebyshev(function, low, high):
    """The coefficients of a function's series in Chebyshev's polynomials over [low, high]."""
    at = np.pi * (np.arange(_TERMS) + 0.5) / _TERMS
    points = low + (high - low) * 0.5 * (np.cos(at) + 1.0)
    values = np.array([function(p) for p in points.tolist()])
    waves = np.cos(np.outer(np.arange(_TERMS), at)) * values * (2.0 / _TERMS)
    found = [math.fsum(row) for row in waves.tolist()]
    count = next(k for k, c in enumerate(found) if abs(c) < _LEAST)
    return [0.5 * found[0], *found[1:count]]
