"""The part of a checkpoint about the program itself: automatic names, and sizes by line."""

from collections.abc import Callable, Mapping
from typing import Any

from ..dynamic.seen import decoded, earlier_lines, seen, set_earlier
from ..graph.names import Place, names
from ..run.states import by_name, entries, integer, text


class ProgramState:
    """Automatic names and open sizes of a program, for steps inside `pd.guard()` to resume exactly.

    Layers, optimizers and averages without a name get one when it is first needed: `names` says
    which of their kind have which, counted as they were made, and by which line; `made` is how many
    of a kind there were before the training. `lines` are sizes and numbers that the lines of the
    program have seen. A training that is resumed may need them in another order.
    """

    def __init__(self) -> None:
        self._scope = names()
        self._made = dict(self._scope.counts)
        self._changed: set[str] = set()  # kinds of which there were more, or fewer, before

    def state(self) -> dict[str, Any]:
        """Return {"names": ..., "made": ..., "lines": ...}, without what is empty."""
        places = self._scope.numbers()
        named = {name: [kind, n, *(line or ())] for name, (kind, n, line) in places.items()}
        kinds = {kind for kind, _, _ in places.values()}
        made = {kind: count for kind, count in self._made.items() if kind in kinds}
        state = {"names": named, "made": made, "lines": seen()}
        return {key: value for key, value in state.items() if value}

    @staticmethod
    def check(state: Mapping[str, Any]) -> None:
        """Raise a ValueError if it is no such state."""
        entries("what is known of the program", state, _KINDS, optional=_KINDS)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Let what needs a name, and lines that run, go on as in the training before."""
        found = entries("what is known of the program", state, _KINDS, optional=_KINDS)
        made = found.get("made", {})
        self._changed = {kind for kind, count in made.items() if self._made.get(kind, 0) != count}
        self._scope.set_earlier(found.get("names", {}))
        self._scope.by_order.clear()
        set_earlier(found.get("lines", {}))

    def guessed(self) -> str | None:
        """Return what got the state of another by its order alone, perhaps; None for nothing new.

        Nothing else tells it, since its line has changed, and there are more or fewer before it.
        """
        found, self._scope.by_order = self._scope.by_order, {}
        return ", ".join(name for name, t in found.items() if t.kind in self._changed) or None

    def awaited(self, value: str) -> bool:
        """Whether a value waits for a layer, optimizer or average that was not used yet."""
        return any(value.startswith((f"{name}/", f"{name}.")) for name in self._scope.awaited())

    def undoing(self) -> Callable[[], Any]:
        """Return a function that sets everything back to what it is now."""
        earlier, lines = dict(self._scope.earlier), earlier_lines()

        def undo():
            self._scope.set_earlier(earlier)
            set_earlier(lines)

        return undo


def _place(value: Any) -> Place:
    kind, number, *line = value
    if line:  # older checkpoints have none
        digest, before = line
        return text(kind), integer(number), (text(digest), integer(before))
    return text(kind), integer(number), None


_KINDS = {"names": by_name(_place), "made": by_name(integer), "lines": decoded}
