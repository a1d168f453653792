"""Optimizers with a weight decay of their own, apart from the gradient."""

from dataclasses import dataclass

from .. import ops
from ..graph.variable import Variable
from .base import LearningRate, MomentsOptimizer, Optimizer
from .tracing import Changed, Counters, Rate, Slots


@dataclass(eq=False, repr=False)
class LionOptimizer(Optimizer):
    """Steps of one size along the sign of the momentum (Chen et al. 2023, algorithm 2).

    w := w - rate (sign(b1 m + (1-b1) g) + decay w); m := b2 m + (1-b2) g. The rate is usually 3 to
    10 times smaller than Adam's, and the weight decay as many times larger.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta1: share of the momentum in the direction of a step.
        beta2: decay of the momentum, in [0, 1).
        weight_decay: share of a parameter, times the learning rate, that each step subtracts from
            it.
    """

    learning_rate: LearningRate = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    slots = {"m": 0.0}
    group_settings = (*Optimizer.group_settings, "weight_decay")
    adjustable = ("weight_decay",)
    elementwise = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        direction = ops.sign(slots["m"] * self.beta1 + g * (1.0 - self.beta1))
        m = slots["m"] * self.beta2 + g * (1.0 - self.beta2)
        return w * (1.0 - rate * self.weight_decay) - direction * rate, {"m": m}


@dataclass(eq=False, repr=False)
class LAMBOptimizer(MomentsOptimizer):
    """Adam's direction, scaled for each parameter to its own norm (You et al. 2020, algorithm 2).

    With r = m' / (sqrt(v') + epsilon) + decay w, from the bias-corrected m' and v', a parameter
    changes by w := w - rate |w| / |r| r; by rate r where one of the norms is 0. For large batches.
    Of a `row_sparse` variable the norms are those of the gathered rows.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
        weight_decay: the `decay` of r.
    """

    epsilon: float = 1e-6
    weight_decay: float = 0.0

    group_settings = (*Optimizer.group_settings, "weight_decay")
    adjustable = ("weight_decay",)
    uses_norms = True

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        m = slots["m"] * self.beta1 + g * (1.0 - self.beta1)
        v = slots["v"] * self.beta2 + ops.square(g) * (1.0 - self.beta2)
        corrected = m / step["weight1"] / (ops.sqrt(v / step["weight2"]) + self.epsilon)
        direction = corrected + w * self.weight_decay
        norm, of_direction = (ops.sqrt(ops.reduce_sum(ops.square(x))) for x in (w, direction))
        one = ops.cast(1.0, w.dtype)
        is_zero = ops.equal(norm * of_direction, 0.0)
        ratio = ops.where(is_zero, one, norm / ops.where(is_zero, one, of_direction))
        return w - direction * (ratio * rate), {"m": m, "v": v}
