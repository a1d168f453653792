"""Names of sessions that have moved to their parts, each with a DeprecationWarning."""

import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar, overload

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
        return self if session is None else getattr(getattr(session, self.part), self.name)

    def __set__(self, session: Any, value: T) -> None:
        setattr(getattr(session, self.part), self.name, value)


class Moved:
    """An attribute that is somewhere else in a session, or is made of what is there."""

    def __init__(self, place: str, read: Callable[[Any], Any] | None = None):
        self.place = place
        self.read: Callable[[Any], Any] = read or attrgetter(place)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, session: Any, owner: type) -> Any:
        if session is None:
            return self
        text = f"Session.{self.name} has moved: it is `session.{self.place}` now"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.read(session)


class MovedNames:
    """The old names."""

    apply = Moved(
        "evaluate",
        lambda session: (
            lambda updates, fed: session.evaluate(Request([], updates, fed, True, computed=True))
        ),
    )
    before = Moved("store.before")
    check_state = Moved("store.restorable")
    clear_programs = Moved("compiler.clear")
    current = Moved("store.current")
    draw_rows = Moved("store.draw_rows")
    exclusive = Moved("lock", lambda session: lambda: session.lock)
    has_own_exchange = Moved(
        "observers.exchange", lambda session: session.observers.exchange is not None
    )
    has_values = Moved("store.is_empty", lambda session: not session.store.is_empty)
    initialize = Moved("store.initialize")
    is_exchanging = Moved("observers.exchange", exchanges)
    put_back = Moved("store.put_back")
    redraw = Moved("store.redraw")
    release = Moved("store.release")
    store_setting = Moved("store.store_setting")
    stored = Moved("store.variables")
    touched = Moved("store.touched")
    version = Moved("store.version")
    waiting = Moved("store.waiting")
    waiting_rows = Moved("store.waiting_rows")
