"""Distributions made of others: of vectors with independent elements, and mixtures."""

from typing import Any

import numpy as np

from ...graph.errors import ShapeError
from ...graph.variable import Operand, Variable, constant
from .. import math as m
from ..gather import one_hot
from ..reduce import reduce_sum
from ..shape import unsqueeze, zeros_like
from ..sizes import TargetShape
from ..statistics import logsumexp
from .base import Distribution
from .discrete import Categorical


class Independent(Distribution):
    """A distribution of vectors, or of larger tensors, whose elements are independent.

    The last axes of the distributions of another one become axes of the values: `log_prob` and
    `entropy` are sums over them. `Independent(Normal(loc, scale), 1)` is a diagonal Gaussian.

    Args:
        base: a distribution.
        axes: how many of its last axes.

    Raises:
        ShapeError: it has fewer axes.
    """

    parameters = ("base",)

    def __init__(self, base: Distribution, axes: int) -> None:
        if not 0 <= axes <= len(base.batch_shape):
            raise ShapeError(f"Independent: {axes} axes of distributions {base.batch_shape}")
        self.base, self.axes, self.event_rank = base, axes, base.event_rank + axes

    def like(self) -> Variable:
        """Return a Variable of the shape of one draw for each distribution."""
        return self.base.like()

    @property
    def mean(self) -> Variable:
        """The means of the elements."""
        return self.base.mean

    @property
    def variance(self) -> Variable:
        """The variances of the elements."""
        return self.base.variance

    def log_prob(self, value: Operand) -> Variable:
        """Return the sum of the elements' log-probabilities."""
        return self._sum(self.base.log_prob(value))

    def entropy(self) -> Variable:
        """Return the sum of the elements' entropies."""
        return self._sum(self.base.entropy())

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], whose gradient reaches the parameters."""
        return self.base.rsample(sizes)

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], without a gradient."""
        return self.base.sample(sizes)

    def _sum(self, x):
        return reduce_sum(x, list(range(-self.axes, 0))) if self.axes else x

    def __repr__(self) -> str:
        return f"Independent({self.base!r}, {self.axes})"


class MixtureSameFamily(Distribution):
    """Mixtures of K distributions of one kind, the last axis of those that are given.

    Args:
        mixture: a `Categorical` [..., K], the probability of each component.
        components: distributions [..., K].

    Raises:
        ShapeError: the components have no last axis of K.
        TypeError: the mixture is no `Categorical`.
    """

    parameters = ("mixture", "components")

    def __init__(self, mixture: Categorical, components: Distribution) -> None:
        if not isinstance(mixture, Categorical):
            raise TypeError(f"MixtureSameFamily: the mixture is a Categorical, not {mixture!r}")
        shape, k = components.batch_shape, mixture.classes
        if not shape or shape[-1] not in (k, None):
            raise ShapeError(f"MixtureSameFamily: {k} components, but distributions {shape}")
        self.components, self.event_rank = components, components.event_rank
        events = list(range(-self.event_rank, 0))
        zeros = zeros_like(components.like())
        self.mixture = Categorical(
            logits=mixture.logits + (reduce_sum(zeros, events) if events else zeros)
        )

    def like(self) -> Variable:
        """Return a Variable of the shape of one draw for each distribution."""
        return self._sum(self.components.like())

    @property
    def mean(self) -> Variable:
        """The means."""
        return self._sum(self._weights() * self.components.mean)

    @property
    def variance(self) -> Variable:
        """The variances: the mean of those of the components, and the variance of their means."""
        means = self.components.mean
        off = m.square(means - unsqueeze(self.mean, self._axis()))
        return self._sum(self._weights() * (self.components.variance + off))

    def log_prob(self, value: Operand) -> Variable:
        """Return ln sum_k p_k p_k(x)."""
        value = _unsqueezed(value, self._axis())
        return logsumexp(self.mixture.logits + self.components.log_prob(value), -1)

    def cdf(self, value: Operand) -> Variable:
        """Return sum_k p_k cdf_k(x)."""
        value = _unsqueezed(value, self._axis())
        return self._sum(self._weights() * self.components.cdf(value))

    def sample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ...], without a gradient."""
        chosen = one_hot(self.mixture.sample(sizes), self.mixture.classes)
        for _ in range(self.event_rank):
            chosen = unsqueeze(chosen, -1)
        drawn = self.components.sample(sizes)
        return self._sum(m.where(chosen > 0.0, drawn, constant(0, drawn.dtype)))

    def _axis(self):
        """The axis of the components."""
        return -1 - self.event_rank

    def _weights(self):
        weights = self.mixture.probs
        for _ in range(self.event_rank):
            weights = unsqueeze(weights, -1)
        return weights

    def _sum(self, x):
        return reduce_sum(x, self._axis())

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture!r}, {self.components!r})"


def _unsqueezed(value, axis):
    """Values with one more axis; arrays stay arrays, which take the dtype of the parameters."""
    if isinstance(value, Variable) and not value.literal:
        return unsqueeze(value, axis)
    array: Any = value.value if isinstance(value, Variable) else value
    return np.expand_dims(np.asarray(array), axis)
