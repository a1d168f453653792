"""The update of a static graph with the state that an optimizer keeps for all of its steps."""

import copy
from collections.abc import Sequence
from typing import Any

from ..graph.update import Update as Assignments
from ..graph.variable import Dims, Variable
from ..optimizers.base import Optimizer
from ..optimizers.kept import KeptTracing, kept_tracing
from ..optimizers.row_sparse import Gradient
from ..optimizers.tracing import Tracing
from ..run.session import default_session
from ..training.steps import Update


class KeptUpdate(Update):
    """An Update whose state is that of the optimizer's steps in `pd.guard()`, in this session.

    Graphs that are built one after the other go on with the same moments and counts of steps.
    """

    def __init__(self, optimizer: Optimizer):
        super().__init__(_Kept(optimizer))
        self._kind = type(optimizer).__name__

    def state(self) -> dict[str, Any]:
        return {**super().state(), "optimizer": self._kind}


class _Kept(Optimizer):
    """An optimizer for static graphs that shares the state of another one."""

    def __init__(self, optimizer):
        super().__init__(optimizer.learning_rate)
        self.optimizer = optimizer

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Assignments:
        optimizer = copy.copy(self.optimizer)
        optimizer.learning_rate = self.learning_rate  # perhaps times the factor of a ReduceRate
        kept = kept_tracing(self.optimizer, default_session())
        return _KeptTracing(optimizer, kept).update(pairs)


class _KeptTracing(Tracing):
    """A tracing in the state of another one."""

    def __init__(self, optimizer: Optimizer, kept: KeptTracing):
        super().__init__(optimizer, kept.name)
        self.kept = kept

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: Any, value: float
    ) -> Variable:
        return self.kept.state(w, name, dims, dtype, value)
