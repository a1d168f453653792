"""The reader that every dataset returns."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pd_core.training import positions


@dataclass(frozen=True)
class Samples:
    """Samples of a dataset, to be called like a reader or iterated, each time from the start.

    Some datasets of 2017 returned a reader and others its samples; scripts may use this as either.
    """

    read: Callable[[], Iterable]
    draws: bool = False  # whether the samples depend on the global random generators

    def __call__(self):
        return iter(self._reader())

    @property
    def position_traits(self):
        """What `pd_core.training.positions` knows of the reader."""
        return id(self), positions.traits(self._reader)

    @functools.cached_property
    def _reader(self):
        known = hasattr(self.read, "position_traits")
        return self.read if known else positions.rereadable(self.read, self.draws)

    def __iter__(self):
        return self()
