"""Learning-rate schedules: functions of the number of steps, as a graph.

Pass one to an optimizer instead of a number; it is called with a float32 scalar Variable, the
number of steps that the optimizer has made before this one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Literal

from .. import ops
from ..graph.names import names
from ..graph.shown import with_settings
from ..graph.variable import Variable
from ..graph.whole import whole
from ..run.exchange import mean_over_processes
from ..run.session import Session, default_session
from .tracing import state


@dataclass(frozen=True)
class ExponentialDecay:
    """rate * decay^(t / every); `staircase` rounds the exponent down.

    Args:
        rate: the rate at the start.
        decay: what the rate is multiplied by, above 0.
        every: the number of steps that `decay` is for.
        staircase: whether the rate changes only after whole numbers of `every` steps.
    """

    rate: float
    decay: float
    _: KW_ONLY
    every: float = 1.0
    staircase: bool = False

    def __call__(self, t: Variable) -> Variable:
        exponent = t / self.every
        exponent = ops.floor(exponent) if self.staircase else exponent
        return ops.exp(exponent * math.log(self.decay)) * self.rate


@dataclass(frozen=True)
class InverseTimeDecay:
    """rate * (1 + decay t)^-power.

    Args:
        rate: the rate at the start.
        decay: a number, at least 0.
        power: the exponent.
    """

    rate: float
    decay: float
    _: KW_ONLY
    power: float = 1.0

    def __call__(self, t: Variable) -> Variable:
        return ops.pow(1.0 + t * self.decay, -self.power) * self.rate


@dataclass(frozen=True)
class PolynomialDecay:
    """Decay from rate to end over `steps` steps along (1 - t/steps)^power, constant afterwards.

    Args:
        rate: the rate at the start.
        steps: the number of steps from `rate` to `end`.
        end: the rate at the end.
        power: 1 for a line.
    """

    rate: float
    steps: float
    end: float = 0.0
    power: float = 1.0

    def __call__(self, t: Variable) -> Variable:
        left = ops.clip(1.0 - t / self.steps, 0.0, 1.0)
        return ops.pow(left, self.power) * (self.rate - self.end) + self.end


@dataclass(frozen=True)
class CosineDecay:
    """Decay from rate to end over `steps` steps along half a cosine (Loshchilov & Hutter 2017).

    Args:
        rate: the rate at the start.
        steps: the number of steps from `rate` to `end`.
        end: the rate at the end.
    """

    rate: float
    steps: float
    _: KW_ONLY
    end: float = 0.0

    def __call__(self, t: Variable) -> Variable:
        angle = ops.clip(t / self.steps, 0.0, 1.0) * math.pi
        return (ops.cos(angle) + 1.0) * (0.5 * (self.rate - self.end)) + self.end


@dataclass(frozen=True)
class Piecewise:
    """rates[i] up to and including step boundaries[i], the last rate after all boundaries.

    Steps are counted from 0, as in Keras's PiecewiseConstantDecay. PyTorch's
    MultiStepLR(milestones=[m]) has the next rate one step earlier: its m is the boundary m - 1.

    Args:
        boundaries: K numbers of steps, increasing.
        rates: K + 1 rates.

    Raises:
        ValueError: the number of rates is another, or boundaries do not increase.
    """

    boundaries: Sequence[float]
    rates: Sequence[float]

    def __post_init__(self) -> None:
        # steps inside a guard are found by what they depend on, which lists cannot be a key of
        object.__setattr__(self, "boundaries", tuple(self.boundaries))
        object.__setattr__(self, "rates", tuple(self.rates))
        if any(a >= b for a, b in pairwise(self.boundaries)):
            raise ValueError(f"Piecewise: boundaries increase, not {list(self.boundaries)}")
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

    Args:
        schedule: a schedule, or a number.
        steps: the number of steps until the full rate.
    """

    schedule: float | Callable[[Variable], Variable]
    steps: float

    def __call__(self, t: Variable) -> Variable:
        rate = self.schedule(t) if callable(self.schedule) else self.schedule
        return ops.minimum(t / self.steps, 1.0) * rate


@dataclass(frozen=True)
class CosineRestarts:
    """CosineDecay from rate to end that begins anew after its period (Loshchilov & Hutter 2017).

    The first period has `steps` steps, each further one `factor` times as many as that before it.

    Args:
        rate: the rate at the start of each period.
        steps: the number of steps of the first period.
        factor: how many times as long the next period is.
        end: the rate at the end of each period.

    Raises:
        ValueError: `steps` or `factor` is no positive integer.
    """

    rate: float
    steps: int
    factor: int = 1
    _: KW_ONLY
    end: float = 0.0

    def __post_init__(self) -> None:
        for name in ("steps", "factor"):
            n = getattr(self, name)
            if not isinstance(n, int) or n < 1:
                raise ValueError(f"CosineRestarts: {name} is a positive integer, not {n!r}")

    def __call__(self, t: Variable) -> Variable:
        if self.factor == 1:
            done = ops.floor(t / self.steps) * self.steps
            progress = (t - done) / self.steps
        else:
            # half a step more: where a period ends the logarithm may be below the whole number
            grown = (t + 0.5) * ((self.factor - 1) / self.steps) + 1.0
            number = ops.floor(ops.log(grown) / math.log(self.factor))
            ratio = ops.round(ops.exp(number * math.log(self.factor)))  # factor^number
            start = (ratio - 1.0) * (self.steps / (self.factor - 1))
            progress = ops.clip((t - start) / (ratio * self.steps), 0.0, 1.0)
        return (ops.cos(progress * math.pi) + 1.0) * (0.5 * (self.rate - self.end)) + self.end


@dataclass(frozen=True)
class OneCycle:
    """One cycle: up to `rate`, the largest, and down to almost nothing (Smith & Topin 2018).

    From rate / div_factor it rises over the share `pct_start` of all `steps`, and falls to
    rate / div_factor / final_div_factor, where it stays; `anneal` is `cos` or `linear`. These are
    the numbers of PyTorch's OneCycleLR, without its cycle of the momentum.

    Args:
        rate: the largest rate.
        steps: the number of steps of the cycle.
        pct_start: the share of steps that rise.
        anneal: "cos" or "linear".
        div_factor: the largest rate divided by the first.
        final_div_factor: the first rate divided by the last.

    Raises:
        ValueError: `anneal` is another, or the share is no rise of more than one step.
    """

    rate: float
    steps: int
    pct_start: float = 0.3
    anneal: Literal["cos", "linear"] = "cos"
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def __post_init__(self) -> None:
        if self.anneal not in ("cos", "linear"):
            raise ValueError(f"OneCycle: anneal is 'cos' or 'linear', not {self.anneal!r}")
        if not 1 < self.pct_start * self.steps < self.steps:
            raise ValueError(
                f"OneCycle: a share {self.pct_start} of {self.steps} steps is no rise of more than "
                "one step, with steps after it"
            )

    def __call__(self, t: Variable) -> Variable:
        start = self.rate / self.div_factor
        top, last = self.pct_start * self.steps - 1.0, self.steps - 1.0
        rising = self._between(start, self.rate, t / top)
        end = start / self.final_div_factor
        falling = self._between(self.rate, end, (t - top) / (last - top))
        return ops.where(t > top, falling, rising)

    def _between(self, start, end, share):
        share = ops.clip(share, 0.0, 1.0)
        if self.anneal == "cos":
            share = (1.0 - ops.cos(share * math.pi)) * 0.5
        return share * (end - start) + start


class ReduceOnPlateau:
    """A rate that is multiplied by `factor` when a number has not become better for long enough.

    `observe(number)`, such as the cost of a test, is called after each test or pass. After more
    than `patience` observations without an improvement the rate is reduced, to `least` at least,
    and the next `cooldown` ones do not count. An improvement is one of more than `threshold`, as a
    share of the best number; `mode` says whether less or more is better. The numbers are those of
    PyTorch's ReduceLROnPlateau. The rate and what was observed are state of the session, and so
    they are in its checkpoints. In a job of `pd.distributed` all ranks call `observe`, and the mean
    of their numbers counts.

    Args:
        rate: the rate at the start.
        factor: what the rate is multiplied by, within (0, 1).
        patience: the number of observations without an improvement that are tolerated.
        mode: "min" or "max": which numbers are better.
        threshold: the share of the best number that an improvement exceeds.
        cooldown: the number of observations after a reduction that do not count.
        least: the least rate.

    Raises:
        ValueError: `factor` or `mode` is none of these.
    """

    @whole
    def __init__(
        self,
        rate: float,
        factor: float = 0.1,
        patience: int = 10,
        mode: Literal["min", "max"] = "min",
        threshold: float = 1e-4,
        cooldown: int = 0,
        least: float = 0.0,
    ):
        if not 0 < factor < 1:
            raise ValueError(f"ReduceOnPlateau: the factor is within (0, 1), not {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceOnPlateau: mode is 'min' or 'max', not {mode!r}")
        self.factor, self.patience, self.mode = factor, patience, mode
        self.threshold, self.cooldown, self.least = threshold, cooldown, least
        name = names().next("plateau_", "")
        self._rate = state(f"{name}/rate", (), "float32", rate)
        worst = math.inf if mode == "min" else -math.inf
        self._best = state(f"{name}/best", (), "float64", worst)
        self._waited = state(f"{name}/waited", (), "int64")
        self._cooling = state(f"{name}/cooling", (), "int64")

    def __repr__(self) -> str:
        return with_settings(self)

    @property
    def rate(self) -> Variable:
        """The learning rate, a state of the session."""
        return self._rate

    @rate.setter
    def rate(self, value: Any) -> None:
        raise AttributeError(
            "ReduceOnPlateau: the rate is a Variable, which is not replaced\n"
            f"  hint: pd.default_session().set(schedule.rate, {value!r})"
        )

    def __call__(self, t: Variable) -> Variable:
        return self.rate

    def observe(self, number: float, session: Session | None = None) -> float:
        """Take the next number into account; return the rate from now on.

        Args:
            number: a number, such as the cost of a test.
            session: by default the session in force.

        Returns:
            The rate from now on, a float.
        """
        session = session or default_session()
        number = float(number)
        if session.observers.exchange is None:
            number = mean_over_processes(number)
        rate = float(session.get(self.rate))
        best = float(session.get(self._best))
        waited, cooling = int(session.get(self._waited)), int(session.get(self._cooling))
        if self._is_better(number, best):
            session.set(self._best, number)
            waited = 0
        else:
            waited += 1
        if cooling:
            cooling, waited = cooling - 1, 0
        if waited > self.patience:
            rate, cooling, waited = max(rate * self.factor, self.least), self.cooldown, 0
            session.set(self.rate, rate)
        session.set(self._waited, waited)
        session.set(self._cooling, cooling)
        return rate

    def _is_better(self, number, best):
        if self.mode == "min":
            return number < best * (1.0 - self.threshold)
        return number > best * (1.0 + self.threshold)
