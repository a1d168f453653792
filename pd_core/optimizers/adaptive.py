"""Optimizers that scale each element of the gradient by what it was before.

As in `optimizers`, each rule is a pure function, and the class keeps its slots.
"""

from .. import ops
from ..graph.update import Assignment
from .base import AdamOptimizer, Optimizer, adam


def adagrad(w, g, rate, s, epsilon):
    """s := s + g²; w := w - rate g / sqrt(s + epsilon) (Duchi et al. 2011). Returns (w, s)."""
    s = s + ops.square(g)
    return w - g * rate / ops.sqrt(s + epsilon), s


def decayed_adagrad(w, g, rate, s, decay, epsilon):
    """s := d s + (1-d) g²; w := w - rate g / sqrt(s + epsilon). Returns (w, s)."""
    s = s * decay + ops.square(g) * (1.0 - decay)
    return w - g * rate / ops.sqrt(s + epsilon), s


def rmsprop(w, g, rate, s, mean, velocity, decay, mu, epsilon, centered):
    """s := d s + (1-d) g²; v := mu v + rate g / (sqrt(s) + epsilon); w := w - v.

    `centered` takes the variance s - m² in the place of s, with m := d m + (1-d) g
    (Hinton 2012; Graves 2013, eqs. 38-42). Returns (w, s, mean, velocity), None where unused.
    """
    s = s * decay + ops.square(g) * (1.0 - decay)
    spread = s
    if centered:
        mean = mean * decay + g * (1.0 - decay)
        spread = s - ops.square(mean)
    change = g * rate / (ops.sqrt(spread) + epsilon)
    if mu:
        change = velocity = velocity * mu + change
    return w - change, s, mean, velocity


def adadelta(w, g, rate, s, e, decay, epsilon):
    """s := d s + (1-d) g²; u = g sqrt((e + eps) / (s + eps)); e := d e + (1-d) u².

    w := w - rate u (Zeiler 2012, algorithm 1). Returns (w, s, e).
    """
    s = s * decay + ops.square(g) * (1.0 - decay)
    change = g * ops.sqrt((e + epsilon) / (s + epsilon))
    return w - change * rate, s, e * decay + ops.square(change) * (1.0 - decay)


def adamax(w, g, rate, m, u, beta1, beta2, epsilon):
    """m := b1 m + (1-b1) g; u := max(b2 u, |g| + epsilon); w := w - rate m / u.

    `rate` holds 1 / (1 - b1^t) already (Kingma & Ba 2015, algorithm 2). Returns (w, m, u).
    """
    m = m * beta1 + g * (1.0 - beta1)
    u = ops.maximum(u * beta2, ops.abs(g) + epsilon)
    return w - m * rate / u, m, u


class AdaGradOptimizer(Optimizer):
    """AdaGrad (Duchi et al. 2011)."""

    def __init__(self, learning_rate=0.01, epsilon=1e-6, regularizer=None, clip=None):
        super().__init__(learning_rate, regularizer, clip)
        self.epsilon = epsilon

    def step(self, w, g, rate):
        s = self.slot("squares")
        return _pairs((w, s), adagrad(w, g, rate, s, self.epsilon))


class DecayedAdaGradOptimizer(Optimizer):
    """AdaGrad that forgets: a running mean of squares in the place of their sum."""

    def __init__(self, learning_rate=0.01, decay=0.95, epsilon=1e-6, regularizer=None, clip=None):
        super().__init__(learning_rate, regularizer, clip)
        self.decay, self.epsilon = decay, epsilon

    def step(self, w, g, rate):
        s = self.slot("squares")
        return _pairs((w, s), decayed_adagrad(w, g, rate, s, self.decay, self.epsilon))


class RMSPropOptimizer(Optimizer):
    """RMSProp (Hinton 2012), with momentum and centred (Graves 2013) on request."""

    def __init__(
        self,
        learning_rate=0.01,
        decay=0.99,
        epsilon=1e-8,
        momentum=0.0,
        centered=False,
        regularizer=None,
        clip=None,
    ):
        super().__init__(learning_rate, regularizer, clip)
        self.decay, self.epsilon = decay, epsilon
        self.momentum, self.centered = momentum, centered

    def step(self, w, g, rate):
        s = self.slot("squares")
        mean = self.slot("mean") if self.centered else None
        velocity = self.slot("velocity") if self.momentum else None
        settings = self.decay, self.momentum, self.epsilon, self.centered
        return _pairs((w, s, mean, velocity), rmsprop(w, g, rate, s, mean, velocity, *settings))


class AdaDeltaOptimizer(Optimizer):
    """AdaDelta (Zeiler 2012)."""

    def __init__(self, learning_rate=1.0, decay=0.95, epsilon=1e-6, regularizer=None, clip=None):
        super().__init__(learning_rate, regularizer, clip)
        self.decay, self.epsilon = decay, epsilon

    def step(self, w, g, rate):
        s, e = self.slot("squares"), self.slot("changes")
        return _pairs((w, s, e), adadelta(w, g, rate, s, e, self.decay, self.epsilon))


class AdamWOptimizer(AdamOptimizer):
    """Adam with decoupled weight decay: w := w - learning rate * decay * w beside Adam's step.

    (Loshchilov & Hutter 2019, algorithm 2.)
    """

    def __init__(self, learning_rate=0.001, weight_decay=0.01, **settings):
        super().__init__(learning_rate, **settings)
        self.weight_decay = weight_decay

    def step(self, w, g, rate):
        m, v = self.slot("m"), self.slot("v")
        decayed = w * (1.0 - rate * self.weight_decay)
        settings = self.beta1, self.beta2, self.epsilon
        return _pairs((w, m, v), adam(decayed, g, self._correction * rate, m, v, *settings))


class AdamaxOptimizer(Optimizer):
    """Adamax (Kingma & Ba 2015, section 7.1)."""

    def __init__(
        self,
        learning_rate=0.002,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        regularizer=None,
        clip=None,
    ):
        super().__init__(learning_rate, regularizer, clip)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def begin(self):
        weight = self.scalar("weight", 0.0)  # 1 - beta1^t, as a sum
        new = weight * self.beta1 + (1.0 - self.beta1)
        self._correction = 1.0 / new
        return [Assignment(weight, new)]

    def step(self, w, g, rate):
        m, u = self.slot("m"), self.slot("u")
        rate = self._correction * rate
        new = adamax(w, g, rate, m, u, self.beta1, self.beta2, self.epsilon)
        return _pairs((w, m, u), new)


def _pairs(variables, values):
    """(variable, new value) pairs of the slots that are in use."""
    return [(v, new) for v, new in zip(variables, values, strict=True) if v is not None]
