"""The number of items that an iterator has available: reading these early has no side effects.

Of a list or a tuple all items are available; other iterators have an attribute `available`. Without
one, `next` may have side effects, so that no items are available.
"""

import functools
import math
from collections.abc import Iterator

_LIST_ITERATORS = type(iter([])), type(iter(()))


def available(items):
    """Return the number of available items; math.inf includes the end."""
    return math.inf if type(items) in _LIST_ITERATORS else getattr(items, "available", 0)


def close(items):
    """Close an iterator, if it has a method close()."""
    method = getattr(items, "close", None)
    if method is not None:
        method()


class ReaderIterator(Iterator):
    """Base of iterators over a reader, which is called when the first item is requested."""

    def __init__(self, reader):
        self._reader, self._samples = reader, None

    @property
    def samples(self):
        """The iterator of the reader."""
        if self._samples is None:
            self._samples = iter(self._reader())
        return self._samples

    def close(self):
        """Close the iterator of the reader; there are no more samples."""
        close(self._samples)
        self._samples = iter(())


class PrefetchIterator(ReaderIterator):
    """The samples of a reader that prefetches, so that all of them count as available."""

    available = math.inf

    def __next__(self):
        return next(self.samples)


def prefetching(read):
    """Decorate a reader, a generator function, that prefetches its samples."""
    return functools.wraps(read)(lambda: PrefetchIterator(read))
