"""Ratios of alternating measurements, and whether they can be stood behind."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.9
WIDEST = 1.2  # upper over lower end of an interval whose ratio is still printed


@dataclass(frozen=True)
class Ratio:
    """The median ratio of some rounds, with the interval that contains the true median."""

    median: float
    low: float
    high: float

    @property
    def is_trusted(self) -> bool:
        """Whether the interval is narrow enough for the median to mean something."""
        return self.high <= WIDEST * self.low

    def __str__(self):
        if not self.is_trusted:
            return f"noisy: {self.low:.2g} to {self.high:.2g}"
        return f"{self.median:.2f}"


def ratio(others: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Return the Ratio `others / ours` of measurements that were taken in the same rounds.

    ValueError if there are none, or not equally many.
    """
    quotients = [a / b for a, b in zip(others, ours, strict=True)]
    low, high = median_interval(quotients)
    return Ratio(quantile(quotients, 0.5), low, high)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval that contains the true median with a probability of CONFIDENCE or more.

    Its ends are two of the values, as far from the lowest and the highest as the binomial
    distribution of ranks allows (the interval of the sign test). No distribution is assumed. With
    fewer than five values it is their range. ValueError if there are none.
    """
    if not values:
        raise ValueError("the median of no values")
    ordered, n = sorted(values), len(values)
    outside, cut = 0.0, 0
    for k in range(n // 2):
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 1 - CONFIDENCE:
            break
        cut = k
    return ordered[cut], ordered[n - 1 - cut]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values is, interpolated linearly."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values; ValueError if there are none."""
    if not values:
        raise ValueError("the mean of no values")
    return math.exp(math.fsum(map(math.log, values)) / len(values))
