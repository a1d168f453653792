"""Readers of batches: functions that return an iterable, and batches of arrays."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..graph.arrays import host_array
from ..graph.errors import ShapeError
from ..run.states import Kind, entries, integer
from .positions import rereadable
from .rereading import described, require_same

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
        is_of_samples = hasattr(data, "__getitem__") and hasattr(data, "__len__")
        hint = "\n  hint: DataLoader(data, batch_size=32) of PyTorch makes batches of samples"
        raise TypeError(
            f"a reader is a function or an iterable of batches, not {data!r}"
            f"{hint if is_of_samples else ''}"
        )
    if isinstance(data, (list, tuple)):
        return rereadable(lambda: iter(data))
    return data.__iter__


def tested_batches(reader: Reader) -> Iterator[Any]:
    """Yield the batches of a pass that is no part of a training, such as a test.

    A reader with a state, which may be that of the training too, is then as it was before: each
    test has the same samples in the same order, whichever tests there were.
    """
    read: Any = reader_of(reader)
    if isinstance(read, ArrayReader):
        yield from ArrayIterator(read, read.passes)
        return
    state = read.state() if hasattr(read, "state") and hasattr(read, "restore") else None
    try:
        yield from read()
    finally:
        if state is not None:
            read.restore(state)


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

    With `weights` [N], numbers of 0 or more, each pass draws N samples with replacement, each with
    a probability in proportion to its weight: rare classes as often as others, say. `shuffle` makes
    no difference then.

    A place is that of a sample: with another `batch_size` a training goes on there. Other arrays,
    weights, and another order, are refused.
    """

    def __init__(
        self,
        *arrays: np.ndarray,
        batch_size: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        weights: ArrayLike | None = None,
    ):
        self.arrays = [host_array(a) for a in arrays]
        if not self.arrays or any(a.ndim == 0 for a in self.arrays):
            raise ShapeError("ArrayReader: takes arrays whose first axis is the samples")
        lengths = [len(a) for a in self.arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(f"ArrayReader: arrays of {lengths} samples")
        if batch_size < 1:
            raise ValueError(f"ArrayReader: batch_size is at least 1, not {batch_size}")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"ArrayReader: seed is a whole number of 0 or more, not {seed!r}")
        self.batch_size, self.shuffle, self.seed = int(batch_size), shuffle, int(seed)
        self.weights = None if weights is None else _checked_weights(weights, lengths[0])
        self.passes = 0  # that have begun

    def __len__(self) -> int:
        """Return the number of batches of a pass."""
        return -(-len(self.arrays[0]) // self.batch_size)

    def __call__(self) -> "ArrayIterator":
        self.passes += 1
        return ArrayIterator(self, self.passes - 1)

    def state(self) -> dict[str, Any]:
        """Return the number of passes that have begun, and what the data are."""
        return {"passes": self.passes, "data": self.data()}

    def data(self) -> dict[str, Any]:
        """Return what tells these data, in their order, from others."""
        if self.weights is not None:
            order = {"weights": described([self.weights])["values"][:16], "seed": self.seed}
        else:
            order = {"shuffle": True, "seed": self.seed} if self.shuffle else {"shuffle": False}
        return {**described(self.arrays), **order}

    def check(self, state: Mapping[str, Any]) -> None:
        """Raise a GraphError if a state, of this or of an iterator, is one of other data."""
        kinds = _PLACE if "pass" in state else _PASSES
        found = entries("ArrayReader", state, kinds, optional=("data", "sample", "place"))
        if "data" in found:  # not in what 0.2.0 wrote
            require_same(found["data"], self.data())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the pass after those of a state; GraphError if that is one of other data."""
        self.check(state)
        self.passes = integer(state["passes"])


def _checked_weights(weights, samples):
    """The weights of samples as float64."""
    found = np.asarray(weights, np.float64)
    if found.shape != (samples,):
        raise ShapeError(f"ArrayReader: weights {list(found.shape)} for {samples} samples")
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        place = np.argmin(np.where(np.isfinite(found), found, -np.inf)) if samples else 0
        what = f"weights[{place}] is {found[place]}" if found.any() else "all are 0"
        raise ValueError(f"ArrayReader: weights are 0 or more, and finite, some above 0; {what}")
    return found


class ArrayIterator(Iterator[tuple[np.ndarray, ...]]):
    """The batches of one pass over an ArrayReader."""

    def __init__(self, reader: ArrayReader, pass_id: int):
        self.reader, self.sample = reader, 0  # the number of the next one
        self._start(pass_id)

    def _start(self, pass_id):
        self.pass_id, reader = pass_id, self.reader
        self.order: np.ndarray | None = None
        if reader.weights is None and not reader.shuffle:
            return
        rng, samples = np.random.default_rng([reader.seed, pass_id]), len(reader.arrays[0])
        if reader.weights is None:
            self.order = rng.permutation(samples)
        else:
            shares = reader.weights / reader.weights.sum()
            self.order = rng.choice(samples, samples, p=shares)

    def __next__(self) -> tuple[np.ndarray, ...]:
        reader, first, samples = self.reader, self.sample, len(self.reader.arrays[0])
        if first >= samples:
            raise StopIteration
        self.sample = min(first + reader.batch_size, samples)
        rows: Any = slice(first, self.sample)
        if self.order is not None:
            rows = self.order[rows]
        return tuple([a[rows] for a in reader.arrays])

    def state(self) -> dict[str, Any]:
        """Return the place behind the last batch."""
        return {"pass": self.pass_id, "sample": self.sample, "data": self.reader.data()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a place, perhaps in another pass; GraphError if it is one in other data."""
        self.reader.check(state)
        pass_id, samples = integer(state["pass"]), len(self.reader.arrays[0])
        # 0.2.0 counted batches
        place = integer(state["sample"] if "sample" in state else state["place"])
        sample = place if "sample" in state else min(place * self.reader.batch_size, samples)
        if not 0 <= sample <= samples:
            raise ValueError(f"ArrayReader: there is no place {place} in {samples} samples")
        self._start(pass_id)
        self.sample, self.reader.passes = sample, pass_id + 1


_PASSES: dict[str, Kind] = {"passes": integer, "data": dict}
_PLACE: dict[str, Kind] = {"pass": integer, "sample": integer, "place": integer, "data": dict}
