"""Readers of batches: functions that return an iterable, and batches of arrays."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..graph.arrays import host_array
from ..graph.errors import ShapeError
from ..graph.other_words import Signature, check_arguments
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
    the last one shorter, or left out with `drop_last`. Every pass has an order of its own, which
    the seed determines.

    With `weights` [N], numbers of 0 or more, each pass draws `samples` of them, by default N, each
    with a probability in proportion to its weight: rare classes as often as others, say. They are
    drawn with replacement; with `replacement=False` each at most once, in proportion to the weights
    of those that are left, so that at least as many have a weight above 0. These are the rules of
    PyTorch's WeightedRandomSampler. `shuffle` makes no difference then. Without weights `samples`
    are as many of a pass: the first, or with `shuffle` others in each pass.

    A place is that of a sample: with another `batch_size` a training goes on there. Other arrays,
    weights, and another order, are refused.
    """

    if not TYPE_CHECKING:
        __signature__ = Signature()

        def __new__(cls, *args, **kwargs):
            check_arguments(cls, kwargs)
            return object.__new__(cls)

    def __init__(
        self,
        *arrays: np.ndarray,
        batch_size: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        weights: ArrayLike | None = None,
        samples: int | None = None,
        replacement: bool = True,
        drop_last: bool = False,
    ):
        self.arrays = [host_array(a) for a in arrays]
        if not self.arrays or any(a.ndim == 0 for a in self.arrays):
            raise ShapeError("ArrayReader: takes arrays whose first axis is the samples")
        lengths = [len(a) for a in self.arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(f"ArrayReader: arrays of {lengths} samples")
        _check_count("batch_size", batch_size)
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"ArrayReader: seed is a whole number of 0 or more, not {seed!r}")
        self.batch_size, self.shuffle, self.seed = int(batch_size), shuffle, int(seed)
        self.weights = None if weights is None else _checked_weights(weights, lengths[0])
        self.replacement, self.drop_last = replacement, drop_last
        self.samples = lengths[0] if samples is None else self._checked_samples(samples)
        if weights is None and not replacement:
            raise ValueError("ArrayReader: replacement=False says how samples are drawn by weights")
        if not self.end:
            raise ValueError(
                f"ArrayReader: drop_last leaves nothing of {self.samples} samples in batches of "
                f"{self.batch_size}"
            )
        if self.weights is not None and not replacement:
            drawable = np.count_nonzero(self.weights)
            if self.samples > drawable:
                raise ValueError(
                    f"ArrayReader: {self.samples} samples without replacement of {drawable} whose "
                    "weight is above 0\n  hint: samples=, which is by default all"
                )
        self.passes = 0  # that have begun

    def _checked_samples(self, samples):
        _check_count("samples", samples)
        if self.weights is None and samples > len(self.arrays[0]):
            raise ValueError(
                f"ArrayReader: {samples} samples of {len(self.arrays[0])}\n"
                "  hint: with weights they are drawn with replacement"
            )
        return int(samples)

    def __len__(self) -> int:
        """Return the number of batches of a pass."""
        return -(-self.end // self.batch_size)

    @property
    def end(self) -> int:
        """The number of samples of a pass that are in batches."""
        return self.samples - (self.samples % self.batch_size if self.drop_last else 0)

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
        if self.samples != len(self.arrays[0]):
            order["samples of a pass"] = self.samples
        if not self.replacement:
            order["replacement"] = False
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


def _check_count(name, value):
    """Check a number of samples."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"ArrayReader: {name} is a number of samples, not {value!r}")
    if value < 1:
        raise ValueError(f"ArrayReader: {name} is at least 1, not {value}")


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
            self.order = rng.permutation(samples)[: reader.samples]
        elif reader.replacement:
            shares = reader.weights / reader.weights.sum()
            self.order = rng.choice(samples, reader.samples, p=shares)
        else:
            self.order = _drawn_once(rng, reader.weights, reader.samples)

    def __next__(self) -> tuple[np.ndarray, ...]:
        reader, first = self.reader, self.sample
        left = reader.samples - first  # of a pass that was resumed with another size, too
        if left <= 0 or (reader.drop_last and left < reader.batch_size):
            raise StopIteration
        self.sample = first + min(reader.batch_size, left)
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
        pass_id, samples = integer(state["pass"]), self.reader.samples
        # 0.2.0 counted batches
        place = integer(state["sample"] if "sample" in state else state["place"])
        sample = place if "sample" in state else min(place * self.reader.batch_size, samples)
        if not 0 <= sample <= samples:
            raise ValueError(f"ArrayReader: there is no place {place} in {samples} samples")
        self._start(pass_id)
        self.sample, self.reader.passes = sample, pass_id + 1


def _drawn_once(rng, weights, samples):
    """Draw samples by weights, none of them twice.

    The first of exponential times with these rates: in each draw the chance of what is left is in
    proportion to its weight (Efraimidis & Spirakis 2006).
    """
    times = np.full(weights.shape, np.inf)
    drawn = np.flatnonzero(weights)
    times[drawn] = rng.exponential(size=len(drawn)) / weights[drawn]
    return np.argsort(times, kind="stable")[:samples]


_PASSES: dict[str, Kind] = {"passes": integer, "data": dict}
_PLACE: dict[str, Kind] = {"pass": integer, "sample": integer, "place": integer, "data": dict}
