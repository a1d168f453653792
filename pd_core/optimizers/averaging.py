"""Averages of parameters over the steps of training, to be evaluated or exported with."""

from contextlib import contextmanager

from ..graph.names import names
from ..graph.update import Assignment, Update
from ..run.session import default_session
from .tracing import state


class MovingAverage:
    """Exponential moving averages: a := decay a + (1 - decay) w after every step.

    `follow(step)` is the step with the averages beside it; `with average.applied():` puts the
    averages in the place of the parameters and takes them back at the end. What an average has
    seen so far is divided by its weight, 1 - decay^steps, so that the start from zero leaves no
    trace. A `row_sparse` variable is averaged as a whole, at the cost of its full size.
    """

    def __init__(self, decay=0.99):
        if not 0 < decay < 1:
            raise ValueError(f"MovingAverage: the decay is within (0, 1), not {decay}")
        self.decay = decay
        self.averages = {}
        self.weight = None

    def follow(self, step: Update) -> Update:
        """A step that also moves the averages of the trainable variables that it changes."""
        name = names().next("average_", "")
        self.weight = state(name + "/weight", (), "float32")
        added = [Assignment(self.weight, self._moved(self.weight, 1.0))]
        for a in step.assignments:
            if a.owner is a.variable:
                v = a.variable
                average = state(f"{name}/{v.name}", v.dims, v.dtype)
                self.averages[v] = average
                added.append(Assignment(average, self._moved(average, a.value), owner=v))
        return step.including(added)

    @contextmanager
    def applied(self, session=None):
        """The averages in the place of the parameters, for the length of a `with`."""
        session = session or default_session()
        kept = {v: session.get(v) for v in self.averages}
        weight = float(session.get(self.weight)) if self.weight is not None else 0.0
        for v, average in self.averages.items():
            if weight:
                session.set(v, session.get(average) / weight)
        try:
            yield
        finally:
            session.load_values(kept)

    def _moved(self, average, value):
        return average * self.decay + value * (1.0 - self.decay)
