"""The reader that every dataset returns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """Samples of a dataset, to be called like a reader or iterated; each time from the start.

    Some 2017 datasets returned a function and others its samples; scripts may treat this as either.
    """

    read: Callable[[], Iterable]

    def __call__(self):
        return iter(self.read())

    def __iter__(self):
        return self()
