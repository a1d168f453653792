"""Rows of special functions."""

import math
from statistics import NormalDist

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, normal

INF, NAN = float("inf"), float("nan")


def _lgamma(x):
    def of(v):
        pole = v <= 0 and v == math.floor(v)
        return abs(v) if math.isinf(v) or math.isnan(v) else INF if pole else math.lgamma(v)

    return np.vectorize(of, otypes=[np.float64])(x)


def _digamma(x):
    """ln(z) - 1 / 2z - … at z = x + 1000, and the recurrence from there."""
    with np.errstate(all="ignore"):
        z = x + 1000.0
        shift = sum(1.0 / (x + k) for k in range(1000))
        value = np.log(z) - 0.5 / z - 1 / (12 * z * z) - shift
        value = np.where((x < 0) & (x == np.floor(x)), NAN, value)
        return np.where(x == 0, -INF, value)


def _erfinv(x):
    def of(v):
        if abs(v) < 1:
            return NormalDist().inv_cdf((v + 1) / 2) / math.sqrt(2)
        return math.copysign(INF, v) if abs(v) == 1 else NAN

    return np.vectorize(of, otypes=[np.float64])(x)


def _xlogy(x, y):
    with np.errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def _logaddexp(a, b):
    with np.errstate(all="ignore"):
        return np.logaddexp(a, b)


APART = fixed([[NAN, INF, -INF, 1.5], [-2.0, 0.0, 3.0, NAN]])

CASES = [
    case("logaddexp", ops.logaddexp, _logaddexp, [normal(3, 4), normal(4)]),
    case("logaddexp", ops.logaddexp, _logaddexp, [fixed([[0.5, 2.0]])] * 2, label="equal"),
    case(
        "logaddexp",
        ops.logaddexp,
        _logaddexp,
        [fixed([0.0, 900.0, -900.0, -INF]), fixed([-20.0, 899.0, -900.5, 1.0])],
        label="far",
        smooth=False,
    ),
    case("xlogy", ops.xlogy, _xlogy, [distinct(3, 4), between(0.5, 2.0, 3, 4)]),
    case(
        "xlogy",
        ops.xlogy,
        _xlogy,
        [fixed([0.0, 0.0, 0.0, 2.0]), fixed([0.0, INF, -1.0, 3.0])],
        label="zeros",
        smooth=False,
    ),
    case("nan_to_num", ops.nan_to_num, np.nan_to_num, [normal(3, 4)]),
    case(
        "nan_to_num",
        ops.nan_to_num,
        np.nan_to_num,
        [APART],
        nan=0.5,
        posinf=7.0,
        neginf=-8.0,
        smooth=False,
    ),
    case("lgamma", ops.lgamma, _lgamma, [between(0.3, 12.0, 3, 4)]),
    case("lgamma", ops.lgamma, _lgamma, [fixed([-0.3, -1.6, -4.5, 0.4])], label="negative"),
    case("digamma", ops.digamma, _digamma, [between(0.3, 12.0, 3, 4)]),
    case("digamma", ops.digamma, _digamma, [fixed([-0.3, -1.6, -4.6, 0.4])], label="negative"),
    case("erfinv", ops.erfinv, _erfinv, [between(-0.95, 0.95, 3, 4)], order=1),
    case("erfinv", ops.erfinv, _erfinv, [fixed([0.0, -0.999, 0.99999])], smooth=False),
]
