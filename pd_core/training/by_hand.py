"""Flags of parameters and numbers of optimizers that were set by hand since a training began."""

from collections.abc import Callable, Mapping
from typing import Any

from ..graph.names import names
from ..graph.namespace import persistent_variables
from ..optimizers.later import Later, later_of, numbers_by_name, set_later
from ..run.session import Session
from ..run.states import by_name, entries, flag, number

_KINDS = {"trainable": by_name(flag), "settings": by_name(by_name(number))}


class SetByHand:
    """The `trainable` of parameters and the numbers of optimizers that a program has set.

    A callback that freezes layers or sets a learning rate in some pass is not called again by a
    training that is resumed after it. What the program sets before the first step is no part of
    the state: another program may set it otherwise. `settings` are those of optimizers that step
    inside `pd.guard()` or for a Module, by the prefix of their state; an Update has its own.
    """

    def __init__(self, session: Session):
        self.session, self._scope = session, names()
        self._first = _flags()
        self._restored: dict[str, bool] = {}
        self._before = self._scope.flags, later_of(session)

    def note(self) -> None:
        """Note the flags of what the first step has built."""
        self._first = {**_flags(), **self._first}

    def close(self) -> None:
        """Forget what waits for variables and optimizers that were never made."""
        self._scope.flags = self._before[0]
        set_later(self.session, self._before[1])

    def state(self) -> dict[str, Any]:
        """Return {"trainable": ..., "settings": ...}, empty if nothing was set."""
        now = {**self._restored, **_flags()}
        flags = {
            name: value
            for name, value in now.items()
            if name in self._restored or self._first.get(name) is not value
        }
        settings = numbers_by_name(self.session)
        state = {"trainable": flags, "settings": settings}
        return {key: value for key, value in state.items() if value}

    @staticmethod
    def check(state: Mapping[str, Any]) -> None:
        """Raise a ValueError if it is no such state."""
        entries("what was set by hand", state, _KINDS, optional=_KINDS)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set what was set; what does not exist yet is set when it is made."""
        found = entries("what was set by hand", state, _KINDS, optional=_KINDS)
        self._restored = found.get("trainable", {})
        self._scope.flags = self._restored
        for v in persistent_variables():
            if v.name in self._restored:
                v.trainable = self._restored[v.name]
        set_later(self.session, Later(found.get("settings", {})))

    def undoing(self) -> Callable[[], Any]:
        """Return a function that sets everything back to what it is now."""
        flags = {v: v.trainable for v in persistent_variables()}
        optimizers = [o.settings.undoing(o) for o in self.session.optimizers]
        before = self._scope.flags, later_of(self.session), self._restored

        def undo():
            for v, value in flags.items():
                v.trainable = value
            for function in optimizers:
                function()
            self._scope.flags, later, self._restored = before
            set_later(self.session, later)

        return undo


def _flags():
    """{name: trainable} of what layers and programs have made; slots have no line."""
    every = persistent_variables()
    return {v.name: v.trainable for v in every if v.dtype.kind == "f" and v.site is not None}
