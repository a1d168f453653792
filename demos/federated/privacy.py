"""Differential privacy of clients: clipped updates, Gaussian noise, and the epsilon of all rounds.

The released weights of a round are w + (sum_k v_k clip(d_k) + noise) / K with the difference d_k
of client k, its weight v_k <= 1, its norm clipped to C, K clients that are wanted in a round, and
noise of standard deviation z C: the estimator with a fixed denominator of McMahan, Ramage, Talwar
and Zhang 2018, "Learning Differentially Private Recurrent Language Models". With or without one
client the sum differs by C at most, so that a round is a Gaussian mechanism of multiplier z.
"""

import math
import secrets
from dataclasses import dataclass

import numpy as np
from updates import norm


@dataclass(frozen=True)
class Rule:
    """Aggregation of updates.

    `clip` is the largest L2 norm of a client's difference, None for any. `noise` is the standard
    deviation of the noise in units of `clip`. A client with more than `most_samples` counts as one
    with so many. `clients` is how many a round wants.
    """

    clients: int
    clip: float | None = None
    noise: float = 0.0
    most_samples: int = 10_000

    def __post_init__(self):
        if self.clients < 1 or self.most_samples < 1:
            raise ValueError("a round has at least one client, with at least one sample")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(f"clip={self.clip}: a norm is a positive number")
        if not 0 <= self.noise < math.inf:
            raise ValueError(f"noise={self.noise}: a multiplier is a number from 0 on")
        if self.noise and self.clip is None:
            raise ValueError("noise needs clip: without a bound of the norms it protects nobody")

    def averaged(self, weights, updates):
        """Return the weights that follow, of the updates: (arrays, samples) of each client."""
        sums = {name: np.zeros(a.shape) for name, a in weights.items()}
        total = 0
        for arrays, samples in updates:
            differences = {n: arrays[n].astype(np.float64) - a for n, a in weights.items()}
            count = min(samples, self.most_samples)
            factor = count * self.factor(differences)
            for name, difference in differences.items():
                sums[name] += factor * difference
            total += count
        if self.noise:
            total = self.clients * self.most_samples
            # a generator of its own, of which nobody sees a number: not that of the weights
            rng = np.random.default_rng(secrets.randbits(256))
            scale = self.noise * self.clip * self.most_samples
            for name in sums:
                sums[name] += rng.normal(0.0, scale, sums[name].shape)
        return {n: (a + sums[n] / total).astype(a.dtype) for n, a in weights.items()}

    def factor(self, differences):
        """Return the clipping factor of a difference, after which its norm is within `clip`."""
        length = norm(differences.values())
        return 1.0 if self.clip is None or length <= self.clip else self.clip / length

    @property
    def cost(self):
        """The privacy cost of a round, 1 / noise^2: infinite without noise."""
        return math.inf if self.noise == 0 else self.noise**-2


def epsilon(spent, delta):
    """Return the epsilon of rounds, of which `spent` is the sum of 1 / noise^2.

    Gaussian mechanisms of the multipliers z_k are together one of (sum_k z_k^-2)^(-1/2), whose
    exact epsilon dp-accounting computes. None where that is not installed. Nothing is taken off
    for a random choice of clients: the server takes those that come.
    """
    if spent in (0.0, math.inf):
        return spent
    try:
        import dp_accounting
    except ImportError:
        return None
    return float(dp_accounting.get_epsilon_gaussian(spent**-0.5, delta))
