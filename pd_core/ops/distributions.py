"""Probability distributions, `pd.distributions`: draws, log-probabilities, entropies, divergences.

Names and formulas are PyTorch's. Parameters are Variables or arrays that broadcast to one shape,
[...] below, and gradients reach them: through draws too where those are continuous (Kingma &
Welling 2014). Gamma, beta and Student's distributions are not among them: ONNX has no logarithm of
the gamma function.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph.broadcast import broadcast_dims
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.node import refined
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .activation import sigmoid, softplus
from .draws import exponential_random
from .gather import gather_elements, within
from .mode import stop_gradient
from .random import gaussian_random, uniform_random
from .reduce import arg_max, log_softmax, reduce_sum
from .shape import concat, expand, shape_of, squeeze, unsqueeze
from .sizes import TargetShape, shape_operand

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "Exponential",
    "Laplace",
    "LogNormal",
    "Normal",
    "Uniform",
    "kl_divergence",
]


class Distribution:
    """A distribution for each element of the shape of its parameters.

    `sample(sizes)` draws [*sizes, ...] without a gradient, `rsample(sizes)` with one, and
    `log_prob(value)` is the logarithm of the density or probability at values that broadcast
    against the parameters. `mean`, `variance`, `stddev` and `entropy()` are [...].
    """

    parameters: Sequence[str] = ()

    @property
    def mean(self) -> Variable:
        """The mean."""
        raise self._without("mean")

    @property
    def variance(self) -> Variable:
        """The variance."""
        raise self._without("variance")

    @property
    def stddev(self) -> Variable:
        """The standard deviation."""
        return m.sqrt(self.variance)

    def log_prob(self, value: Operand) -> Variable:
        """Return the logarithm of the density, or of the probability, at values.

        Args:
            value: values that broadcast against [...].

        Returns:
            Floats.
        """
        raise self._without("log_prob")

    def entropy(self) -> Variable:
        """Return the entropy, in nats.

        Returns:
            Floats [...].
        """
        raise self._without("entropy")

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters.

        Args:
            sizes: sizes in front of [...], Variables among them.

        Returns:
            Floats [*sizes, ...].
        """
        raise self._without("rsample")

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], without a gradient.

        Args:
            sizes: sizes in front of [...], Variables among them.

        Returns:
            [*sizes, ...].
        """
        return stop_gradient(self.rsample(sizes))

    def _without(self, what):
        return GraphError(f"{type(self).__name__} has no {what}")

    def __repr__(self) -> str:
        given = (f"{name}={getattr(self, name).name}" for name in self.parameters)
        return f"{type(self).__name__}({', '.join(given)})"


class Normal(Distribution):
    """Normal distributions of mean `loc` and standard deviation `scale`.

    Args:
        loc: floats [...].
        scale: standard deviations [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("loc", "scale")

    def __init__(self, loc: Operand, scale: Operand) -> None:
        self.loc, self.scale = _floats("Normal", loc=loc, scale=scale)

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
        z = (_value(value, self.loc) - self.loc) / self.scale
        return m.square(z) * -0.5 - m.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Variable:
        """Return (1 + ln(2 pi)) / 2 + ln scale, in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + m.log(self.scale)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.loc + self.scale * _drawn(gaussian_random, sizes, self.loc)


class LogNormal(Distribution):
    """Distributions of e^x for x of `Normal(loc, scale)`.

    Args:
        loc: floats [...].
        scale: standard deviations of x [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("loc", "scale")

    def __init__(self, loc: Operand, scale: Operand) -> None:
        self.loc, self.scale = _floats("LogNormal", loc=loc, scale=scale)
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
        x = m.log(_value(value, self.loc))
        return self.base.log_prob(x) - x

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
        self.low, self.high = _floats("Uniform", low=low, high=high)

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
        x = _value(value, self.low)
        inside = m.logical_and(x >= self.low, x < self.high)
        return m.where(inside, -m.log(self.high - self.low), constant(-np.inf, self.low.dtype))

    def entropy(self) -> Variable:
        """Return ln(high - low)."""
        return m.log(self.high - self.low)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.low + (self.high - self.low) * _drawn(uniform_random, sizes, self.low)


class Exponential(Distribution):
    """Exponential distributions: the density is rate e^(-rate x) for x >= 0.

    Args:
        rate: floats [...], above 0.
    """

    parameters = ("rate",)

    def __init__(self, rate: Operand) -> None:
        (self.rate,) = _floats("Exponential", rate=rate)

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
        x = _value(value, self.rate)
        inside = m.log(self.rate) - self.rate * x
        return m.where(x >= 0.0, inside, constant(-np.inf, self.rate.dtype))

    def entropy(self) -> Variable:
        """Return 1 - ln rate."""
        return 1.0 - m.log(self.rate)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return _drawn(exponential_random, sizes, self.rate) / self.rate


class Laplace(Distribution):
    """Laplace distributions: the density is e^(-|x - loc| / scale) / (2 scale).

    Args:
        loc: floats [...].
        scale: scales [...], above 0.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the parameters do not broadcast.
    """

    parameters = ("loc", "scale")

    def __init__(self, loc: Operand, scale: Operand) -> None:
        self.loc, self.scale = _floats("Laplace", loc=loc, scale=scale)

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
        return -abs(_value(value, self.loc) - self.loc) / self.scale - m.log(2.0 * self.scale)

    def entropy(self) -> Variable:
        """Return 1 + ln(2 scale)."""
        return 1.0 + m.log(2.0 * self.scale)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        u = _drawn(uniform_random, sizes, self.loc) - 0.5
        tail = m.maximum(1.0 - 2.0 * abs(u), np.finfo(np.float32).tiny)
        return self.loc - self.scale * m.sign(u) * m.log(tail)


class Bernoulli(Distribution):
    """Distributions of 1 with probability `probs`, else 0, from probabilities or from logits.

    Args:
        probs: floats [...], in [0, 1].
        logits: floats [...]: ln p - ln(1 - p).

    Raises:
        TypeError: both are given, or none.
    """

    parameters = ("logits",)

    def __init__(self, probs: Operand | None = None, logits: Operand | None = None) -> None:
        p, z = _one_of("Bernoulli", probs, logits)
        self.logits = m.log(p) - m.log1p(-p) if z is None else z
        self.probs = sigmoid(z) if p is None else p

    @property
    def mean(self) -> Variable:
        """The mean."""
        return self.probs

    @property
    def variance(self) -> Variable:
        """The variance."""
        return self.probs * (1.0 - self.probs)

    def log_prob(self, value: Operand) -> Variable:
        """Return ln p at 1 and ln(1 - p) at 0."""
        x = _value(value, self.logits)
        return x * self.logits - softplus(self.logits)

    def entropy(self) -> Variable:
        """Return the entropy, in nats."""
        return softplus(self.logits) - self.probs * self.logits

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...] of 0.0 and 1.0, without a gradient."""
        u = _drawn(uniform_random, sizes, self.probs)
        return stop_gradient(m.cast(u < self.probs, self.probs.dtype))


class Categorical(Distribution):
    """Distributions over classes: `probs` or `logits` are [..., C]; values are classes, int64.

    Probabilities are divided by their sum.

    Args:
        probs: floats [..., C], at least 0.
        logits: floats [..., C].

    Raises:
        ShapeError: there is no axis of classes of known size.
        TypeError: both are given, or none.
    """

    parameters = ("logits",)

    def __init__(self, probs: Operand | None = None, logits: Operand | None = None) -> None:
        p, z = _one_of("Categorical", probs, logits)
        given: Any = p if z is None else z
        if not given.rank or not isinstance(given.dims[-1], int):
            raise ShapeError(f"Categorical: takes [..., classes], not {describe(given)}")
        self.logits = log_softmax(m.log(p) if z is None else z)
        self.probs, self.classes = m.exp(self.logits), given.dims[-1]

    @property
    def mean(self) -> Variable:
        """GraphError: classes are no numbers."""
        raise self._without("mean, classes are no numbers")

    @property
    def variance(self) -> Variable:
        """GraphError: classes are no numbers."""
        raise self._without("variance, classes are no numbers")

    def log_prob(self, value: Operand) -> Variable:
        """Return ln p of each class; one that there is not is an OutOfRange of the evaluation.

        Args:
            value: integers that broadcast against [...].

        Returns:
            Floats.

        Raises:
            DTypeError: classes are no integers.
            ShapeError: classes do not broadcast against [...].
        """
        value = constant(value)
        if value.dtype.kind not in "iu":
            raise DTypeError(f"Categorical: classes are integers, not {describe(value)}")
        index = m.cast(within(value, self.classes), np.int64)
        rank = max(index.rank, self.logits.rank - 1)
        for _ in range(rank - index.rank):
            index = unsqueeze(index, 0)
        logits = self.logits
        for _ in range(rank + 1 - logits.rank):
            logits = unsqueeze(logits, 0)
        common = broadcast_dims(index.dims, logits.dims[:-1])
        if common is None:
            raise ShapeError(
                f"Categorical: values {describe(value)} for logits {describe(self.logits)}"
            )
        lead = shape_of(index + arg_max(logits, -1))
        logits = expand(logits, concat([lead, constant([self.classes])]))
        index = unsqueeze(expand(index, lead), -1)
        return refined(squeeze(gather_elements(logits, index, -1), -1), common)

    def entropy(self) -> Variable:
        """Return the entropy, in nats; a probability of 0 adds nothing."""
        p = self.probs
        return -reduce_sum(m.where(p > 0.0, p * self.logits, constant(0, p.dtype)), -1)

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return classes [*sizes, ...], int64 (by Gumbel's maximum)."""
        noise = -m.log(_drawn(exponential_random, sizes, self.logits))
        return arg_max(self.logits + noise, -1)


def kl_divergence(p: Distribution, q: Distribution) -> Variable:
    """Return KL(p || q) of two distributions of one kind, in nats: [...].

    Args:
        p: a distribution.
        q: one of the same kind, whose shape broadcasts against it.

    Returns:
        Floats [...].

    Raises:
        GraphError: there is no formula for the pair.
        ShapeError: the shapes do not broadcast.
    """
    formula = _DIVERGENCES.get((type(p), type(q)))
    if formula is None:
        raise GraphError(
            f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}"
        )
    return formula(p, q)


def _normal(p, q):
    ratio = m.square(p.scale / q.scale)
    return 0.5 * (ratio + m.square((p.loc - q.loc) / q.scale) - 1.0 - m.log(ratio))


def _laplace(p, q):
    distance = abs(p.loc - q.loc)
    inner = p.scale * m.exp(-distance / p.scale) + distance
    return m.log(q.scale / p.scale) + inner / q.scale - 1.0


def _uniform(p, q):
    inside = m.logical_and(q.low <= p.low, p.high <= q.high)
    ratio = m.log((q.high - q.low) / (p.high - p.low))
    return m.where(inside, ratio, constant(np.inf, p.low.dtype))


def _bernoulli(p, q):
    return softplus(q.logits) - softplus(p.logits) + p.probs * (p.logits - q.logits)


def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    return reduce_sum(m.where(p.probs > 0.0, terms, constant(0, p.probs.dtype)), -1)


_DIVERGENCES: dict[tuple[type, type], Callable[[Any, Any], Variable]] = {
    (Normal, Normal): _normal,
    (LogNormal, LogNormal): _normal,
    (Laplace, Laplace): _laplace,
    (Uniform, Uniform): _uniform,
    (Exponential, Exponential): lambda p, q: m.log(p.rate / q.rate) + q.rate / p.rate - 1.0,
    (Bernoulli, Bernoulli): _bernoulli,
    (Categorical, Categorical): _categorical,
}


def _floats(who, **parameters):
    """The parameters as floats of one shape."""
    values = [constant(v) for v in parameters.values()]
    kind = next((v.dtype for v in values if v.dtype.kind == "f"), np.dtype(np.float32))
    values = [v if v.dtype.kind == "f" else m.cast(v, kind) for v in values]
    if broadcast_dims(*(v.dims for v in values)) is None or len({v.dtype for v in values}) > 1:
        text = ", ".join(f"{k} {describe(v)}" for k, v in zip(parameters, values, strict=True))
        error = DTypeError if len({v.dtype for v in values}) > 1 else ShapeError
        raise error(f"{who}: the parameters do not fit each other: {text}")
    if len(values) == 1 or len({v.dims for v in values}) == 1:
        return values
    dims: Any = broadcast_dims(*(v.dims for v in values))
    shape = list(dims) if all(isinstance(d, int) for d in dims) else shape_of(sum(values))
    return [refined(expand(v, shape), dims) for v in values]


def _one_of(who, probs, logits):
    if (probs is None) == (logits is None):
        raise TypeError(f"{who}: takes probs or logits")
    (value,) = _floats(who, **({"probs": probs} if logits is None else {"logits": logits}))
    return (value, None) if logits is None else (None, value)


def _value(value, like):
    value = constant(value)
    return value if value.dtype == like.dtype else m.cast(value, like.dtype)


def _drawn(draw, sizes, like):
    """Draws of [*sizes, *the shape of a parameter], of its dtype."""
    sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    if like.is_static:
        return draw([*sizes, *like.dims], dtype=like.dtype)
    if not sizes:
        return refined(draw(shape_of(like), dtype=like.dtype), like.dims)
    return draw(concat([shape_operand(sizes), shape_of(like)]), dtype=like.dtype)
