"""Averages of parameters over the steps of training, for evaluation or export."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import ops
from ..graph.errors import GraphError
from ..graph.names import names, numbered
from ..graph.recording import not_recording
from ..graph.shown import with_settings
from ..graph.update import Assignment, Update
from ..graph.variable import Variable
from ..graph.whole import on_failure, whole
from ..run.session import Session, default_session
from .settings import Built
from .tracing import state


class MovingAverage(Built):
    """Exponential moving averages: a := decay a + (1 - decay) w after every step.

    `follow(step)` returns a step that also updates the averages; `record(parameters)` updates them
    after a step of any other kind. `with average.applied():` sets the parameters to their averages
    and restores them at the end. An average is divided by its weight, 1 - decay^steps, which
    corrects the bias of the start from zero. With `warmup` the decay of step t = 0, 1, ... is
    min(decay, (1 + t) / (10 + t)), so that the first, poor parameters are soon forgotten, as in
    TensorFlow. Without decay, None, it is the mean of all steps, as in stochastic weight averaging
    (Izmailov et al. 2018). After the first `start` steps only each `every`-th counts: with the
    number of batches in a pass, the parameters at the end of each pass. Before one has counted,
    `applied` leaves the parameters as they are. A `row_sparse` variable is averaged as a whole, at
    the cost of its full size. Averages are state of the session, and so they are in its
    checkpoints.

    Args:
        decay: a number within (0, 1), or None for the mean of all.
        warmup: whether the decay begins small.
        start: the number of steps before the first that counts.
        every: the number of steps from one that counts to the next.

    Raises:
        TypeError: `start` or `every` is no integer.
        ValueError: a number is outside of its range, or there is no decay to warm up.
    """

    def __init__(
        self, decay: float | None = 0.99, warmup: bool = False, start: int = 0, every: int = 1
    ):
        if decay is not None and not 0 < decay < 1:
            raise ValueError(f"MovingAverage: the decay is within (0, 1), not {decay}")
        if warmup and decay is None:
            raise ValueError("MovingAverage: there is no decay to warm up")
        for name, number, least in (("start", start, 0), ("every", every, 1)):
            if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
                raise TypeError(f"MovingAverage: {name} is a number of steps, not {number!r}")
            if number < least:
                raise ValueError(f"MovingAverage: {name} is at least {least}, not {number}")
        self.decay, self.warmup, self.start, self.every = decay, warmup, start, every
        self.averages: dict[Variable, Variable] = {}
        self.weight: Variable | None = None
        self._recording: Update | None = None
        self._numbered = numbered("average")

    def __repr__(self) -> str:
        return with_settings(self)

    def follow(self, step: Update) -> Update:
        """Return a step that also updates the averages of the trainable variables it changes.

        Args:
            step: an Update, such as `minimize` returns.

        Returns:
            An Update.
        """
        new = {a.variable: a.value for a in step.assignments if a.owner is a.variable}
        added = self._assignments(new)
        if step.is_due is not None:  # accumulated gradients: the others change no parameter
            added = _only_if(step.is_due, added)
        return step.including(added)

    def record(self, parameters: Iterable[Variable], session: Session | None = None) -> None:
        """Update the averages with the values that parameters have now.

        Once after each step inside `pd.guard()` or of a Module, always with the same parameters.

        Args:
            parameters: persistent float Variables.
            session: by default the session in force.

        Raises:
            GraphError: there are averages of other parameters already, or of a step that `follow`
                extends.
        """
        given = dict.fromkeys(parameters)
        create_averages(self, given)
        if self._recording is None or given.keys() != self.averages.keys():
            listed = ", ".join(w.name for w in self.averages)
            how = "follows a step" if self._recording is None else "was recorded before"
            raise GraphError(f"MovingAverage.record: the average of {listed} {how}")
        (session or default_session()).eval(self._recording)

    @whole
    def _assignments(self, new: Mapping[Variable, Variable]) -> list[Assignment]:
        """Create the averages; return the assignments of a step to these {parameter: value}."""
        name = names().next_of(self._numbered, "average_", "")
        decay: Any = self.decay
        added = []
        if self.warmup or decay is None:
            steps = state(name + "/steps", (), "float32")
            if decay is None:
                decay = steps / (steps + 1.0)
            else:
                decay = ops.minimum((steps + 1.0) / (steps + 10.0), decay)
            added.append(Assignment(steps, steps + 1.0))
        on_failure(vars(self).update, {"weight": self.weight})
        on_failure(self.averages.clear)
        weight = vars(self)["weight"] = state(name + "/weight", (), "float32")
        added.append(Assignment(weight, _averaged(weight, 1.0, decay)))
        for v, value in new.items():
            average = state(f"{name}/{v.name}", v.dims, v.dtype, table=v.storage.table)
            self.averages[v] = average
            added.append(Assignment(average, _averaged(average, value, decay), owner=v))
        if self.start or self.every > 1:
            left = state(name + "/left", (), "float32", self.start + self.every)
            counts = left <= 1.0
            added = _only_if(counts, added)
            left_after = ops.where(counts, ops.cast(float(self.every), "float32"), left - 1.0)
            added.append(Assignment(left, left_after))
        self.note([a.value for a in added])
        return added

    @contextmanager
    def applied(self, session: Session | None = None) -> Iterator[None]:
        """Set the parameters to their averages for the length of a `with`.

        Args:
            session: by default the session in force.

        Returns:
            A context for `with`.
        """
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


def create_averages(average: MovingAverage, parameters: Iterable[Variable]) -> None:
    """Create the averages that `record` updates, unless there are any.

    Those of a training that is resumed are there then, also before the first step.
    """
    if average._recording is None and average.weight is None:
        with not_recording():
            average._recording = Update(average._assignments({w: w for w in parameters}))


def _averaged(average, value, decay):
    return average * decay + (1.0 - decay) * value


def _only_if(condition, assignments):
    """The assignments, of the values from before unless the condition is true."""
    return [
        Assignment(a.variable, ops.where(condition, a.value, a.variable), owner=a.owner)
        for a in assignments
    ]
