"""The number of items that an iterator has available: reading these early has no side effects.

Of a list or a tuple all items are available; other iterators have an attribute `available`. Without
one, `next` may have side effects, so that no items are available.
"""

import functools
import math

from pd_core.training import positions
from pd_core.training.generators import generators_state

_LIST_ITERATORS = type(iter([])), type(iter(()))


def available(items):
    """Return the number of available items; math.inf includes the end."""
    if type(items) in _LIST_ITERATORS:
        return math.inf
    if hasattr(items, "available"):
        return items.available
    return available(items.items) if isinstance(items, positions.Reread) else 0


def close(items):
    """Close an iterator, if it has a method close()."""
    method = getattr(items, "close", None)
    if method is not None:
        method()


class PrefetchIterator(positions.Reread):
    """The samples of a reader that prefetches, so that all of them count as available.

    Its threads begin at the beginning of what they read, and so they do after `restore`.
    """

    available = math.inf

    def __new__(cls, read):
        known = positions.traits(read)
        self = super().__new__(cls, read(), read, known.draws or known.draws_ahead)
        self._unknown, self._names, self._draws_ahead = known.unknown, [], None
        return self

    @property
    def draws_ahead(self):
        """Which of "random" and "numpy" the threads draw from.

        It is first asked for when a position was restored, where nothing else has drawn.
        """
        beginning = self.beginning
        if beginning.ended or beginning.generators is None:
            return frozenset()
        if self._draws_ahead is None:
            self._draws_ahead = beginning.generators.differing(generators_state())
        return self._draws_ahead

    def track(self):
        """Remember positions."""
        super().track()
        self._names = [positions.reader_name(reader) for reader in self._unknown]

    def state(self):
        """Return the position, with the names of a user's readers that are read again."""
        return {**super().state(), "read_again": self._names}

    def restore(self, state, discard=None):
        """Read the samples up to the position again; see whether that draws."""
        super().restore(state, discard)
        positions.draws_ahead(self)


def prefetching(read):
    """Decorate a reader, a generator function, that prefetches its samples."""
    prefetched = functools.wraps(read)(lambda: PrefetchIterator(read))
    return positions.note(prefetched, positions.traits(read))
