"""What a session needs of the graph that is recorded in it."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

from ..graph.variable import Variable


class Recorded(Protocol):
    """What `pd.guard()` has recorded in a session, as its evaluations see it."""

    @property
    def pending(self) -> Mapping[Variable, Any]:
        """The values that recorded operators are about to store."""

    def flush(self) -> None:
        """Store what recorded operators assign, such as moving statistics."""

    def before_update(
        self,
        variables: Sequence[Callable[[], Variable]],
        written: Set[Callable[[], Variable]] = frozenset(),
    ) -> None:
        """Keep the values that recorded operators read and that a step writes in place.

        Those are the ones `written`, and tables whose rows it writes.
        """

    def after_update(self, variables: Sequence[Callable[[], Variable]]) -> Any:
        """Keep the values before the step that recorded operators read."""

    def before_store(self, variable: Variable) -> None:
        """Keep the value that recorded operators read."""

    def forget(self, variable: Variable) -> None:
        """Leave out what recorded operators assign to a variable that is taken back."""
