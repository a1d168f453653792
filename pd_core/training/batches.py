"""Readers of batches: functions that return an iterable, and batches of arrays."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import index
from typing import Any

import numpy as np

from ..graph.errors import ShapeError
from .positions import rereadable

Reader = Callable[[], Iterable[Any]] | Iterable[Any]


def reader_of(data: Reader) -> Callable[[], Iterable[Any]]:
    """Return a function that returns an iterable of the batches of a pass.

    `data` is such a function, or an iterable. TypeError for an iterator, which has one pass only.
    """
    if callable(data):
        return data
    if isinstance(data, Iterator):
        raise TypeError(
            f"a reader is a function, or an iterable for several passes, not {data!r}\n"
            "  hint: pass the function that returns the iterator"
        )
    if not isinstance(data, Iterable):
        raise TypeError(f"a reader is a function or an iterable of batches, not {data!r}")
    if isinstance(data, (list, tuple)):
        return rereadable(lambda: iter(data))
    return data.__iter__


def close(iterator: Any) -> None:
    """Close an iterator, if it has a method close()."""
    method = getattr(iterator, "close", None)
    if method is not None:
        method()


def batch_size_of(batch: Any) -> int:
    """Return the number of samples of a batch: the first axis of the first array that has one.

    The arrays are the values of a dict, or the elements of a tuple or list; else it is one array.
    """
    if isinstance(batch, Mapping):
        values: Iterable[Any] = batch.values()
    else:
        values = batch if isinstance(batch, (tuple, list)) else (batch,)
    for value in values:
        shape = getattr(value, "shape", None)
        if shape is None:
            shape = np.shape(value)
        if shape:
            return int(shape[0])
    return 1


class ArrayReader:
    """A reader of batches of arrays that are in memory, shuffled in each pass on request.

    `arrays` have the same first axis, N; a batch is a tuple of slices of `batch_size` rows of each,
    the last one shorter. Every pass has an order of its own, which the seed determines.
    """

    def __init__(
        self, *arrays: np.ndarray, batch_size: int = 32, shuffle: bool = False, seed: int = 0
    ):
        self.arrays = [np.asarray(a) for a in arrays]
        if not self.arrays or any(a.ndim == 0 for a in self.arrays):
            raise ShapeError("ArrayReader: takes arrays whose first axis is the samples")
        lengths = [len(a) for a in self.arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(f"ArrayReader: arrays of {lengths} samples")
        if batch_size < 1:
            raise ValueError(f"ArrayReader: batch_size is at least 1, not {batch_size}")
        self.batch_size, self.shuffle, self.seed = int(batch_size), shuffle, seed
        self.passes = 0  # that have begun

    def __len__(self) -> int:
        """Return the number of batches of a pass."""
        return -(-len(self.arrays[0]) // self.batch_size)

    def __call__(self) -> "ArrayIterator":
        self.passes += 1
        return ArrayIterator(self, self.passes - 1)

    def state(self) -> dict[str, int]:
        """Return the number of passes that have begun."""
        return {"passes": self.passes}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on with the pass after those of a state."""
        self.passes = index(state["passes"])


class ArrayIterator(Iterator[tuple[np.ndarray, ...]]):
    """The batches of one pass over an ArrayReader."""

    def __init__(self, reader: ArrayReader, pass_id: int):
        self.reader, self.place = reader, 0
        self._start(pass_id)

    def _start(self, pass_id):
        self.pass_id, reader = pass_id, self.reader
        self.order: np.ndarray | None = None
        if reader.shuffle:
            rng = np.random.default_rng([reader.seed, pass_id])
            self.order = rng.permutation(len(reader.arrays[0]))

    def __next__(self) -> tuple[np.ndarray, ...]:
        reader, first = self.reader, self.place * self.reader.batch_size
        if first >= len(reader.arrays[0]):
            raise StopIteration
        self.place += 1
        rows: Any = slice(first, first + reader.batch_size)
        if self.order is not None:
            rows = self.order[rows]
        return tuple([a[rows] for a in reader.arrays])

    def state(self) -> dict[str, int]:
        """Return the place behind the last batch."""
        return {"pass": self.pass_id, "place": self.place}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go to a place, perhaps in another pass."""
        pass_id, place = index(state["pass"]), index(state["place"])
        if place < 0:
            raise ValueError(f"ArrayReader: there is no batch {place}")
        self._start(pass_id)
        self.place, self.reader.passes = place, pass_id + 1
