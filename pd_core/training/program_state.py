"""What a training knows of the program that takes its steps: names of things, and its lines."""

from collections.abc import Callable, Mapping
from typing import Any

from ..dynamic.seen import decoded, earlier_lines, seen, set_earlier
from ..graph.names import names
from ..run.states import by_name, entries, integer, text


class ProgramState:
    """What decides the names and the bits of steps inside `pd.guard()`, apart from values.

    Layers, optimizers and averages without a name get one when it is first needed: `names` says
    which of their kind have which, counted as they were made. `lines` are sizes and numbers that
    the lines of the program have seen. A training that is resumed may need them in another order.
    """

    def __init__(self) -> None:
        self._scope = names()

    def state(self) -> dict[str, Any]:
        """Return {"names": ..., "lines": ...}, without what is empty."""
        named = {name: list(place) for name, place in self._scope.numbers().items()}
        state = {"names": named, "lines": seen()}
        return {key: value for key, value in state.items() if value}

    @staticmethod
    def check(state: Mapping[str, Any]) -> None:
        """Raise a ValueError if it is no such state."""
        entries("what is known of the program", state, _KINDS, optional=_KINDS)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Let what needs a name, and lines that run, go on as in the training before."""
        found = entries("what is known of the program", state, _KINDS, optional=_KINDS)
        self._scope.earlier = found.get("names", {})
        set_earlier(found.get("lines", {}))

    def undoing(self) -> Callable[[], Any]:
        """Return a function that sets everything back to what it is now."""
        earlier, lines = dict(self._scope.earlier), earlier_lines()

        def undo():
            self._scope.earlier = earlier
            set_earlier(lines)

        return undo


def _place(value: Any) -> tuple[str, int]:
    kind, number = value
    return text(kind), integer(number)


_KINDS = {"names": by_name(_place), "lines": decoded}
