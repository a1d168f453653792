"""What was done to values besides the training steps that all processes take together."""

from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from ..graph.variable import Variable


class Touched:
    """Which variables of a session were changed outside of exchanged steps, and when.

    `count` grows with every change. `by_host` are those whose values came from the host.
    """

    def __init__(self) -> None:
        self.count = 0
        self._changes: WeakKeyDictionary[Variable, tuple[int, int]] = WeakKeyDictionary()

    def by_host(self, variable: Variable) -> None:
        """Note that a value was stored."""
        self.count += 1
        self._changes[variable] = self.count, self.count

    def by_programs(self, variables: Iterable[Callable[[], Variable | None]]) -> None:
        """Note that a program has computed values; references to the variables."""
        self.count += 1
        for reference in variables:
            v = reference()
            if v is not None:
                self._changes[v] = self.count, self.since(v)[1]

    def since(self, variable: Variable) -> tuple[int, int]:
        """Return the counts of the last change at all, and of the last one from the host."""
        return self._changes.get(variable, (0, 0))
