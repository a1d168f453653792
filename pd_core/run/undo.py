"""Undo: what a restore has changed goes back to what it was, if it fails."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from ..graph.variable import Variable


class Journal:
    """What a session was: its seed and draws, and each value that is replaced, as it was before.

    Values are not copied: the buffers of a value that is replaced belong to the journal alone.
    """

    def __init__(self, store: Any):
        self.store = store
        self.values: dict[Variable, Any] = {}
        self._seed, self._draws = store.seed, Counter(store.draws)
        self._waiting = dict(store.waiting), dict(store.waiting_rows)

    def undo(self) -> None:
        """Put everything back."""
        store = self.store
        with store.lock:
            store.seed, store.draws = self._seed, self._draws
            store.waiting, store.waiting_rows = self._waiting
            store.put_back(self.values)


class Undo:
    """The changes of a `with`, which are taken back if it raises: all or nothing.

    In the sessions these are all values that are stored, seeds and draws; `add` says how to take
    back others. `run` takes them back later, after a `with` that did not raise.
    """

    def __init__(self, *sessions: Any):
        self._stores = [session.store for session in dict.fromkeys(sessions)]
        self._journals: list[Journal] = []
        self._functions: list[Callable[[], Any]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for store in self._stores:
                stack.enter_context(store.lock)
                journal = Journal(store)
                store.journals.append(journal)
                stack.callback(store.journals.remove, journal)
                self._journals.append(journal)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._stack:  # no other thread sees a part of it
            if error is not None:
                self.run(error)

    def add(self, function: Callable[[], Any]) -> None:
        """Call a function to take back what is done next; the last one is called first."""
        self._functions.append(function)

    def run(self, error: BaseException) -> None:
        """Take everything back, once; `error` gets notes of what could not be."""
        functions, self._functions = self._functions, []
        journals, self._journals = self._journals, []
        try:
            for function in reversed(functions):
                try:
                    function()
                except BaseException as later:  # the first Ctrl-C counts
                    error.add_note(f"  then, as this was taken back: {later!r}")
        finally:
            for journal in reversed(journals):
                journal.undo()
