"""The update of a static graph with the state that an optimizer keeps for all of its steps."""

from collections.abc import Sequence

from ...graph.update import Update as Assignments
from ...graph.variable import Variable
from ...optimizers.base import Optimizer
from ...optimizers.cached import cached_tracing
from ...optimizers.states import SharedTracing
from ...optimizers.tracing import variant
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
        shared = SharedTracing(optimizer, kept)
        traced = variant(optimizer, {"update": shared.update})
        return self.precision.minimize(traced, costs, self.var_list, shared.state, self.scaler)
