"""The reader that every dataset returns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """Samples of a dataset, to be called like a reader or iterated, each time from the start.

    Some datasets of 2017 returned a reader and others its samples; scripts may use this as either.
    """

    read: Callable[[], Iterable]

    def __call__(self):
        return iter(self.read())

    def __iter__(self):
        return self()
