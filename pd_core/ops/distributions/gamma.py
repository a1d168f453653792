"""Gamma, beta, Dirichlet and Student's distributions: those whose densities have gamma functions.

Their draws are made of those of gamma variables, whose gradients `gamma_slope` computes.
"""

import math

import numpy as np

from ...graph.errors import ShapeError
from ...graph.variable import Operand, Variable, describe
from .. import math as m
from ..activation import sigmoid
from ..draws import exponential_random
from ..gather import gather_elements
from ..random import gaussian_random
from ..reduce import arg_max, reduce_sum, softmax
from ..shape import squeeze, unsqueeze
from ..sizes import TargetShape
from ..special import digamma, lgamma, xlogy
from .base import Distribution, drawn, floats_of, standard_score, value_like
from .gamma_slope import with_slope

_TRIES = 8  # each is accepted with a probability of 0.95 or more


class Gamma(Distribution):
    """Gamma distributions: the density is rate^a x^(a - 1) e^(-rate x) / Gamma(a) for x > 0.

    Args:
        concentration: a, floats [...], above 0.
        rate: floats [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("concentration", "rate")

    def __init__(self, concentration: Operand, rate: Operand) -> None:
        given = floats_of("Gamma", concentration=concentration, rate=rate)
        self.concentration, self.rate = given

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Variable:
        """The variance."""
        return self.concentration / m.square(self.rate)

    def log_prob(self, value: Operand) -> Variable:
        """Return a ln rate + (a - 1) ln x - rate x - ln Gamma(a)."""
        x, a = value_like(value, self.rate), self.concentration
        return a * m.log(self.rate) + xlogy(a - 1.0, x) - self.rate * x - lgamma(a)

    def entropy(self) -> Variable:
        """Return a - ln rate + ln Gamma(a) + (1 - a) digamma(a), in nats."""
        a = self.concentration
        return a - m.log(self.rate) + lgamma(a) + (1.0 - a) * digamma(a)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters.

        Marsaglia & Tsang 2000; the gradient is that of Figurnov et al. 2018.
        """
        return m.exp(_log_gamma_draws(self.concentration, sizes)) / self.rate


class Beta(Distribution):
    """Beta distributions on (0, 1): the density is x^(a - 1) (1 - x)^(b - 1) / B(a, b).

    Args:
        concentration1: a, floats [...], above 0.
        concentration0: b, floats [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1: Operand, concentration0: Operand) -> None:
        given = floats_of("Beta", concentration1=concentration1, concentration0=concentration0)
        self.concentration1, self.concentration0 = given

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Variable:
        """The variance."""
        a, b = self.concentration1, self.concentration0
        return a * b / (m.square(a + b) * (a + b + 1.0))

    def log_prob(self, value: Operand) -> Variable:
        """Return (a - 1) ln x + (b - 1) ln(1 - x) - ln B(a, b)."""
        a, b = self.concentration1, self.concentration0
        x = value_like(value, a)
        return xlogy(a - 1.0, x) + xlogy(b - 1.0, 1.0 - x) - _log_beta(a, b)

    def entropy(self) -> Variable:
        """Return the entropy, in nats."""
        a, b = self.concentration1, self.concentration0
        ones = (a - 1.0) * digamma(a) + (b - 1.0) * digamma(b)
        return _log_beta(a, b) - ones + (a + b - 2.0) * digamma(a + b)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters.

        Each is the share of one of two gamma variables.
        """
        ahead = _log_gamma_draws(self.concentration1, sizes)
        return sigmoid(ahead - _log_gamma_draws(self.concentration0, sizes))


class Dirichlet(Distribution):
    """Dirichlet distributions of shares [..., C], whose sums are 1.

    Args:
        concentration: floats [..., C], above 0.

    Raises:
        ShapeError: there is no axis of shares.
    """

    parameters = ("concentration",)
    event_rank = 1

    def __init__(self, concentration: Operand) -> None:
        (self.concentration,) = floats_of("Dirichlet", concentration=concentration)
        if not self.concentration.rank:
            raise ShapeError(f"Dirichlet: takes [..., C], not {describe(self.concentration)}")

    @property
    def mean(self) -> Variable:
        """The means of the shares, [..., C]."""
        return self.concentration / reduce_sum(self.concentration, -1, keep_dim=True)

    @property
    def variance(self) -> Variable:
        """The variances of the shares, [..., C]."""
        total = reduce_sum(self.concentration, -1, keep_dim=True)
        return self.mean * (1.0 - self.mean) / (total + 1.0)

    def log_prob(self, value: Operand) -> Variable:
        """Return sum (a - 1) ln x - ln B(a) of shares [..., C]."""
        a = self.concentration
        return reduce_sum(xlogy(a - 1.0, value_like(value, a)), -1) - self._log_beta()

    def entropy(self) -> Variable:
        """Return the entropy, in nats."""
        a = self.concentration
        total, classes = reduce_sum(a, -1), reduce_sum(a * 0.0 + 1.0, -1)
        inner = reduce_sum((a - 1.0) * digamma(a), -1)
        return self._log_beta() - (classes - total) * digamma(total) - inner

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return shares [*sizes, ..., C], whose gradient reaches the parameters."""
        return softmax(_log_gamma_draws(self.concentration, sizes), -1)

    def _log_beta(self):
        a = self.concentration
        return reduce_sum(lgamma(a), -1) - lgamma(reduce_sum(a, -1))


class StudentT(Distribution):
    """Student's t-distributions with `df` degrees of freedom, moved by `loc` and scaled.

    The mean is NaN up to df = 1, the variance infinite up to 2 and NaN up to 1, as in PyTorch.

    Args:
        df: degrees of freedom [...], above 0.
        loc: floats [...].
        scale: scales [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("df", "loc", "scale")

    def __init__(self, df: Operand, loc: Operand = 0.0, scale: Operand = 1.0) -> None:
        self.df, self.loc, self.scale = floats_of("StudentT", df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Variable:
        """The mean."""
        return m.where(self.df > 1.0, self.loc, math.nan)

    @property
    def variance(self) -> Variable:
        """The variance."""
        over, wide = self.df > 2.0, m.where(self.df > 1.0, self.df * 0.0 + math.inf, math.nan)
        df = m.where(over, self.df, 3.0)
        return m.where(over, m.square(self.scale) * df / (df - 2.0), wide)

    def log_prob(self, value: Operand) -> Variable:
        """Return -(df + 1) / 2 ln(1 + z^2 / df) - ln(scale sqrt(df) B(1/2, df/2))."""
        z = standard_score(value, self.loc, self.scale)
        tail = 0.5 * (self.df + 1.0) * m.log1p(m.square(z) / self.df)
        return -tail - m.log(self.scale) - 0.5 * m.log(self.df) - self._log_beta()

    def entropy(self) -> Variable:
        """Return the entropy, in nats."""
        half = 0.5 * (self.df + 1.0)
        spread = half * (digamma(half) - digamma(0.5 * self.df))
        return m.log(self.scale) + spread + 0.5 * m.log(self.df) + self._log_beta()

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        z = drawn(gaussian_random, sizes, self.loc)
        chi_square = 2.0 * m.exp(_log_gamma_draws(0.5 * self.df, sizes))
        return self.loc + self.scale * z * m.rsqrt(chi_square / self.df)

    def _log_beta(self):
        """ln B(1/2, df/2)."""
        return _log_beta(0.5 * self.df, self.df * 0.0 + 0.5)


def _log_beta(a, b):
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _log_gamma_draws(a, sizes):
    """Logarithms of draws of Gamma(a, 1), [*sizes, ...], for which small ones are numbers too.

    Marsaglia & Tsang 2000, "A simple method for generating gamma variables". Several tries are
    drawn at once and the first that is accepted is taken: there is none once in 10^10 draws.
    A draw for a < 1 is one for a + 1, times u^(1 / a).
    """
    sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    small = a < 1.0
    d = m.where(small, a + 1.0, a) - 1.0 / 3.0
    x = drawn(gaussian_random, [_TRIES, *sizes], a)
    v = m.square(1.0 + x * m.rsqrt(9.0 * d)) * (1.0 + x * m.rsqrt(9.0 * d))
    log_v = m.log(m.maximum(v, float(np.finfo(np.float32).tiny)))
    log_u = -drawn(exponential_random, [_TRIES, *sizes], a)
    accepted = m.logical_and(v > 0.0, log_u < 0.5 * m.square(x) + d * (1.0 - v + log_v))
    first = unsqueeze(arg_max(m.cast(accepted, a.dtype), 0), 0)
    drawn_log = m.log(d) + squeeze(gather_elements(log_v, first, 0), 0)
    draws = drawn_log - m.where(small, drawn(exponential_random, sizes, a) / a, 0.0)
    return with_slope(draws, a)
