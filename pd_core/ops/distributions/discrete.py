"""Distributions of bits, counts and classes."""

from typing import Any

import numpy as np

from ...graph.broadcast import broadcast_dims
from ...graph.errors import DTypeError, ShapeError
from ...graph.node import refined
from ...graph.variable import Operand, Variable, constant, describe
from .. import math as m
from ..activation import sigmoid, softplus
from ..draws import exponential_random
from ..gather import gather_elements, one_hot, within
from ..mode import stop_gradient
from ..random import uniform_random
from ..reduce import arg_max, log_softmax, reduce_max, reduce_sum
from ..shape import concat, expand, shape_of, squeeze, unsqueeze
from ..sizes import TargetShape
from .base import Distribution, drawn, one_of, value_like


class _Trials(Distribution):
    """A family of distributions of independent trials that succeed with one probability.

    Args:
        probs: probabilities of success [...].
        logits: floats [...]: ln p - ln(1 - p).
    """

    parameters = ("logits",)

    def __init__(self, probs: Operand | None = None, logits: Operand | None = None) -> None:
        p, z = one_of(type(self).__name__, probs, logits)
        self.logits = m.log(p) - m.log1p(-p) if z is None else z
        self.probs = sigmoid(z) if p is None else p

    def _entropy_of_one(self):
        return softplus(self.logits) - self.probs * self.logits


class Bernoulli(_Trials):
    """Distributions of 1 with probability `probs`, else 0, from probabilities or from logits.

    Args:
        probs: floats [...], in [0, 1].
        logits: floats [...]: ln p - ln(1 - p).

    Raises:
        TypeError: both are given, or none.
    """

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
        x = value_like(value, self.logits)
        return x * self.logits - softplus(self.logits)

    def entropy(self) -> Variable:
        """Return the entropy, in nats."""
        return self._entropy_of_one()

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...] of 0.0 and 1.0, without a gradient."""
        u = drawn(uniform_random, sizes, self.probs)
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
        p, z = one_of("Categorical", probs, logits)
        given: Any = p if z is None else z
        if not given.rank or not isinstance(given.shape[-1], int):
            raise ShapeError(f"Categorical: takes [..., classes], not {describe(given)}")
        self.logits = log_softmax(m.log(p) if z is None else z)
        self.probs, self.classes = m.exp(self.logits), given.shape[-1]

    def like(self) -> Variable:
        """Return a Variable of the shape of the classes of one draw: [...]."""
        return reduce_max(self.logits, -1)

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
        noise = -m.log(drawn(exponential_random, sizes, self.logits))
        return arg_max(self.logits + noise, -1)


class OneHotCategorical(Distribution):
    """Distributions over classes as `Categorical`, whose values are one-hot vectors [..., C].

    Args:
        probs: floats [..., C], at least 0.
        logits: floats [..., C].

    Raises:
        ShapeError: there is no axis of classes of known size.
        TypeError: both are given, or none.
    """

    parameters = ("logits",)
    event_rank = 1

    def __init__(self, probs: Operand | None = None, logits: Operand | None = None) -> None:
        self.base = Categorical(probs, logits)
        self.logits, self.probs = self.base.logits, self.base.probs

    @property
    def mean(self) -> Variable:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Variable:
        """The variance of each element."""
        return self.probs * (1.0 - self.probs)

    def log_prob(self, value: Operand) -> Variable:
        """Return ln p of the class of each one-hot vector."""
        x = value_like(value, self.logits)
        return reduce_sum(m.where(m.equal(x, 0.0), 0.0, x * self.logits), -1)

    def entropy(self) -> Variable:
        """Return the entropy, in nats; a probability of 0 adds nothing."""
        return self.base.entropy()

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return one-hot vectors [*sizes, ..., C], of the dtype of the parameters."""
        classes = self.base.sample(sizes)
        return m.cast(one_hot(classes, self.base.classes), self.logits.dtype)


class Geometric(_Trials):
    """Distributions of the number of failures before a success: P(k) = (1 - p)^k p.

    Args:
        probs: probabilities of success [...], in (0, 1].
        logits: floats [...]: ln p - ln(1 - p).

    Raises:
        TypeError: both are given, or none.
    """

    @property
    def mean(self) -> Variable:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Variable:
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    def log_prob(self, value: Operand) -> Variable:
        """Return k ln(1 - p) + ln p; 0 failures of p = 1 have the probability 1."""
        k = value_like(value, self.probs)
        never = m.logical_and(m.equal(k, 0.0), m.equal(self.probs, 1.0))
        return k * m.log1p(-m.where(never, 0.0, self.probs)) + m.log(self.probs)

    def entropy(self) -> Variable:
        """Return the entropy of one trial over p, in nats."""
        return self._entropy_of_one() / self.probs

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return counts [*sizes, ...] in the dtype of the parameters, without a gradient."""
        waited = drawn(exponential_random, sizes, self.probs)
        return stop_gradient(m.floor(waited / -m.log1p(-self.probs)))
