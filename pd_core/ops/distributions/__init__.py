"""Probability distributions, `pd.distributions`: draws, log-probabilities, entropies, divergences.

Names and formulas are PyTorch's. Parameters are Variables or arrays that broadcast to one shape,
[...] below, and gradients reach them: through draws too where `rsample` is there (Kingma & Welling
2014).
"""

from .base import Distribution
from .composed import Independent, MixtureSameFamily
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
from .divergence import kl_divergence
from .gamma import Beta, Dirichlet, Gamma, StudentT
from .multivariate import MultivariateNormal

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "Cauchy",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "StudentT",
    "Uniform",
    "kl_divergence",
]
