"""The update of a static graph with the state that an optimizer keeps for all of its steps."""

from collections.abc import Sequence

from numpy.typing import DTypeLike

from ...graph.update import Update as Assignments
from ...graph.variable import Dims, Variable
from ...optimizers.base import Optimizer
from ...optimizers.cached import CachedTracing, cached_tracing, check_waiting
from ...optimizers.row_sparse import Gradient
from ...optimizers.states import noted
from ...optimizers.tracing import Tracing, variant
from ...run.session import default_session
from ..steps import Update


class KeptUpdate(Update):
    """An Update whose state is that of the optimizer's steps in `pd.guard()`, in this session.

    Graphs that are built one after the other go on with the same moments and counts of steps.
    """

    def minimized(self, optimizer: Optimizer, costs: Sequence[Variable]) -> Assignments:
        """Return the update of parameters and kept state."""
        kept = cached_tracing(self.optimizer, default_session())
        # minimize() finds parameters and gradients, and leaves the assignments to update().
        traced = variant(optimizer, {"update": _SharedTracing(optimizer, kept).update})
        update: Assignments = traced.minimize(costs, self.var_list)
        return update


class _SharedTracing(Tracing):
    """A tracing in the state of another one."""

    def __init__(self, optimizer: Optimizer, kept: CachedTracing):
        super().__init__(optimizer, kept.name)
        self.kept = kept

    def update(self, pairs: Sequence[tuple[Variable, Gradient]]) -> Assignments:
        if not self.kept.slots:
            check_waiting(self.optimizer, self.kept.waiting, [w for w, _ in pairs])
        return noted(self.optimizer, super().update(pairs))

    def state(
        self, w: Variable | None, name: str, dims: Dims, dtype: DTypeLike, value: float
    ) -> Variable:
        return self.kept.state(w, name, dims, dtype, value)
