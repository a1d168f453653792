"""Positions of readers, so that a training which was killed goes on exactly where it was.

A reader is a function that returns an iterator. An iterator may take part with two methods:

    state()         the position behind the last item given out: nested dicts and lists of numbers
                    and strings, without items
    restore(state)  go there, on a fresh iterator of the same reader

Iterators without them, such as those of a user's generator function, are read again from their
beginning, by a `Reread`. They may draw from `random` and `numpy.random`, so the states of these
generators at their beginning are a part of their position. A checkpoint

    items = positioned(reader)
    ...
    state = encoded({"items": items.state(), "generators": generators_state()})

is restored by

    items = resumed(reader, state["items"])
    set_generators(state["generators"], but=draws_ahead(items))

Reading again is exact if the items give the same each time from equal states of the generators. If
a reader draws now and then, and what it gives much later depends on that (as when it shuffles file
by file), nothing else may draw from the same generator in between, but for a `shuffle` around it.

An iterator with a thread that reads ahead may have the attribute `draws_ahead`, which of "random"
and "numpy" the thread draws from. A restored one draws again, so they are left to it. That is found
out by reading again: the thread has to draw for the items up to the position, not only later.

Remembering positions costs something, so iterators may have a third method, track(), which is
called before the first item is taken, and without which they have no state().
"""

import functools
import inspect
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, islice, repeat
from operator import length_hint
from typing import Any, NamedTuple, Self

from ..graph.site import is_internal, user_site
from .generators import Generators, generators_state, set_generators

Reader = Callable[[], Iterable[Any]]
State = Any  # nested dicts and lists of numbers, strings and Generators


class Traits(NamedTuple):
    """The use of random generators by a reader, known before it is called."""

    draws: bool  # may draw from the global generators, in the thread that takes the items
    draws_ahead: bool  # may draw from them in threads of its own
    unknown: tuple[Reader, ...]  # readers of a user that it is made of


def traits(reader: Reader) -> Traits:
    """Return what is known of a reader; of a user's function, nothing."""
    found = _noted(reader)
    return Traits(True, False, (reader,)) if found is None else found


def _noted(reader: Reader) -> Traits | None:
    """Return what was noted of this very reader: functools.wraps copies attributes to others."""
    noted = getattr(reader, "position_traits", None)
    return noted[1] if isinstance(noted, tuple) and noted[0] == id(reader) else None


def note(reader: Reader, known: Traits) -> Reader:
    """Note what is known of a reader, and return it."""
    setattr(reader, "position_traits", (id(reader), known))  # noqa: B010
    return reader


def known(reader: Reader, *sources: Reader, draws: bool = False, threads: bool = False) -> Reader:
    """Note what a reader is made of, and return it.

    Its iterators have a position; they hold those of the sources, so calling it draws nothing.
    `draws` says whether it draws from the global generators itself, `threads` whether it calls the
    sources in a thread of its own.
    """
    parts = [traits(source) for source in sources]
    here = draws or any(part.draws for part in parts)
    ahead = any(part.draws_ahead for part in parts)
    if threads:
        here, ahead = False, here or ahead
    unknown = tuple(reader for part in parts for reader in part.unknown)
    return note(reader, Traits(here, ahead, unknown))


def rereadable(read: Reader, draws: bool = False) -> Reader:
    """Decorate a reader, a generator function that gives the same items on each call.

    Its iterators are read again from their beginning without a warning. With `draws`, the items
    depend on the global generators too.
    """

    @functools.wraps(read)
    def reread() -> Reread:
        return Reread(read(), read, draws)

    return known(reread, draws=draws)


def positioned(reader: Reader) -> Any:
    """Call a reader; return its iterator, which has state() and remembers what that needs."""
    called = generators_state() if _noted(reader) is None else None
    items = iter(reader())
    if not (hasattr(items, "state") and hasattr(items, "restore")):
        items = _Foreign(items, reader, called or generators_state())
    if hasattr(items, "track"):
        items.track()
    return items


def restored(reader: Reader, state: State, discard: Callable | None = None) -> Any:
    """Call a reader; return its iterator at the position of a state().

    Items that are read again are taken by discard(items, count), if that is given. ValueError if
    the state is not one of such a reader, or if the reader ends before the position.
    """
    again = isinstance(state, dict) and "called" in state
    if again:
        set_generators(state["called"])
    items = positioned(reader)
    if again != isinstance(items, _Foreign) and state is not None:
        raise other_reader(reader, "a user's function" if again else "none", state)
    if isinstance(items, Reread) and state is not None:
        items.restore(state, discard)
    elif state is not None:
        items.restore(state)
    return items


def resumed(reader: Reader, state: State, discard: Callable | None = None) -> Any:
    """Like `restored`, with a UserWarning that names the readers which are read again."""
    names = sorted(set(_read_again(state)))
    if names:
        message = (
            f"read again from the beginning, up to the place where the training goes on: "
            f"{', '.join(names)}\n"
            "  hint: iterators with the methods state() and restore(state) go there themselves"
        )
        file, line = user_site() or ("", 0)
        warnings.warn_explicit(message, UserWarning, file, line)
    return restored(reader, state, discard)


def draws_ahead(items: Any) -> frozenset[str]:
    """Return which of "random" and "numpy" the threads of a restored iterator draw from."""
    return frozenset(getattr(items, "draws_ahead", ()))


def skip(items: Iterator[Any], count: int, reader: Reader) -> None:
    """Take `count` items; ValueError if the iterator, which is one of `reader`, has fewer."""
    left = repeat(True, count)
    deque(compress(islice(items, count), left), maxlen=0)
    require_all(count - length_hint(left), count, reader)


def reader_name(reader: Any) -> str:
    """Return the name of a reader for errors: its original function, with file and line."""
    reader = inspect.unwrap(reader)
    while isinstance(reader, functools.partial):
        reader = inspect.unwrap(reader.func)
    name: str = getattr(reader, "__qualname__", type(reader).__name__)
    code = getattr(reader, "__code__", None)
    if code is None:
        return name
    if is_internal[code.co_filename]:
        return name.partition(".")[0]
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


class _Beginning:
    """The beginning and the end of an iteration: the generators' states there."""

    def __init__(self, draws: bool, called: Generators | None) -> None:
        self.draws, self.tracks, self.called = draws, False, called
        self.begun = self.ended = False
        self.generators: Generators | None = None

    def of(self, items: Iterable[Any]) -> Iterator[Iterable[Any]]:
        """Yield the items, when the first of them is asked for."""
        self.begun = True
        if self.tracks and self.draws:
            now = generators_state()
            self.generators = self.called if now == self.called else now
        yield items
        self.ended = True


class Reread(compress):
    """Iterator over items that returns to a position by reading the items again.

    It counts them, in C: the second argument of `compress` has one element less for each.
    """

    def __new__(
        cls,
        items: Iterable[Any],
        reader: Reader,
        draws: bool = True,
        called: Generators | None = None,
    ) -> Self:
        beginning, left = _Beginning(draws, called), repeat(True, sys.maxsize)
        self = super().__new__(cls, chain.from_iterable(beginning.of(items)), left)
        self.items, self.reader = items, reader
        self.beginning, self._left = beginning, left
        return self

    items: Iterable[Any]
    reader: Reader
    beginning: _Beginning
    _left: repeat

    @property
    def count(self) -> int:
        """The number of items given out."""
        return sys.maxsize - length_hint(self._left)

    def track(self) -> None:
        """Remember the generators' states at the beginning."""
        self.beginning.tracks = True

    def state(self) -> State:
        """Return the number of items, and the generators' states at the beginning."""
        beginning = self.beginning
        if beginning.begun and beginning.draws and beginning.generators is None:
            raise not_tracked(self.reader)
        state: dict[str, Any] = {"items": self.count}
        if beginning.generators is not None:
            state["generators"] = beginning.generators
        if beginning.ended:
            state["ended"] = True
        return state

    def restore(self, state: State, discard: Callable | None = None) -> None:
        """Read the items up to the position again."""
        if not isinstance(state, dict) or "items" not in state:
            raise other_reader(self.reader, "a number of items", state)
        self.track()
        if "generators" in state:
            set_generators(state["generators"])
        if discard is None:
            deque(islice(self, state["items"]), maxlen=0)
            require_all(self.count, state["items"], self.reader)
        else:
            discard(self, state["items"])
        if state.get("ended"):
            next(self, None)

    def close(self) -> None:
        """Close the items, if they have a method close()."""
        close = getattr(self.items, "close", None)
        if close is not None:
            close()


class _Foreign(Reread):
    """Items of a user's reader, which may draw when it is called too."""

    def __new__(cls, items: Iterator[Any], reader: Reader, called: Generators) -> Self:
        self = super().__new__(cls, items, reader, True, called)
        self._name = reader_name(reader)
        return self

    _name: str

    @property
    def draws_ahead(self) -> frozenset[str]:
        """What the items say."""
        return draws_ahead(self.items)

    def state(self) -> State:
        """Return the number of items, and the generators' states before the call and after it."""
        state = super().state()
        called = self.beginning.called
        if state.get("generators") is called:
            del state["generators"]
        return {**state, "called": called, "read_again": [self._name]}


def not_tracked(reader: Reader) -> ValueError:
    """Return the error of an iterator without a position."""
    return ValueError(
        f"the iterator of the reader {reader_name(reader)} has no position: it was opened without "
        "`positioned`, or has failed or was closed"
    )


def other_reader(reader: Reader, expected: str, state: State) -> ValueError:
    """Return the error of a state that belongs to another reader."""
    keys = sorted(state) if isinstance(state, dict) else state
    return ValueError(
        f"the reader {reader_name(reader)} is another one than that of the position: expected "
        f"{expected}, got a state of {keys}"
    )


def require_all(found: int, count: int, reader: Reader) -> None:
    """Raise a ValueError if a reader has given fewer items than are behind a position."""
    if found < count:
        raise ValueError(
            f"the reader {reader_name(reader)} ends after {found} items, the position is behind "
            f"{count} items"
        )


def _read_again(state: State) -> Iterator[str]:
    """Yield the names of the readers that a restored state reads again."""
    if isinstance(state, dict):
        if state.get("items"):
            yield from state.get("read_again", ())
        for value in state.values():
            yield from _read_again(value)
    elif isinstance(state, list):
        for value in state:
            yield from _read_again(value)
