"""How many items an iterator holds: it can be asked for these before their turn, and nothing tells.

All that is left of a list or a tuple is held; other iterators say so themselves, in an attribute
`held`. One that says nothing may do anything when it is asked, so it holds nothing.
"""

import functools
import math
from collections.abc import Iterator

_ALL_HELD = type(iter([])), type(iter(()))


def held(items):
    """How many items, math.inf for all and the end after them."""
    return math.inf if type(items) in _ALL_HELD else getattr(items, "held", 0)


def close(items):
    """Close an iterator that can be closed."""
    end = getattr(items, "close", None)
    if end is not None:
        end()


class Holding(Iterator):
    """An iterator over what `reader` gives, which is called when the first item is asked for."""

    def __init__(self, reader):
        self._reader, self._samples = reader, None

    @property
    def samples(self):
        """The iterator of the reader."""
        if self._samples is None:
            self._samples = iter(self._reader())
        return self._samples

    def close(self):
        """Close what the reader gave, if that can be closed; it is called no more."""
        close(self._samples)
        self._samples = iter(())


class Ahead(Holding):
    """The samples of a reader that works ahead of its consumer, which may do the same."""

    held = math.inf

    def __next__(self):
        return next(self.samples)


def ahead(read):
    """The reader `read`, a generator function that works ahead, with iterators that say so."""
    return functools.wraps(read)(lambda: Ahead(read))
