"""Averages of parameters over the steps of training, for evaluation or export."""

from collections.abc import Iterator
from contextlib import contextmanager

from .. import ops
from ..graph.names import names
from ..graph.update import Assignment, Update
from ..graph.variable import Variable
from ..run.session import Session, default_session
from .tracing import state


class MovingAverage:
    """Exponential moving averages: a := decay a + (1 - decay) w after every step.

    `follow(step)` returns a step that also updates the averages; `with average.applied():` sets the
    parameters to their averages and restores them at the end. An average is divided by its weight,
    1 - decay^steps, which corrects the bias of the start from zero. A `row_sparse` variable is
    averaged as a whole, at the cost of its full size.
    """

    def __init__(self, decay: float = 0.99):
        if not 0 < decay < 1:
            raise ValueError(f"MovingAverage: the decay is within (0, 1), not {decay}")
        self.decay = decay
        self.averages: dict[Variable, Variable] = {}
        self.weight: Variable | None = None

    def follow(self, step: Update) -> Update:
        """Return a step that also updates the averages of the trainable variables it changes."""
        name = names().next("average_", "")
        self.weight = state(name + "/weight", (), "float32")
        added = [Assignment(self.weight, self._updated(self.weight, 1.0))]
        for a in step.assignments:
            if a.owner is a.variable:
                v = a.variable
                average = state(f"{name}/{v.name}", v.dims, v.dtype, table=v.table)
                self.averages[v] = average
                added.append(Assignment(average, self._updated(average, a.value), owner=v))
        if step.is_due is not None:  # accumulated gradients: the others change no parameter
            added = [
                Assignment(a.variable, ops.where(step.is_due, a.value, a.variable), owner=a.owner)
                for a in added
            ]
        return step.including(added)

    @contextmanager
    def applied(self, session: Session | None = None) -> Iterator[None]:
        """Set the parameters to their averages for the length of a `with`."""
        session = session or default_session()
        values = {v: session.get(v) for v in self.averages}
        weight = float(session.get(self.weight)) if self.weight is not None else 0.0
        for v, average in self.averages.items():
            if weight:
                session.set(v, session.get(average) / weight)
        try:
            yield
        finally:
            session.load_values(values)

    def _updated(self, average, value):
        return average * self.decay + value * (1.0 - self.decay)
