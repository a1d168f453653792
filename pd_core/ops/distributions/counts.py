"""Distributions of counts without a limit."""

import math

import numpy as np

from ...graph.variable import Operand, Variable, constant
from .. import math as m
from ..gather import gather_elements
from ..mode import stop_gradient
from ..random import uniform_random
from ..reduce import arg_max, cum_sum, reduce_sum
from ..shape import squeeze, unsqueeze
from ..sizes import TargetShape
from ..special import lgamma, xlogy
from .base import Distribution, drawn, floats_of, value_like

_SMALL, _MOST = 10.0, 48  # rates below have counts below, but once in 10^16 draws
_TRIES = 16  # each is accepted with a probability of 0.75 or more


class Poisson(Distribution):
    """Poisson distributions of counts: P(k) = rate^k e^(-rate) / k!.

    Args:
        rate: floats [...], at least 0.
    """

    parameters = ("rate",)

    def __init__(self, rate: Operand) -> None:
        (self.rate,) = floats_of("Poisson", rate=rate)

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.rate

    @property
    def variance(self) -> Variable:
        """The variance."""
        return self.rate

    def log_prob(self, value: Operand) -> Variable:
        """Return k ln rate - rate - ln k!."""
        k = value_like(value, self.rate)
        return xlogy(k, self.rate) - self.rate - lgamma(k + 1.0)

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return counts [*sizes, ...] in the dtype of the parameters, without a gradient.

        Below a rate of 10 by the distribution function, else by Hoermann 1993, "The transformed
        rejection method for generating Poisson random variables".
        """
        small = self.rate < _SMALL
        low = _by_sums(m.where(small, self.rate, 0.0), sizes)
        high = _by_rejection(m.where(small, _SMALL, self.rate), sizes)
        return stop_gradient(m.where(small, low, high))


def _by_sums(rate, sizes):
    """Count the values of the distribution function that a uniform draw exceeds."""
    rate = unsqueeze(rate, -1)
    k = np.arange(float(_MOST))
    factorials = constant([math.lgamma(n + 1.0) for n in k], rate.dtype)
    below = cum_sum(m.exp(xlogy(constant(k, rate.dtype), rate) - rate - factorials), rate.rank - 1)
    u = unsqueeze(drawn(uniform_random, sizes, squeeze(rate, -1)), -1)
    return reduce_sum(m.cast(u >= below, rate.dtype), -1)


def _by_rejection(rate, sizes):
    """Take the first of several tries that is accepted (algorithm PTRS)."""
    sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    u = drawn(uniform_random, [_TRIES, *sizes], rate) - 0.5
    v = drawn(uniform_random, [_TRIES, *sizes], rate)
    b = 0.931 + 2.53 * m.sqrt(rate)
    a = 0.02483 * b - 0.059
    edge = 0.5 - abs(u)
    k = m.floor((2.0 * a / edge + b) * u + rate + 0.43)
    safe = m.maximum(k, 0.0)
    density = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / m.square(edge) + b)
    tried = m.logical_and(m.logical_or(edge >= 0.013, v <= edge), k >= 0.0)
    accepted = m.logical_and(tried, m.log(density) <= _log_probability(safe, rate))
    first = unsqueeze(arg_max(m.cast(accepted, rate.dtype), 0), 0)
    return squeeze(gather_elements(safe, first, 0), 0)


def _log_probability(k, rate):
    """Return k ln rate - rate - ln k!, whose large terms cancel: by Stirling's series, but at 0."""
    zero = m.equal(k, 0.0)
    n = m.where(zero, 1.0, k)
    x = (n - rate) / rate
    near = abs(x) < 0.1
    t = m.where(near, x, 0.0)
    series = t * 0.0
    for power in range(9, 1, -1):  # (1 + t) ln(1 + t) - t
        series = series * t + (-1.0) ** power / (power * (power - 1.0))
    excess = m.where(near, series * t * t, (1.0 + x) * m.log1p(x) - x)
    rest = m.reciprocal(n) * (1.0 / 12.0) - m.reciprocal(n * n * n) * (1.0 / 360.0)
    stirling = -rate * excess - 0.5 * m.log(n * (2.0 * math.pi)) - rest
    return m.where(zero, -rate, stirling)
