"""Exchanging: gradients go to a function, or to other processes, before the update."""

from collections.abc import Mapping
from typing import Any

from ..graph.variable import Variable
from .exchange import Exchange, exchanges, local_update, shared_exchange
from .observer import Observer
from .program import Program
from .request import Request


class Exchanging(Observer):
    """Makes an evaluation pause after its gradients, to exchange them.

    While processes accumulate gradients it computes these alone, and no update.
    """

    @staticmethod
    def takes_part(session: Any, request: Request) -> bool:
        """Return whether gradients are exchanged."""
        return exchanges(session)

    def start(self) -> None:
        """Add the pause, or fetch what is accumulated."""
        request, own = self.request, self.session.observers.exchange
        self._others = shared_exchange(self.session)
        self._shared = self._others if own is None else None
        self._exchange = Exchange(own or self._shared, () if request.recorded else request.updates)
        seam, shared = self._exchange.seam, self._shared
        self._is_local = False
        self._accumulates = bool(seam) and shared is not None and shared.accumulating
        if self._accumulates:
            request.fetches = list(dict.fromkeys([*request.fetches, *seam]))
            request.updates = [local_update(u) for u in request.updates]
        elif seam:
            self._is_local = shared is not None and shared.is_local
            # the gradients of a step of this process alone are used as they are
            if shared is None or not shared.is_local or shared.changes_gradients:
                request.seam, request.exchange = seam, self._exchange

    def before(self, program: Program, fed: Mapping[Variable, Any]) -> None:
        """Meet the other processes."""
        request, self._updated = self.request, program.updated
        if self._shared is not None and (request.seam or self._is_local):
            gradients = self._exchange.gradients
            self._shared.begin(program, request.updates, gradients, fed, request.computed)

    def after(self, results: list[Any] | None) -> None:
        """Keep gradients for a later step; note what the other processes have not done too."""
        if results is None:
            return
        request, shared = self.request, self._shared
        is_common = shared is not None and (bool(request.seam) or self._is_local)
        if self._others is not None and self._updated and not is_common:
            self.session.store.touched.by_programs(self._updated)
        if self._accumulates and shared is not None:
            arrays = dict(zip(request.fetches, results, strict=True))
            values = [arrays[v] for v in self._exchange.seam]
            shared.accumulate(self._exchange.structured(values))
        if self._is_local and shared is not None:
            shared.end(request.updates)
