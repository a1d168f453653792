"""The sessions that `with` blocks have entered: in this thread, and in others."""

from collections.abc import Iterable
from contextvars import ContextVar
from threading import Lock, current_thread, main_thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ..graph.errors import GraphError
from ..graph.variable import Variable


class Entered(NamedTuple):
    """A session that was entered, with what records in it if values were at hand."""

    session: Any
    recording: Any
    follows: bool  # whether `reset` replaces it


# Those of a context, outermost first. A thread begins without any.
entered: ContextVar[tuple[Entered, ...]] = ContextVar("pd_core.session", default=())
default: list[Any] = []  # the session that is in force where none was entered, once it is there
# How often each session is entered, in all threads. A thread may end without leaving its own.
_open: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_lock = Lock()


def set_entered(blocks: tuple[Entered, ...]) -> None:
    """Put other blocks in force in this context."""
    with _lock:
        for sign, changed in ((1, blocks), (-1, entered.get())):
            for block in changed:
                _open[block.session] = _open.get(block.session, 0) + sign
        for block in entered.get():
            if _open.get(block.session, 1) <= 0:
                del _open[block.session]
    entered.set(blocks)


def sessions_elsewhere(v: Variable) -> list[Any]:
    """Return the sessions with a value for a variable that only other threads have entered.

    None in the main thread, and in a thread that has entered a session itself: these have chosen
    where values are. `pd.guard()` alone chooses none.
    """
    is_chosen = any(not block.follows for block in entered.get())
    if not _open or is_chosen or current_thread() is main_thread():
        return []
    with _lock:
        sessions = [session for session in _open if session not in default]
    return [session for session in sessions if v in session.store.arrays]


def check_values_here(store: Any, variables: Iterable[Variable]) -> None:
    """Raise a GraphError if values are asked for in a thread that has not entered their session.

    It would get initial values, where the thread that has trained them has others. A session that
    is asked itself, `session.eval(y)`, was chosen.
    """
    if not default or store is not default[0].store:
        return
    for v in variables:
        elsewhere = sessions_elsewhere(v)
        if elsewhere:
            raise GraphError(
                f"{v.name}: its value is in {elsewhere[0]!r}, which thread "
                f"{current_thread().name!r} has not entered\n"
                "  hint: `session = pd.default_session()` before the thread begins, and "
                "`with session:` in it"
            )
