"""All or nothing: what a call that fails has made is taken back."""

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Journal = list[tuple[Callable[..., Any], tuple[Any, ...]]]
_journal: ContextVar[Journal | None] = ContextVar("pd_core.journal", default=None)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def on_failure(function: Callable[..., Any], *args: Any) -> None:
    """Call a function if the innermost `Whole` that is open fails; the last one is called first."""
    journal = _journal.get()
    if journal is not None:
        journal.append((function, args))


class Whole:
    """A `with` whose names, variables and parameters are taken back if it raises.

    A class, since each call of a layer enters it: `contextmanager` takes a microsecond.
    """

    __slots__ = ("_mark", "_token")

    def __enter__(self) -> None:
        journal = _journal.get()
        self._token: Token | None = _journal.set([]) if journal is None else None
        self._mark = 0 if journal is None else len(journal)

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None:
            journal = _journal.get()
            while journal is not None and len(journal) > self._mark:
                function, args = journal.pop()
                function(*args)
        if self._token is not None:
            _journal.reset(self._token)


def whole(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function take back what it has made if it raises, see `Whole`."""

    @wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with Whole():
            return function(*args, **kwargs)

    return call
