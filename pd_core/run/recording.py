"""Recording: what `pd.guard()` has recorded in a session takes part in its evaluations."""

from collections.abc import Mapping
from typing import Any

from ..graph.variable import Variable
from .observer import Observer
from .program import Program
from .request import Request


class Recording(Observer):
    """Keeps values that recorded operators read from before an evaluation that changes them."""

    @staticmethod
    def takes_part(session: Any, request: Request) -> bool:
        """Return whether anything was recorded in the session."""
        return session.store.recorded is not None and not request.recorded

    def start(self) -> None:
        """Store what recorded operators assign, unless it is a step of theirs."""
        if not self.request.computed:
            self.session.store.recorded.flush()

    def before(self, program: Program, fed: Mapping[Variable, Any]) -> None:
        """Keep what is written in place."""
        self._updated = program.updated
        self.session.store.recorded.before_update(program.updated, program.written)

    def after(self, results: list[Any] | None) -> None:
        """Keep the values before."""
        if results is not None:
            self.session.store.recorded.after_update(self._updated)
