"""Optimizers: pure functions of gradients and parameters, and thin classes that keep their slots.

A rule is written as `new slots and parameter = f(parameter, gradient, rate, slots)`; the class
makes the slots, which are persistent variables named after the optimizer and the parameter.
"""

import numpy as np

from .. import ops
from ..graph.errors import GraphError
from ..graph.initializers import Constant
from ..graph.names import adopt, names
from ..graph.node import ancestors
from ..graph.update import Assignment, Update, effects
from ..graph.variable import Variable
from .regularizers import ClipGlobalNorm
from .row_sparse import gradients_by_rows, split


def sgd(w, g, rate):
    """w := w - rate g."""
    return w - g * rate


def momentum(w, g, rate, velocity, mu, nesterov=False):
    """v := mu v - rate g; w := w + v (Polyak 1964), or w + mu v - rate g (Nesterov).

    Returns (w, v).
    """
    scaled = g * rate
    v = velocity * mu - scaled
    return (w + v * mu - scaled if nesterov else w + v), v


def adam(w, g, rate, m, v, beta1, beta2, epsilon):
    """m := b1 m + (1-b1) g; v := b2 v + (1-b2) g²; w := w - rate m / (sqrt(v) + epsilon).

    `rate` holds the bias correction already: learning rate * sqrt(1 - b2^t) / (1 - b1^t)
    (Kingma & Ba 2015, the efficient form at the end of section 2). Returns (w, m, v).
    """
    m = m * beta1 + g * (1.0 - beta1)
    v = v * beta2 + ops.square(g) * (1.0 - beta2)
    return w - m * rate / (ops.sqrt(v) + epsilon), m, v


def state(name, dims, dtype, value=0.0) -> Variable:
    """Persistent state that no user named, under a full name; every element starts as `value`.

    It is the caller's: name and value are gone when the last Update that uses it is.
    """
    return adopt(Variable.of(dims, dtype, name, fill=Constant(value)), weak=True)


class Optimizer:
    """What all optimizers share: which variables, their gradients, and the update as a target.

    `learning_rate` is a number, a scalar Variable or one of `schedules`, multiplied by each
    variable's own `learning_rate`. `regularizer` and `clip` are functions (gradient, parameter) ->
    gradient; a `clip` such as ClipGlobalNorm sees all gradients of the update together.

    Of a `row_sparse` variable only the rows that the step gathered are updated, penalised and
    clipped: wherever a rule says parameter, gradient or slot, it then means these rows.
    """

    def __init__(self, learning_rate, regularizer=None, clip=None):
        self.learning_rate = learning_rate
        self.regularizer, self.clip = regularizer, clip

    def minimize(self, cost, var_list=None) -> Update:
        """An Update that takes one step; evaluate it. Several costs in a list are summed.

        Without `var_list` it covers every parameter behind the cost, trainable or not at this
        moment: `trainable` is looked at when the step is evaluated, and a frozen variable keeps
        its value and its slots. Every call makes an optimizer state of its own.
        """
        costs = list(cost) if isinstance(cost, (list, tuple)) else [cost]
        own = effects(costs)
        variables = self._parameters(costs, own) if var_list is None else var_list
        variables = list(dict.fromkeys(variables))
        found = gradients_by_rows(costs, variables)
        pairs = [(v, g) for v, g in zip(variables, found, strict=True) if g is not None]
        if not pairs:
            raise GraphError(f"minimize: {costs} depend on none of {variables}")
        return self.update(pairs).including(own)

    def update(self, pairs) -> Update:
        """An Update from (parameter, gradient) pairs; a gradient may be a RowGradient."""
        self.name = names().next(type(self).__name__.lower() + "_", "")
        self.base_rate, assignments = self._scheduled()
        assignments += self.begin()
        for part, g in self._clipped([split(w, g) for w, g in pairs]):
            assignments += self._stepped(part, g)
        return Update(assignments, training=True)

    def _stepped(self, part, g):
        """Assignments of a step of one parameter."""
        self.part, parameter = part, part.parameter
        w, penalty = part.read(parameter), parameter.regularizer or self.regularizer
        g = g if penalty is None else penalty(g, w)
        new = self.step(w, g, self.rate(parameter))
        return [Assignment(*part.written(v, value), owner=parameter) for v, value in new]

    def _scheduled(self):
        """The rate before each variable's own factor, and what a schedule stores."""
        if isinstance(self.learning_rate, Variable) or not callable(self.learning_rate):
            return self.learning_rate, []
        steps = self.scalar("steps", 0.0)
        return self.learning_rate(steps), [Assignment(steps, steps + 1.0)]

    def _clipped(self, pairs):
        """(part, gradient) pairs after clipping; a variable's own clip comes first."""
        together = isinstance(self.clip, ClipGlobalNorm)
        each = None if together else self.clip
        clips = [part.parameter.clip or each for part, _ in pairs]
        pairs = [
            (part, g if fn is None else fn(g, part.read(part.parameter)))
            for (part, g), fn in zip(pairs, clips, strict=True)
        ]
        return self.clip.together(pairs) if together else pairs

    def begin(self):
        """Assignments that a step makes once, before those of the parameters."""
        return ()

    def step(self, w, g, rate):
        """(what was read, its new value) pairs for one parameter w and its slots."""
        raise TypeError(f"{type(self).__name__} does not say how it steps")

    def rate(self, w):
        """The learning rate of one parameter."""
        own = w.learning_rate
        return self.base_rate if own == 1.0 else self.base_rate * own

    def slot(self, kind, value=0.0):
        """State of the parameter at hand, of its shape, which belongs to this optimizer."""
        w = self.part.parameter
        return self.part.read(state(f"{self.name}/{w.name}/{kind}", w.dims, w.dtype, value))

    def scalar(self, kind, value):
        """A persistent float32 scalar of this optimizer."""
        return state(f"{self.name}/{kind}", (), np.float32, value)

    def _parameters(self, costs, own):
        """Float state behind the costs that no training step sets by itself."""
        inputs = [x for node in ancestors(costs) for x in node.inputs if x is not None] + costs
        own = {a.variable for a in own}
        found = dict.fromkeys(x for x in inputs if x.is_persistent and x.dtype.kind == "f")
        found = [v for v in found if v not in own]
        if not found:
            raise GraphError(f"minimize: there are no parameters behind {costs}")
        return found


class SGDOptimizer(Optimizer):
    """Stochastic gradient descent."""

    def __init__(self, learning_rate=0.01, regularizer=None, clip=None):
        super().__init__(learning_rate, regularizer, clip)

    def step(self, w, g, rate):
        return [(w, sgd(w, g, rate))]


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum, Nesterov's on request."""

    def __init__(
        self, learning_rate=0.01, momentum=0.9, nesterov=False, regularizer=None, clip=None
    ):
        super().__init__(learning_rate, regularizer, clip)
        self.momentum, self.nesterov = momentum, nesterov

    def step(self, w, g, rate):
        velocity = self.slot("velocity")
        new_w, new_v = momentum(w, g, rate, velocity, self.momentum, self.nesterov)
        return [(w, new_w), (velocity, new_v)]


class AdamOptimizer(Optimizer):
    """Adam (Kingma & Ba 2015). The step count is the optimizer's, not each variable's."""

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        regularizer=None,
        clip=None,
    ):
        super().__init__(learning_rate, regularizer, clip)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def begin(self):
        # 1 - beta^t as sums: float32 has few digits of the difference between 1 and 0.999
        first, second = self.scalar("weight1", 0.0), self.scalar("weight2", 0.0)
        new1 = first * self.beta1 + (1.0 - self.beta1)
        new2 = second * self.beta2 + (1.0 - self.beta2)
        self._correction = ops.sqrt(new2) / new1
        return [Assignment(first, new1), Assignment(second, new2)]

    def step(self, w, g, rate):
        m, v = self.slot("m"), self.slot("v")
        rate = self._correction * rate
        new_w, new_m, new_v = adam(w, g, rate, m, v, self.beta1, self.beta2, self.epsilon)
        return [(w, new_w), (m, new_m), (v, new_v)]
