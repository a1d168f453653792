"""Learning-rate schedules: functions of the number of steps made, as a graph.

Give one to an optimizer in the place of a number; it is called with a float32 scalar Variable, the
steps that the optimizer has made before this one.
"""

import math
from dataclasses import dataclass

from .. import ops


@dataclass(frozen=True)
class ExponentialDecay:
    """rate * decay^(t / every); `staircase` rounds the exponent down."""

    rate: float
    decay: float
    every: float = 1.0
    staircase: bool = False

    def __call__(self, t):
        exponent = t / self.every
        exponent = ops.floor(exponent) if self.staircase else exponent
        return ops.exp(exponent * math.log(self.decay)) * self.rate


@dataclass(frozen=True)
class InverseTimeDecay:
    """rate * (1 + decay t)^-power."""

    rate: float
    decay: float
    power: float = 1.0

    def __call__(self, t):
        return ops.pow(1.0 + t * self.decay, -self.power) * self.rate


@dataclass(frozen=True)
class PolynomialDecay:
    """From rate to end within `steps` steps, along (1 - t/steps)^power; then it stays."""

    rate: float
    steps: float
    end: float = 0.0
    power: float = 1.0

    def __call__(self, t):
        left = ops.clip(1.0 - t / self.steps, 0.0, 1.0)
        return ops.pow(left, self.power) * (self.rate - self.end) + self.end


@dataclass(frozen=True)
class CosineDecay:
    """From rate to end within `steps` steps, along half a cosine (Loshchilov & Hutter 2017)."""

    rate: float
    steps: float
    end: float = 0.0

    def __call__(self, t):
        angle = ops.clip(t / self.steps, 0.0, 1.0) * math.pi
        return (ops.cos(angle) + 1.0) * (0.5 * (self.rate - self.end)) + self.end


@dataclass(frozen=True)
class Piecewise:
    """rates[i] up to and including step boundaries[i], the last rate beyond them all."""

    boundaries: tuple
    rates: tuple

    def __post_init__(self):
        if len(self.rates) != len(self.boundaries) + 1:
            raise ValueError(
                f"Piecewise: {len(self.boundaries)} boundaries take {len(self.boundaries) + 1} "
                f"rates, not {len(self.rates)}"
            )

    def __call__(self, t):
        rate = ops.cast(self.rates[-1], "float32")
        for boundary, value in reversed(list(zip(self.boundaries, self.rates, strict=False))):
            rate = ops.where(t > float(boundary), rate, ops.cast(value, "float32"))
        return rate


@dataclass(frozen=True)
class Warmup:
    """Another schedule, or a number, times t/steps for the first `steps` steps.

    From 0 on, as in Keras and in the linear warm-up of Hugging Face: the first step has a rate of
    0, and the one after `steps` others the whole rate.
    """

    schedule: object
    steps: float

    def __call__(self, t):
        rate = self.schedule(t) if callable(self.schedule) else self.schedule
        return ops.minimum(t / self.steps, 1.0) * rate
