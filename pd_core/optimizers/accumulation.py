"""Gradient accumulation: sums of gradients over several batches, of which the last one updates."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..graph.errors import GraphError
from ..graph.update import Assignment
from ..graph.variable import Variable
from .row_sparse import Gradient, RowGradient


class Accumulation:
    """The sums of one Update that takes a step with every `period`-th evaluation.

    State: `<parameter>/gradient`, the sum since the last step, and `batches`, the number of batches
    in it. A frozen parameter's sum stays as it is. `state` is the method of a Tracing that creates
    it.
    """

    def __init__(self, state: Callable[..., Variable], period: int):
        self.state, self.period = state, period
        batches = state(None, "batches", (), np.float32, 0.0)
        self.count = batches + 1.0
        # at least, as a period may have become shorter since: inside a guard, or after a resume
        self.is_due = self.count >= float(period)
        self.assignments = [Assignment(batches, self._emptied(self.count))]

    def means(self, pairs: Sequence[tuple[Variable, Gradient]]) -> list[tuple[Variable, Gradient]]:
        """Return the means of the gradients, and note the assignments of their sums."""
        means: list[tuple[Variable, Gradient]] = []
        for w, g in pairs:
            if isinstance(g, RowGradient):
                raise GraphError(
                    f"{w!r} is row_sparse: accumulate={self.period} sums gradients of whole "
                    "parameters\n  hint: row_sparse=False, or an optimizer of its own"
                )
            total = self.state(w, "gradient", w.dims, w.dtype, 0.0)
            added = total + g
            self.assignments.append(Assignment(total, self._emptied(added), owner=w))
            means.append((w, added / ops.cast(self.count, w.dtype)))
        return means

    def due_only(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Return assignments that change their variables in the due evaluations alone."""
        return [
            Assignment(a.variable, ops.where(self.is_due, a.value, a.variable), owner=a.owner)
            for a in assignments
        ]

    def _emptied(self, value: Any) -> Variable:
        """A value, and zeros where a step was taken."""
        return ops.where(self.is_due, ops.zeros_like(value), value)
