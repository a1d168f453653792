"""Bases of the iterators of readers, whose positions `pd_core.training.positions` describes.

A state has the name of its kind of reader under "of"; that of an iterator from which nothing was
taken is None.
"""

import itertools
from collections.abc import Iterator

from pd_core.training import positions
from pd_v2.reader.prefetch import close


class ReaderIterator(Iterator):
    """Base of iterators over a reader, which is called when the first item is requested."""

    name = ""

    def __init__(self, reader):
        self._reader, self._samples = reader, None
        self._tracks = self._closed = False

    @property
    def samples(self):
        """The iterator of the reader."""
        if self._samples is None:
            open_ = positions.positioned if self._tracks else _plain
            self._samples = open_(self._reader)
        return self._samples

    @property
    def draws_ahead(self):
        """The global generators that threads below draw from."""
        return positions.draws_ahead(self._samples)

    def track(self):
        """Remember positions."""
        self._tracks = True

    def state(self):
        """Return the position."""
        if self._closed or not (self._tracks or self._samples is None):
            raise positions.not_tracked(self._reader)
        return None if self._samples is None else {"of": self.name, **self._state()}

    def _state(self):
        return {"source": self._samples.state()}

    def restore(self, state):
        """Go to a position."""
        self._tracks = True
        if state is not None:
            _require_same(self.name, state, self._reader)
            self._restore(state)

    def _restore(self, state):
        self._samples = positions.restored(self._reader, state["source"])

    def close(self):
        """Close the iterator of the reader; there are no more samples."""
        close(self._samples)
        self._samples, self._closed = iter(()), True


class Sources:
    """What an iterator takes its items from: base of the kinds of `Stream`.

    A subclass has a method items(), which returns an iterator over the items at the position.
    """

    name = ""

    def __init__(self, *readers):
        self.readers = readers
        self.iterators = None  # not called yet
        self.tracks = self.ended = self.closed = False

    def open(self):
        """Call the readers, unless they were; return their iterators."""
        if self.iterators is None:
            open_ = positions.positioned if self.tracks else _plain
            self.iterators = [open_(reader) for reader in self.readers]
        return self.iterators

    def state(self):
        """Return the position, if there is one."""
        return {"sources": [items.state() for items in self.iterators]}

    def restore(self, state):
        """Open the readers at the position."""
        self.iterators = restored_each(self.readers, state["sources"])


class Stream(itertools.chain):
    """The items of Sources, taken from a generator, as if it had methods: in C.

    The sources are let go at the end, after an error and by `close`.
    """

    def __new__(cls, sources):
        items = _run(sources)
        self = super().__new__(cls, items)
        self._items, self._sources = items, sources
        return self

    @property
    def draws_ahead(self):
        """The global generators that threads below draw from."""
        return frozenset().union(*map(positions.draws_ahead, self._sources.iterators or ()))

    def track(self):
        """Remember positions."""
        self._sources.tracks = True

    def state(self):
        """Return the position."""
        sources = self._sources
        if sources.ended:
            return {"of": sources.name, "ended": True}
        if sources.closed or not (sources.tracks or sources.iterators is None):
            raise positions.not_tracked(sources.readers[0])
        return None if sources.iterators is None else {"of": sources.name, **sources.state()}

    def restore(self, state):
        """Go to a position."""
        sources = self._sources
        sources.tracks = True
        if state is None:
            return
        _require_same(sources.name, state, sources.readers[0])
        if state.get("ended"):
            sources.ended = True
            self._items.close()
        else:
            sources.restore(state)

    def close(self):
        """Let the sources go; there are no more items."""
        self._items.close()
        _let_go(self._sources)


def restored_each(readers, states):
    """Return iterators at their positions.

    Those with threads that may draw come last: the generators are theirs from then on.
    """
    iterators = [None] * len(readers)
    pairs = enumerate(zip(readers, states, strict=True))
    for i, (reader, state) in sorted(pairs, key=_draws_ahead):
        iterators[i] = positions.restored(reader, state)
    return iterators


def _draws_ahead(numbered):
    _, (reader, _) = numbered
    return positions.traits(reader).draws_ahead


def _plain(reader):
    return iter(reader())


def _run(sources):
    try:
        yield from sources.items()
        sources.ended = True
    finally:
        _let_go(sources)


def _let_go(sources):
    sources.iterators, sources.closed = None, True


def _require_same(name, state, reader):
    """ValueError if a state is not one of this kind of reader."""
    if not isinstance(state, dict) or state.get("of") != name:
        raise positions.other_reader(reader, f"one of {name}", state)
