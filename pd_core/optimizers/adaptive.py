"""Optimizers that scale each element of the gradient by a running mean of its squares."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from .. import ops
from ..graph.variable import MaybeNone, Variable
from .base import AdamOptimizer, LearningRate, Optimizer
from .tracing import Changed, Counters, Rate, Slots


def adagrad(
    w: Variable, g: Variable, rate: Rate, s: Variable, epsilon: float
) -> tuple[Variable, Variable]:
    """s := s + g²; w := w - rate g / sqrt(s + epsilon) (Duchi et al. 2011). Returns (w, s)."""
    s = s + ops.square(g)
    return w - g * rate / ops.sqrt(s + epsilon), s


def decayed_adagrad(
    w: Variable, g: Variable, rate: Rate, s: Variable, decay: float, epsilon: float
) -> tuple[Variable, Variable]:
    """s := d s + (1-d) g²; w := w - rate g / sqrt(s + epsilon). Returns (w, s)."""
    s = s * decay + ops.square(g) * (1.0 - decay)
    return w - g * rate / ops.sqrt(s + epsilon), s


def rmsprop(
    w: Variable,
    g: Variable,
    rate: Rate,
    s: Variable,
    mean: Variable | MaybeNone,
    velocity: Variable | MaybeNone,
    decay: float,
    mu: float,
    epsilon: float,
    centered: bool,
    rate_in_velocity: bool,
) -> tuple[Variable, Variable, Variable | None, Variable | None]:
    """s := d s + (1-d) g²; v := mu v + rate g / (sqrt(s) + epsilon); w := w - v.

    `centered` divides by the root of the variance s - m² instead, with m := d m + (1-d) g
    (Hinton 2012; Graves 2013, eqs. 38-42). Without `rate_in_velocity` the rate multiplies v, as in
    PyTorch. Returns (w, s, mean, velocity), None where unused.
    """
    s = s * decay + ops.square(g) * (1.0 - decay)
    variance = s
    if centered:
        mean = mean * decay + g * (1.0 - decay)
        variance = s - ops.square(mean)
    root = ops.sqrt(variance) + epsilon
    if mu and not rate_in_velocity:
        velocity = velocity * mu + g / root
        return w - velocity * rate, s, mean, velocity
    change = g * rate / root
    if mu:
        change = velocity = velocity * mu + change
    return w - change, s, mean, velocity


def adadelta(
    w: Variable, g: Variable, rate: Rate, s: Variable, e: Variable, decay: float, epsilon: float
) -> tuple[Variable, Variable, Variable]:
    """s := d s + (1-d) g²; u = g sqrt((e + eps) / (s + eps)); e := d e + (1-d) u².

    w := w - rate u (Zeiler 2012, algorithm 1). Returns (w, s, e).
    """
    s = s * decay + ops.square(g) * (1.0 - decay)
    change = g * ops.sqrt((e + epsilon) / (s + epsilon))
    return w - change * rate, s, e * decay + ops.square(change) * (1.0 - decay)


def adamax(
    w: Variable,
    g: Variable,
    rate: Rate,
    m: Variable,
    u: Variable,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Variable, Variable, Variable]:
    """m := b1 m + (1-b1) g; u := max(b2 u, |g| + epsilon); w := w - rate m / u.

    `rate` includes the bias correction 1 / (1 - b1^t) already (Kingma & Ba 2015, algorithm 2).
    Returns (w, m, u).
    """
    m = m * beta1 + g * (1.0 - beta1)
    u = ops.maximum(u * beta2, ops.abs(g) + epsilon)
    return w - m * rate / u, m, u


@dataclass(eq=False, repr=False)
class AdaGradOptimizer(Optimizer):
    """AdaGrad (Duchi et al. 2011).

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        epsilon: a number above 0 that keeps the divisor from being 0.
    """

    learning_rate: LearningRate = 0.01
    _: KW_ONLY
    epsilon: float = 1e-6

    slots = {"squares": 0.0}
    elementwise = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        w, squares = adagrad(w, g, rate, slots["squares"], self.epsilon)
        return w, {"squares": squares}


@dataclass(eq=False, repr=False)
class DecayedAdaGradOptimizer(Optimizer):
    """AdaGrad with a running mean of squared gradients instead of their sum.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        decay: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
    """

    learning_rate: LearningRate = 0.01
    decay: float = 0.95
    epsilon: float = 1e-6

    slots = {"squares": 0.0}
    elementwise = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        w, squares = decayed_adagrad(w, g, rate, slots["squares"], self.decay, self.epsilon)
        return w, {"squares": squares}


@dataclass(eq=False, repr=False)
class RMSPropOptimizer(Optimizer):
    """RMSProp (Hinton 2012), optionally with momentum and centred (Graves 2013).

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        decay: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
        momentum: the share of the last change that the next one keeps.
        centered: whether the variance of gradients divides, not their mean square.
        rate_in_velocity: with momentum, whether its state adds up changes; if not, the rate
            multiplies the state, see `MomentumOptimizer`.
    """

    learning_rate: LearningRate = 0.01
    decay: float = 0.99
    _: KW_ONLY
    epsilon: float = 1e-8
    momentum: float = 0.0
    centered: bool = False
    rate_in_velocity: bool = True

    elementwise = True

    @property
    def slots(self) -> dict[str, float]:  # type: ignore[override]
        """The state of each parameter, which depends on the settings."""
        used = {"squares": True, "mean": self.centered, self._velocity: bool(self.momentum)}
        return {slot: 0.0 for slot, is_used in used.items() if is_used}

    @property
    def _velocity(self) -> str:
        return "velocity" if self.rate_in_velocity else "momentum_buffer"

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        means = slots["squares"], slots.get("mean"), slots.get(self._velocity)
        numbers = self.decay, self.momentum, self.epsilon
        kinds = self.centered, self.rate_in_velocity
        w, squares, mean, velocity = rmsprop(w, g, rate, *means, *numbers, *kinds)
        after: dict[str, Any] = {"squares": squares, "mean": mean, self._velocity: velocity}
        return w, {name: after[name] for name in slots}


@dataclass(eq=False, repr=False)
class AdaDeltaOptimizer(Optimizer):
    """AdaDelta (Zeiler 2012).

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        decay: decay of the means of squared gradients and changes, in [0, 1).
        epsilon: a number above 0, added to both means.
    """

    learning_rate: LearningRate = 1.0
    decay: float = 0.95
    epsilon: float = 1e-6

    slots = {"squares": 0.0, "changes": 0.0}
    elementwise = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        s, e = slots["squares"], slots["changes"]
        w, s, e = adadelta(w, g, rate, s, e, self.decay, self.epsilon)
        return w, {"squares": s, "changes": e}


@dataclass(eq=False, repr=False)
class AdamWOptimizer(AdamOptimizer):
    """Adam with decoupled weight decay: w := w - learning rate * decay * w, then Adam's step.

    (Loshchilov & Hutter 2019, algorithm 2.)

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        weight_decay: share of a parameter, times the learning rate, that each step subtracts from
            it.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
        amsgrad: whether the largest mean of squared gradients divides, see `AdamOptimizer`.
    """

    weight_decay: float = 0.01
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    group_settings = (*Optimizer.group_settings, "weight_decay")
    adjustable: ClassVar[Sequence[str]] = ("weight_decay",)
    elementwise = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        decayed = w * (1.0 - rate * self.weight_decay)
        return super().rule(decayed, g, slots, rate, step)


@dataclass(eq=False, repr=False)
class AdamaxOptimizer(Optimizer):
    """Adamax (Kingma & Ba 2015, section 7.1).

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the largest gradient, in [0, 1).
        epsilon: a number above 0, added to |g|.
    """

    learning_rate: LearningRate = 0.002
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    slots = {"m": 0.0, "u": 0.0}
    counters = {"weight": 0.0}  # 1 - beta1^t, as a running sum
    elementwise = True

    def advance(self, counters: Counters) -> dict[str, Variable]:
        return {"weight": counters["weight"] * self.beta1 + (1.0 - self.beta1)}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        rate = 1.0 / step["weight"] * rate
        settings = self.beta1, self.beta2, self.epsilon
        w, m, u = adamax(w, g, rate, slots["m"], slots["u"], *settings)
        return w, {"m": m, "u": u}
