"""The methods of 2017, each with its own formula.

In all of them g is the gradient summed over the batch, after pruning and clipping, a the learning
rate times the parameter's, k its momentum and L its weight decay. k reaches all methods but Adam
and Adamax, and so does L.
"""

import math

import numpy as np

import pd_core as pd
from pd_core.graph.update import Assignment

from .settings import Optimizer


class _Method(Optimizer):
    """Formulas: `move(step)` gives (new w, the elementwise scale of the rate or None)."""

    scheduled = penalty_scheduled = True  # whether the schedule reaches step and penalties
    decays = True  # whether L is part of the formula

    def begin(self, rule):
        """Assignments that a step makes once, before those of the parameters."""
        return ()


class Momentum(_Method):
    """v := k v - a (g + L w); w := w + v. Without `momentum` plain gradient descent.

    With `sparse`, rows of a `sparse_update` parameter that no batch touched for a while are first
    moved as far as their momentum would have taken them.
    """

    method = "momentum"
    buffers = ("momentum",)

    def __init__(self, momentum=None, sparse=False, **kwargs):
        super().__init__(**kwargs)
        self.defaults["momentum"] = momentum
        self.sparse = sparse
        self.method = "sparse_momentum" if sparse else "momentum"

    def move(self, step):
        k = step.config.momentum
        if self.sparse and step.is_rows and k:
            return _caught_up(step, k), None
        return _descended(step), None


def _descended(step, scale=None):
    """v := k v - a q (g + L w); w := w + v, where q is the scale of the method, if it has one."""
    g, k = step.g, step.config.momentum
    g = g + step.w * step.decay if step.decay else g
    change = g * step.rate
    change = change if scale is None else change * scale
    if not k:
        return step.w - change
    velocity = step.slot("momentum")
    return step.w + step.store(velocity, velocity * k - change)


def _caught_up(step, k):
    """Momentum of rows as if every batch had moved them.

    2017 kept w as a combination of two sums whose weights grow like 1/k^t, and began anew when
    they exceeded 10^6: a row not touched since then keeps its place, and its velocity shrinks.
    """
    velocity, touched = step.slot("momentum"), step.touched
    finished = step.rule.batch - 1
    since = touched
    if k < 1.0:
        period = math.floor(6.0 / -math.log10(k)) + 1
        since = pd.maximum(touched, finished // period * period)
    resting, moving = (pd.cast(n, np.float32) for n in (since - touched, finished - since))
    v = velocity * _power(k, resting)
    fading = _power(k, moving)
    path = moving if k == 1.0 else (1.0 - fading) * (k / (1.0 - k))
    w = step.w + v * path
    return w + step.store(velocity, v * fading * k - step.g * step.rate)


def _power(base, exponent):
    return pd.pow(pd.constant(np.float32(base)), exponent)


class Adam(_Method):
    """Adam with the epsilon outside the root; L and k do not reach it, as in 2017.

    Rows of a `sparse_update` parameter are updated when they are touched, which 2017 refused.
    """

    method = "adam"
    buffers = ("m", "v")
    penalty_scheduled = decays = False

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def describe(self, config):
        config.adam_beta1, config.adam_beta2 = self.beta1, self.beta2
        config.adam_epsilon = self.epsilon

    def begin(self, rule):
        """1 - beta^t, one step further; what corrects the rate for them.

        Not the powers themselves: float32 has few digits of the difference between 1 and 0.999.
        """
        first, new1 = _weight(rule, "weight1", self.beta1)
        second, new2 = _weight(rule, "weight2", self.beta2)
        rule.correction = pd.sqrt(new2) / new1
        return [Assignment(first, new1), Assignment(second, new2)]

    def move(self, step):
        m, v = step.slot("m"), step.slot("v")
        rate = step.rule.correction * step.rate
        settings = self.beta1, self.beta2, self.epsilon
        w, new_m, new_v = pd.optimizers.adam(step.w, step.g, rate, m, v, *settings)
        step.store(m, new_m)
        step.store(v, new_v)
        return w, None


def _weight(rule, kind, beta):
    """(the sum of the weights in a running mean, its value after this step)."""
    weight = rule.scalar(kind, 0.0)
    return weight, weight * beta + (1.0 - beta)


class Adamax(_Method):
    """m as in Adam; u := max(b2 u, |g|); w := w - a / (1 - b1^t) m / u, where u = 0 moves nothing.

    No schedule, L or k reaches it, as in 2017; rows are updated as in Adam.
    """

    method = "adamax"
    buffers = ("m", "u")
    scheduled = penalty_scheduled = decays = False

    def __init__(self, beta1=0.9, beta2=0.999, **kwargs):
        super().__init__(**kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def describe(self, config):
        config.adam_beta1, config.adam_beta2 = self.beta1, self.beta2

    def begin(self, rule):
        weight, new = _weight(rule, "weight1", self.beta1)
        rule.correction = 1.0 / new
        return [Assignment(weight, new)]

    def move(self, step):
        m, u, g = step.slot("m"), step.slot("u"), step.g
        new_m = step.store(m, m * self.beta1 + g * (1.0 - self.beta1))
        new_u = step.store(u, pd.maximum(u * self.beta2, pd.abs(g)))
        ratio = new_m / pd.where(new_u > 0.0, new_u, 1.0)
        return step.w - ratio * (step.rule.correction * step.rate), None


class _Scaled(_Method):
    """v := k v - a q (g + L w); w := w + v, with an elementwise q: `scale(step)`."""

    def move(self, step):
        q = self.scale(step)
        return _descended(step, q), q


class AdaGrad(_Scaled):
    """s := s + g²; q = 1 / sqrt(s + 1e-6). The schedule does not reach it, as in 2017."""

    method = "adagrad"
    buffers = ("momentum", "squares")
    scheduled = penalty_scheduled = False

    def describe(self, config):
        config.ada_epsilon = 1e-6

    def scale(self, step):
        squares = step.slot("squares")
        return 1.0 / pd.sqrt(step.store(squares, squares + pd.square(step.g)) + 1e-6)


class _Decaying(_Scaled):
    """Methods with a running mean of squares, of which rho is kept at every step."""

    def __init__(self, rho=0.95, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def describe(self, config):
        config.ada_rou, config.ada_epsilon = self.rho, self.epsilon

    def squares(self, step):
        """s := rho s + (1 - rho) g², the first g² counting in full; (s, what is kept of a mean).

        Rows keep rho for each batch since they were last touched, and each has its own first.
        """
        squares, kept = step.slot("squares"), self.rho
        if step.is_rows:
            batches = pd.cast(step.rule.batch - step.touched, np.float32)
            kept, again = _power(self.rho, batches), step.touched > 0
        else:
            again = step.rule.batch > 1
        share = pd.where(again, np.float32(1.0 - self.rho), np.float32(1.0))
        return step.store(squares, squares * kept + pd.square(step.g) * share), kept


class DecayedAdaGrad(_Decaying):
    """s := rho s + (1 - rho) g², of the first batch g² in full; q = 1 / sqrt(s + epsilon)."""

    method = "decayed_adagrad"
    buffers = ("momentum", "squares")

    def scale(self, step):
        squares, _ = self.squares(step)
        return 1.0 / pd.sqrt(squares + self.epsilon)


class RMSProp(_Decaying):
    """s as in DecayedAdaGrad; f := rho f + (1 - rho) g; q = 1 / sqrt(s - f² + epsilon)."""

    method = "rmsprop"
    buffers = ("momentum", "squares", "mean")

    def scale(self, step):
        squares, kept = self.squares(step)
        mean = step.slot("mean")
        new = step.store(mean, mean * kept + step.g * (1.0 - self.rho))
        return 1.0 / pd.sqrt(squares - pd.square(new) + self.epsilon)


class AdaDelta(_Decaying):
    """s := rho s + (1 - rho) g²; q = sqrt((e + epsilon) / (s + epsilon)).

    e := rho e + (1 - rho) (g q)² follows q. The learning rate multiplies all of it. Rows of a
    `sparse_update` parameter are updated when they are touched, which 2017 refused.
    """

    method = "adadelta"
    buffers = ("momentum", "squares", "changes")

    def scale(self, step):
        s, e, rho = step.slot("squares"), step.slot("changes"), self.rho
        new = step.store(s, s * rho + pd.square(step.g) * (1.0 - rho))
        q = pd.sqrt((e + self.epsilon) / (new + self.epsilon))
        step.store(e, e * rho + pd.square(step.g * q) * (1.0 - rho))
        return q
