"""Learning-rate schedules: functions of the number of steps, as a graph.

Pass one to an optimizer instead of a number; it is called with a float32 scalar Variable, the
number of steps that the optimizer has made before this one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from .. import ops
from ..graph.variable import Variable


@dataclass(frozen=True)
class ExponentialDecay:
    """rate * decay^(t / every); `staircase` rounds the exponent down."""

    rate: float
    decay: float
    every: float = 1.0
    staircase: bool = False

    def __call__(self, t: Variable) -> Variable:
        exponent = t / self.every
        exponent = ops.floor(exponent) if self.staircase else exponent
        return ops.exp(exponent * math.log(self.decay)) * self.rate


@dataclass(frozen=True)
class InverseTimeDecay:
    """rate * (1 + decay t)^-power."""

    rate: float
    decay: float
    power: float = 1.0

    def __call__(self, t: Variable) -> Variable:
        return ops.pow(1.0 + t * self.decay, -self.power) * self.rate


@dataclass(frozen=True)
class PolynomialDecay:
    """Decay from rate to end over `steps` steps along (1 - t/steps)^power, constant afterwards."""

    rate: float
    steps: float
    end: float = 0.0
    power: float = 1.0

    def __call__(self, t: Variable) -> Variable:
        left = ops.clip(1.0 - t / self.steps, 0.0, 1.0)
        return ops.pow(left, self.power) * (self.rate - self.end) + self.end


@dataclass(frozen=True)
class CosineDecay:
    """Decay from rate to end over `steps` steps along half a cosine (Loshchilov & Hutter 2017)."""

    rate: float
    steps: float
    end: float = 0.0

    def __call__(self, t: Variable) -> Variable:
        angle = ops.clip(t / self.steps, 0.0, 1.0) * math.pi
        return (ops.cos(angle) + 1.0) * (0.5 * (self.rate - self.end)) + self.end


@dataclass(frozen=True)
class Piecewise:
    """rates[i] up to and including step boundaries[i], the last rate after all boundaries."""

    boundaries: tuple[float, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.boundaries) + 1:
            raise ValueError(
                f"Piecewise: {len(self.boundaries)} boundaries take {len(self.boundaries) + 1} "
                f"rates, not {len(self.rates)}"
            )

    def __call__(self, t: Variable) -> Variable:
        rate = ops.cast(self.rates[-1], "float32")
        for boundary, value in reversed(list(zip(self.boundaries, self.rates, strict=False))):
            rate = ops.where(t > float(boundary), rate, ops.cast(value, "float32"))
        return rate


@dataclass(frozen=True)
class Warmup:
    """Another schedule, or a number, times t/steps for the first `steps` steps.

    The first step has the rate 0 and step `steps` + 1 the full rate, as in Keras and in the linear
    warm-up of Hugging Face.
    """

    schedule: float | Callable[[Variable], Variable]
    steps: float

    def __call__(self, t: Variable) -> Variable:
        rate = self.schedule(t) if callable(self.schedule) else self.schedule
        return ops.minimum(t / self.steps, 1.0) * rate
