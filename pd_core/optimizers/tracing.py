"""Tracing an optimizer's rule over parameters: their slots, and the assignments of a step."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from ..graph.errors import GraphError
from ..graph.initializers import Constant
from ..graph.names import adopt, names
from ..graph.update import Assignment, Update
from ..graph.variable import Dims, Variable
from .regularizers import ClipGlobalNorm
from .row_sparse import Gradient, RowGradient, Whole, split


def state(name: str, dims: Dims, dtype: DTypeLike, value: float = 0.0) -> Variable:
    """Create persistent state that no user named, under a full name; all elements are `value`.

    It is the caller's: name and value are freed with the last Update that uses it.
    """
    return adopt(Variable.of(dims, dtype, name, fill=Constant(value)), weak=True)


class Tracing:
    """One update: the rule of an optimizer, traced over each of its parameters.

    `name` begins the names of all state that is made: `<name>/<parameter>/<slot>`.
    """

    def __init__(self, optimizer, name: str | None = None):
        self.optimizer = optimizer
        self.name = name or names().next(f"{self.kind()}_", "")

    def kind(self) -> str:
        """The stem of automatic names."""
        return type(self.optimizer).__name__.lower()

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Update:
        """Return the Update for (parameter, gradient) pairs; a gradient may be a RowGradient."""
        pairs = [(w, _exchangeable(g)) for w, g in pairs]
        rate, scheduled = self.scheduled()
        step, counted = self.counted()
        assignments = [*scheduled, *counted]
        for part, g in self.clipped([split(w, g) for w, g in pairs]):
            assignments += self.stepped(part, g, rate, step)
        gradients = [(w, (g.rows, g.values) if _is_rows(g) else g) for w, g in pairs]
        return Update(assignments, training=True, gradients=gradients)

    def scheduled(self) -> tuple[float | Variable, list[Assignment]]:
        """The rate before each parameter's own factor, and what a schedule stores."""
        rate = self.optimizer.learning_rate
        if isinstance(rate, Variable) or not callable(rate):
            return rate, []
        steps = self.scalar("steps")
        return rate(steps), [Assignment(steps, steps + 1.0)]

    def counted(self) -> tuple[Mapping[str, Variable], list[Assignment]]:
        """The counters of the optimizer after this step, and their assignments."""
        before = {name: self.scalar(name, at) for name, at in self.optimizer.counters.items()}
        after = self.optimizer.advance(before)
        self.check_names("advance", "counters", before, after)
        return after, [Assignment(before[name], new) for name, new in after.items()]

    def clipped(self, pairs):
        """(part, gradient) pairs after clipping; a parameter's own clip comes first."""
        clip = self.optimizer.clip
        together = isinstance(clip, ClipGlobalNorm)
        clips = [part.parameter.clip or (None if together else clip) for part, _ in pairs]
        pairs = [
            (part, g if fn is None else fn(g, part.read(part.parameter)))
            for (part, g), fn in zip(pairs, clips, strict=True)
        ]
        return clip.together(pairs) if together else pairs

    def stepped(self, part: Whole, g: Variable, rate, step) -> list[Assignment]:
        """The assignments of a step of one parameter, or of the rows of it that are concerned."""
        parameter, optimizer = part.parameter, self.optimizer
        w, penalty = part.read(parameter), parameter.regularizer or optimizer.regularizer
        g = g if penalty is None else penalty(g, w)
        slots = {name: self.slot(part, name, at) for name, at in optimizer.slots.items()}
        new_w, new = optimizer.rule(w, g, slots, self.rate(rate, parameter), step)
        self.check_names("rule", "slots", slots, new)
        values = [(w, new_w), *((slots[name], value) for name, value in new.items())]
        return [Assignment(*part.written(v, value), owner=parameter) for v, value in values]

    def check_names(self, method, what, before, after):
        """Check that a method returned what the class declares: the rest would never change."""
        if before.keys() != after.keys():
            owner = type(self.optimizer).__name__
            raise GraphError(
                f"{owner}.{method} returned {what} {sorted(after)}, {owner}.{what} are "
                f"{sorted(before)}"
            )

    def rate(self, rate, parameter: Variable):
        """The learning rate of one parameter."""
        own = parameter.learning_rate
        return rate if own == 1.0 else rate * own

    def slot(
        self,
        part: Whole,
        name: str,
        value: float = 0.0,
        dims: Dims | None = None,
        dtype: DTypeLike | None = None,
    ) -> Variable:
        """State of a parameter, of its shape and dtype unless given, as the step reads it."""
        w = part.parameter
        dims, dtype = w.dims if dims is None else dims, w.dtype if dtype is None else dtype
        return part.read(state(f"{self.name}/{w.name}/{name}", dims, dtype, value))

    def scalar(self, name: str, value: float = 0.0, dtype: DTypeLike = np.float32) -> Variable:
        """State of the update as a whole, a scalar."""
        return state(f"{self.name}/{name}", (), dtype, value)


def _is_rows(g):
    return isinstance(g, RowGradient)


def _exchangeable(g):
    """A gradient that is computed: a constant, or a variable itself, cannot be exchanged."""
    if _is_rows(g):
        return RowGradient(_computed(g.rows), _computed(g.values))
    return _computed(g)


def _computed(v):
    return ops.identity(v) if v.node is None else v
