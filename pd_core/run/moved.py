"""Names of sessions that have moved to their parts."""

import warnings
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar, overload

from ..graph.update import Update
from ..graph.variable import Variable
from .exchange import exchanges
from .request import Request

T = TypeVar("T")


class Part(Generic[T]):
    """An attribute of a part of a session, under the same name."""

    def __init__(self, part: str):
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, session: None, owner: type) -> Self: ...

    @overload
    def __get__(self, session: object, owner: type) -> T: ...

    def __get__(self, session: Any, owner: type) -> Any:
        if session is None:
            return self
        found: Any = getattr(getattr(session, self.part), self.name)
        return found

    def __set__(self, session: Any, value: T) -> None:
        setattr(getattr(session, self.part), self.name, value)


def _moved(place: str) -> Any:
    """A property for a name that is somewhere else in a session."""
    read = attrgetter(place)

    class Moved:
        """The old name."""

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, session: Any, owner: type | None = None) -> Any:
            if session is None:
                return self
            _warn(self.name, place)
            return read(session)

    return Moved()


def _warn(name: str, place: str) -> None:
    warnings.warn(
        f"Session.{name} has moved, it is Session.{place} now", DeprecationWarning, stacklevel=3
    )


class MovedNames:
    """Old names of what sessions consist of, each with a DeprecationWarning."""

    before = _moved("store.before")
    check_state = _moved("store.check_state")
    clear_programs = _moved("compiler.clear")
    current = _moved("store.current")
    draw_rows = _moved("store.draw_rows")
    initialize = _moved("store.initialize")
    put_back = _moved("store.put_back")
    recorded = _moved("store.recorded")
    redraw = _moved("store.redraw")
    release = _moved("store.release")
    store_setting = _moved("store.store_setting")
    stored = _moved("store.variables")
    touched = _moved("store.touched")
    version = _moved("store.version")
    waiting = _moved("store.waiting")
    waiting_rows = _moved("store.waiting_rows")

    @property
    def has_values(self) -> bool:
        """Whether any persistent variable has a value."""
        _warn("has_values", "store.is_empty")
        return not _parts(self).store.is_empty

    @property
    def has_own_exchange(self) -> bool:
        """Whether gradients go to a function of the user."""
        _warn("has_own_exchange", "observers.exchange")
        return _parts(self).observers.exchange is not None

    @property
    def is_exchanging(self) -> bool:
        """Whether gradients are exchanged before the updates."""
        _warn("is_exchanging", "observers.exchange")
        return exchanges(self)

    def exclusive(self) -> Any:
        """Return the lock of the session."""
        _warn("exclusive", "lock")
        return _parts(self).lock

    def apply(self, updates: Sequence[Update], fed: dict[Variable, Any]) -> None:
        """Evaluate updates from gradients that are computed, and may be on the device."""
        _warn("apply", "evaluate")
        _parts(self).evaluate(Request([], updates, fed, True, computed=True))


def _parts(session: Any) -> Any:
    return session
