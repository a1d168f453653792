"""Adam with Nesterov's momentum, and with a rectified learning rate."""

import math
from dataclasses import dataclass

from .. import ops
from ..graph.variable import Variable
from .base import LearningRate, MomentsOptimizer
from .tracing import Changed, Counters, Rate, Slots


@dataclass(eq=False, repr=False)
class NAdamOptimizer(MomentsOptimizer):
    """Adam with Nesterov's momentum (Dozat 2016).

    The momentum of step t is mu_t = beta1 (1 - 0.96^(t decay) / 2). With p_t = mu_1 ... mu_t,

        w := w - rate (mu_{t+1} m / (1 - p_{t+1}) + (1 - mu_t) g / (1 - p_t))
                 / (sqrt(v / (1 - beta2^t)) + epsilon)

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
        momentum_decay: the `decay` of mu_t.
    """

    learning_rate: LearningRate = 0.002
    momentum_decay: float = 0.004

    counters = {"steps": 0.0, "product": 1.0, "weight2": 0.0}
    elementwise = True

    def advance(self, counters: Counters) -> dict[str, Variable]:
        steps = counters["steps"] + 1.0
        return {
            "steps": steps,
            "product": counters["product"] * self._mu(steps),
            "weight2": counters["weight2"] * self.beta2 + (1.0 - self.beta2),
        }

    def _mu(self, steps):
        power = ops.exp(steps * (math.log(0.96) * self.momentum_decay))
        return (1.0 - power * 0.5) * self.beta1

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        m = slots["m"] * self.beta1 + g * (1.0 - self.beta1)
        v = slots["v"] * self.beta2 + ops.square(g) * (1.0 - self.beta2)
        now, following = self._mu(step["steps"]), self._mu(step["steps"] + 1.0)
        of_gradient = (1.0 - now) / (1.0 - step["product"]) * rate
        of_mean = following / (1.0 - step["product"] * following) * rate
        change = m * of_mean + g * of_gradient
        return w - change / (ops.sqrt(v / step["weight2"]) + self.epsilon), {"m": m, "v": v}


@dataclass(eq=False, repr=False)
class RAdamOptimizer(MomentsOptimizer):
    """Adam with a rectified learning rate (Liu et al. 2020, algorithm 2).

    While the length rho_t of the running mean of squares is at most 5, in the first steps,
    w := w - rate m / (1 - beta1^t); Adam's step times the rectification r_t afterwards.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
    """

    # Sums of positive terms, since float32 loses the small rho_t in the paper's difference of
    # rho_inf and 2 t b^t / (1 - b^t). With b = beta2, rho_t is length / weight2:
    #   sum_t = b sum_{t-1} + 1 = (1 - b^t) / (1 - b), rho_t sum_t = b (...) + 1 + 2 b sum_{t-1}
    counters = {"weight1": 0.0, "weight2": 0.0, "length": 0.0}
    elementwise = True

    def advance(self, counters: Counters) -> dict[str, Variable]:
        b, weight2 = self.beta2, counters["weight2"]
        # times 1 - b
        length = counters["length"] * b + (1.0 - b) + weight2 * (2.0 * b)
        return {**super().advance(counters), "length": length}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        m = slots["m"] * self.beta1 + g * (1.0 - self.beta1)
        v = slots["v"] * self.beta2 + ops.square(g) * (1.0 - self.beta2)
        limit = (1.0 + self.beta2) / (1.0 - self.beta2)  # rho_inf
        rho = step["length"] / step["weight2"]
        is_rectified = rho > 5.0
        # the factor of steps that are not rectified is unused: any positive rho will do
        rho = ops.where(is_rectified, rho, ops.cast(5.0, rho.dtype))
        factor = (rho - 4.0) * (rho - 2.0) * (limit / ((limit - 4.0) * (limit - 2.0))) / rho
        adapted = ops.sqrt(factor * step["weight2"]) / (ops.sqrt(v) + self.epsilon)
        change = m * (1.0 / step["weight1"] * rate)
        return w - ops.where(is_rectified, change * adapted, change), {"m": m, "v": v}
