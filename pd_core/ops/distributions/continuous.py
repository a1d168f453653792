"""Distributions of real numbers whose draws are a formula of uniform or normal ones."""

import math

import numpy as np

from ...graph.variable import Operand, Variable, constant
from .. import math as m
from ..draws import exponential_random
from ..random import gaussian_random, uniform_random
from ..shape import zeros_like
from ..sizes import TargetShape
from ..special import erfinv
from .base import Distribution, drawn, floats_of, standard_score, value_like


class _LocScale(Distribution):
    """A family of distributions of `loc` + `scale` z, for z of one distribution.

    Args:
        loc: floats [...].
        scale: scales [...], above 0.
    """

    parameters = ("loc", "scale")

    def __init__(self, loc: Operand, scale: Operand) -> None:
        self.loc, self.scale = floats_of(type(self).__name__, loc=loc, scale=scale)


class Normal(_LocScale):
    """Normal distributions of mean `loc` and standard deviation `scale`.

    Args:
        loc: floats [...].
        scale: standard deviations [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Variable:
        """The variance."""
        return m.square(self.scale)

    def log_prob(self, value: Operand) -> Variable:
        """Return -(x - loc)^2 / (2 scale^2) - ln scale - ln(2 pi) / 2."""
        z = standard_score(value, self.loc, self.scale)
        return m.square(z) * -0.5 - m.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Operand) -> Variable:
        """Return (1 + erf((x - loc) / (scale sqrt 2))) / 2."""
        z = standard_score(value, self.loc, self.scale)
        return 0.5 + 0.5 * m.erf(z * math.sqrt(0.5))

    def icdf(self, probability: Operand) -> Variable:
        """Return loc + scale sqrt(2) erfinv(2 p - 1)."""
        p = value_like(probability, self.loc)
        return self.loc + self.scale * (math.sqrt(2.0) * erfinv(2.0 * p - 1.0))

    def entropy(self) -> Variable:
        """Return (1 + ln(2 pi)) / 2 + ln scale, in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + m.log(self.scale)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.loc + self.scale * drawn(gaussian_random, sizes, self.loc)


class LogNormal(_LocScale):
    """Distributions of e^x for x of `Normal(loc, scale)`.

    Args:
        loc: floats [...].
        scale: standard deviations of x [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    def __init__(self, loc: Operand, scale: Operand) -> None:
        super().__init__(loc, scale)
        self.base = Normal(self.loc, self.scale)

    @property
    def mean(self) -> Variable:
        """The mean."""
        return m.exp(self.loc + 0.5 * m.square(self.scale))

    @property
    def variance(self) -> Variable:
        """The variance."""
        s = m.square(self.scale)
        return m.expm1(s) * m.exp(2.0 * self.loc + s)

    def log_prob(self, value: Operand) -> Variable:
        """Return the logarithm of the normal density of ln x, less ln x."""
        x = m.log(value_like(value, self.loc))
        return self.base.log_prob(x) - x

    def cdf(self, value: Operand) -> Variable:
        """Return the normal probability of ln x, and 0 up to 0."""
        x = value_like(value, self.loc)
        inside = x > 0.0
        return m.where(inside, self.base.cdf(m.log(m.where(inside, x, 1.0))), 0.0)

    def icdf(self, probability: Operand) -> Variable:
        """Return e to the normal quantile."""
        return m.exp(self.base.icdf(probability))

    def entropy(self) -> Variable:
        """Return the entropy, in nats."""
        return self.base.entropy() + self.loc

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return m.exp(self.base.rsample(sizes))


class Uniform(Distribution):
    """Uniform distributions on [low, high).

    Args:
        low: floats [...].
        high: floats [...], above `low`.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("low", "high")

    def __init__(self, low: Operand, high: Operand) -> None:
        self.low, self.high = floats_of("Uniform", low=low, high=high)

    @property
    def mean(self) -> Variable:
        """The mean."""
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> Variable:
        """The variance."""
        return m.square(self.high - self.low) / 12.0

    def log_prob(self, value: Operand) -> Variable:
        """Return -ln(high - low), and -inf outside."""
        x = value_like(value, self.low)
        inside = m.logical_and(x >= self.low, x < self.high)
        return m.where(inside, -m.log(self.high - self.low), constant(-np.inf, self.low.dtype))

    def cdf(self, value: Operand) -> Variable:
        """Return (x - low) / (high - low) within [0, 1]."""
        x = value_like(value, self.low)
        return m.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, probability: Operand) -> Variable:
        """Return low + p (high - low)."""
        return self.low + value_like(probability, self.low) * (self.high - self.low)

    def entropy(self) -> Variable:
        """Return ln(high - low)."""
        return m.log(self.high - self.low)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.low + (self.high - self.low) * drawn(uniform_random, sizes, self.low)


class Exponential(Distribution):
    """Exponential distributions: the density is rate e^(-rate x) for x >= 0.

    Args:
        rate: floats [...], above 0.
    """

    parameters = ("rate",)

    def __init__(self, rate: Operand) -> None:
        (self.rate,) = floats_of("Exponential", rate=rate)

    @property
    def mean(self) -> Variable:
        """The mean."""
        return 1.0 / self.rate

    @property
    def variance(self) -> Variable:
        """The variance."""
        return 1.0 / m.square(self.rate)

    def log_prob(self, value: Operand) -> Variable:
        """Return ln rate - rate x, and -inf below 0."""
        x = value_like(value, self.rate)
        inside = m.log(self.rate) - self.rate * x
        return m.where(x >= 0.0, inside, constant(-np.inf, self.rate.dtype))

    def cdf(self, value: Operand) -> Variable:
        """Return 1 - e^(-rate x), and 0 below 0."""
        return -m.expm1(-self.rate * m.maximum(value_like(value, self.rate), 0.0))

    def icdf(self, probability: Operand) -> Variable:
        """Return -ln(1 - p) / rate."""
        return -m.log1p(-value_like(probability, self.rate)) / self.rate

    def entropy(self) -> Variable:
        """Return 1 - ln rate."""
        return 1.0 - m.log(self.rate)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return drawn(exponential_random, sizes, self.rate) / self.rate


class Laplace(_LocScale):
    """Laplace distributions: the density is e^(-|x - loc| / scale) / (2 scale).

    Args:
        loc: floats [...].
        scale: scales [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Variable:
        """The variance."""
        return 2.0 * m.square(self.scale)

    def log_prob(self, value: Operand) -> Variable:
        """Return -|x - loc| / scale - ln(2 scale)."""
        return -abs(value_like(value, self.loc) - self.loc) / self.scale - m.log(2.0 * self.scale)

    def cdf(self, value: Operand) -> Variable:
        """Return e^z / 2 below the mean and 1 - e^-z / 2 above, for z = (x - loc) / scale."""
        z = standard_score(value, self.loc, self.scale)
        return 0.5 - 0.5 * m.sign(z) * m.expm1(-abs(z))

    def icdf(self, probability: Operand) -> Variable:
        """Return loc - scale sign(p - 1/2) ln(1 - |2 p - 1|)."""
        p = value_like(probability, self.loc) - 0.5
        return self.loc - self.scale * m.sign(p) * m.log1p(-2.0 * abs(p))

    def entropy(self) -> Variable:
        """Return 1 + ln(2 scale)."""
        return 1.0 + m.log(2.0 * self.scale)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        u = drawn(uniform_random, sizes, self.loc) - 0.5
        tail = m.maximum(1.0 - 2.0 * abs(u), np.finfo(np.float32).tiny)
        return self.loc - self.scale * m.sign(u) * m.log(tail)


class HalfNormal(Distribution):
    """Distributions of |x| for x of `Normal(0, scale)`.

    Args:
        scale: standard deviations of x [...], above 0.
    """

    parameters = ("scale",)

    def __init__(self, scale: Operand) -> None:
        (self.scale,) = floats_of("HalfNormal", scale=scale)
        self.base = Normal(zeros_like(self.scale), self.scale)

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.scale * math.sqrt(2.0 / math.pi)

    @property
    def variance(self) -> Variable:
        """The variance."""
        return m.square(self.scale) * (1.0 - 2.0 / math.pi)

    def log_prob(self, value: Operand) -> Variable:
        """Return ln 2 more than the normal density, and -inf below 0."""
        x = value_like(value, self.scale)
        return m.where(x >= 0.0, self.base.log_prob(x) + math.log(2.0), -math.inf)

    def cdf(self, value: Operand) -> Variable:
        """Return erf(x / (scale sqrt 2)), and 0 below 0."""
        x = m.maximum(value_like(value, self.scale), 0.0)
        return m.erf(x / self.scale * math.sqrt(0.5))

    def icdf(self, probability: Operand) -> Variable:
        """Return scale sqrt(2) erfinv(p)."""
        return self.scale * (math.sqrt(2.0) * erfinv(value_like(probability, self.scale)))

    def entropy(self) -> Variable:
        """Return (1 + ln(pi / 2)) / 2 + ln scale, in nats."""
        return self.base.entropy() - math.log(2.0)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return abs(self.base.rsample(sizes))


class Cauchy(_LocScale):
    """Cauchy distributions: the density is 1 / (pi scale (1 + z^2)) for z = (x - loc) / scale.

    They have no mean and no variance.

    Args:
        loc: floats [...].
        scale: scales [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    def log_prob(self, value: Operand) -> Variable:
        """Return -ln pi - ln scale - ln(1 + z^2)."""
        z = standard_score(value, self.loc, self.scale)
        return -m.log1p(m.square(z)) - m.log(self.scale) - math.log(math.pi)

    def cdf(self, value: Operand) -> Variable:
        """Return 1/2 + atan(z) / pi."""
        z = standard_score(value, self.loc, self.scale)
        return 0.5 + m.atan(z) * (1.0 / math.pi)

    def icdf(self, probability: Operand) -> Variable:
        """Return loc + scale tan(pi (p - 1/2))."""
        angle = (value_like(probability, self.loc) - 0.5) * math.pi
        return self.loc + self.scale * m.tan(angle)

    def entropy(self) -> Variable:
        """Return ln(4 pi scale)."""
        return m.log(self.scale) + math.log(4.0 * math.pi)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.icdf(drawn(uniform_random, sizes, self.loc))


class Gumbel(_LocScale):
    """Gumbel distributions, of the largest of many: ln density = -z - e^-z - ln scale.

    z is (x - loc) / scale.

    Args:
        loc: floats [...].
        scale: scales [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.loc + self.scale * np.euler_gamma

    @property
    def variance(self) -> Variable:
        """The variance."""
        return m.square(self.scale) * (math.pi**2 / 6.0)

    def log_prob(self, value: Operand) -> Variable:
        """Return -z - e^-z - ln scale."""
        z = standard_score(value, self.loc, self.scale)
        return -z - m.exp(-z) - m.log(self.scale)

    def cdf(self, value: Operand) -> Variable:
        """Return e^(-e^-z)."""
        return m.exp(-m.exp((self.loc - value_like(value, self.loc)) / self.scale))

    def icdf(self, probability: Operand) -> Variable:
        """Return loc - scale ln(-ln p)."""
        return self.loc - self.scale * m.log(-m.log(value_like(probability, self.loc)))

    def entropy(self) -> Variable:
        """Return 1 + ln scale + Euler's constant."""
        return m.log(self.scale) + (1.0 + np.euler_gamma)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.loc - self.scale * m.log(drawn(exponential_random, sizes, self.loc))
