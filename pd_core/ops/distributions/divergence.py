"""Kullback-Leibler divergences of two distributions of one kind."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph.errors import GraphError
from ...graph.variable import Variable, constant
from .. import math as m
from ..activation import softplus
from ..copies import diagonal
from ..factor import triangular_inverse
from ..matrix import matmul
from ..reduce import reduce_sum
from ..shape import squeeze, unsqueeze
from ..special import digamma, lgamma
from .base import Distribution
from .composed import Independent
from .continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from .counts import Poisson
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from .gamma import Beta, Dirichlet, Gamma
from .multivariate import MultivariateNormal


def kl_divergence(p: Distribution, q: Distribution) -> Variable:
    """Return KL(p || q) of two distributions of one kind, in nats: [...].

    Of `Independent` ones it is the sum over their axes. Mixtures and Student's have no formula.

    Args:
        p: a distribution.
        q: one of the same kind, whose shape broadcasts against it.

    Returns:
        Floats [...].

    Raises:
        GraphError: there is no formula for the pair.
        ShapeError: the shapes do not broadcast.
    """
    if isinstance(p, Independent) and isinstance(q, Independent) and p.axes == q.axes:
        terms = kl_divergence(p.base, q.base)
        return reduce_sum(terms, list(range(-p.axes, 0))) if p.axes else terms
    kinds = (k for k in type(p).__mro__ if isinstance(q, k))  # a subclass has the formula, too
    formula = next((_DIVERGENCES[k] for k in kinds if k in _DIVERGENCES), None)
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


def _cauchy(p, q):
    total = m.square(p.scale + q.scale) + m.square(p.loc - q.loc)
    return m.log(total / (4.0 * p.scale * q.scale))


def _gumbel(p, q):
    ratio, moved = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = m.exp(lgamma(1.0 + ratio) - moved)
    return moved - m.log(ratio) + (ratio - 1.0) * np.euler_gamma + tail - 1.0


def _geometric(p, q):
    return -p.entropy() - m.log1p(-q.probs) / p.probs - q.logits


def _gamma(p, q):
    a, b = p.concentration, q.concentration
    scales = b * m.log(p.rate / q.rate) + (q.rate - p.rate) * (a / p.rate)
    return scales + lgamma(b) - lgamma(a) + (a - b) * digamma(a)


def _beta(p, q):
    pairs = (p.concentration1, q.concentration1), (p.concentration0, q.concentration0)
    terms = sum(lgamma(b) - lgamma(a) + (a - b) * digamma(a) for a, b in pairs)
    return terms + _of_totals(*(sum(sides) for sides in zip(*pairs, strict=True)))


def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    terms = lgamma(b) - lgamma(a) + (a - b) * digamma(a)
    return reduce_sum(terms, -1) + _of_totals(reduce_sum(a, -1), reduce_sum(b, -1))


def _multivariate_normal(p, q):
    """(|A|^2 + |A (loc_p - loc_q)|^2 - n) / 2 + ln |L_q| - ln |L_p|, of A = L_q^-1 (L_p)."""
    to_q = triangular_inverse(q.scale_tril)
    moved = squeeze(matmul(to_q, unsqueeze(p.loc - q.loc, -1)), -1)
    spread = reduce_sum(m.square(matmul(to_q, p.scale_tril)), [-2, -1])
    terms = spread + reduce_sum(m.square(moved), -1) - p.loc.shape[-1]
    logs = [reduce_sum(m.log(diagonal(each.scale_tril)), -1) for each in (q, p)]
    return 0.5 * terms + logs[0] - logs[1]


def _of_totals(a, b):
    return lgamma(a) - lgamma(b) + (b - a) * digamma(a)


_DIVERGENCES: dict[type, Callable[[Any, Any], Variable]] = {
    Bernoulli: _bernoulli,
    Beta: _beta,
    Categorical: _categorical,
    Cauchy: _cauchy,
    Dirichlet: _dirichlet,
    Exponential: lambda p, q: m.log(p.rate / q.rate) + q.rate / p.rate - 1.0,
    Gamma: _gamma,
    Geometric: _geometric,
    Gumbel: _gumbel,
    HalfNormal: lambda p, q: _normal(p.base, q.base),
    Laplace: _laplace,
    LogNormal: _normal,
    MultivariateNormal: _multivariate_normal,
    Normal: _normal,
    OneHotCategorical: _categorical,
    Poisson: lambda p, q: p.rate * (m.log(p.rate) - m.log(q.rate)) - (p.rate - q.rate),
    Uniform: _uniform,
}
