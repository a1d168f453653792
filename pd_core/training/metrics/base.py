"""Metric: sums over all data so far, that add up over batches and over other metrics."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import DTypeError, ShapeError
from ...run.states import entries, text

Option = None | bool | int | float | str
Sums = dict[str, np.ndarray]


class Metric(ABC):
    """A number, or an array of them, over all samples since the last `reset`.

    A subclass has `initial_sums`, `update`, which calls `add` with the sums of a batch, and
    `result`, which computes the metric from `sums`. What is not additive overrides `combined`.
    Options of the constructor that change what is counted are given to `Metric.__init__`: metrics
    and states of other options cannot be merged or restored.

    Integers are counted in int64 and everything else in float64, so counts are exact and do not
    depend on the order of batches.

    Args:
        name: the name in logs.
        options: what states and other metrics must have in common.
    """

    # whether its result is of use for one batch, which may be a few samples
    of_batches = True
    _sums: Sums

    def __init__(self, name: str, **options: Option):
        self.name, self.options = name, options
        self.reset()

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{type(self).__name__}({options})"

    # ---- what a subclass defines

    @abstractmethod
    def initial_sums(self) -> Sums:
        """Return the sums over no samples.

        A sum whose size is known from the first batch on, such as counts of classes, has 0 entries.
        """

    @abstractmethod
    def update(self, prediction: Any, label: Any, weight: Any = None) -> None:
        """Add a batch: predictions, their labels, and the weights of samples, 1 by default."""

    @abstractmethod
    def result(self) -> Any:
        """Return the metric of all that was added: a float, nan before the first sample."""

    def combined(self, sums: Sums, others: Sums) -> Sums:
        """Return the sums over two sets of samples; both are left as they are."""
        return {key: self._total(key, sums[key], others[key]) for key in sums}

    def _total(self, key: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if not a.size or not b.size:
            return b if not a.size else a
        if a.shape != b.shape:
            raise ShapeError(
                f"{self.name}: {key} of shape {b.shape}, those before have shape {a.shape}"
            )
        return np.asarray(a + b)

    # ---- what all have in common

    @property
    def sums(self) -> Sums:
        """The sums over all samples since the last `reset`."""
        return self._sums

    def add(self, sums: Sums) -> None:
        """Add the sums of a batch, of another metric or of a state."""
        self._sums = self.combined(self._sums, sums)

    def reset(self) -> None:
        """Forget all samples."""
        self._sums = self.initial_sums()

    def merge(self, other: Self) -> None:
        """Add all samples of another metric, as if this one had seen them.

        Args:
            other: a metric of the same class and options.

        Raises:
            TypeError: it is of another class, or has other options.
        """
        if type(other) is not type(self) or other.options != self.options:
            raise TypeError(f"{self.name}: {other!r} cannot be merged into {self!r}")
        self.add(other.sums)

    def state(self) -> dict[str, Any]:
        """Return nested dicts of numbers, strings and copies of arrays, for checkpoints."""
        sums = {key: v.copy() if v.ndim else v.item() for key, v in self.sums.items()}
        return {"metric": type(self).__name__, "options": {**self.options}, "sums": sums}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned.

        After an error nothing is changed.

        Args:
            state: what `state` returned.

        Raises:
            ValueError: it is the state of another metric, or no state.
        """
        found = entries(self.name, state, {"metric": text, "options": dict, "sums": dict})
        kind, options, given = found["metric"], found["options"], found["sums"]
        if kind != type(self).__name__ or options != self.options:
            listed = ", ".join(f"{key}={value!r}" for key, value in options.items())
            raise ValueError(f"{self.name}: the state of {kind}({listed}) does not fit {self!r}")
        initial = self.initial_sums()
        if given.keys() != initial.keys():
            raise ValueError(
                f"{self.name}: a state has the sums {', '.join(initial)}, "
                f"not {', '.join(map(str, given))}"
            )
        sums = {key: self._restored(key, given[key], initial[key]) for key in initial}
        sizes = {key: _open_sizes(initial[key], a) for key, a in sums.items()}
        if len(set().union(*sizes.values())) > 1:
            shapes = ", ".join(f"{key} {sums[key].shape}" for key, found in sizes.items() if found)
            raise ShapeError(f"{self.name}: sums of one size, not {shapes}")
        self.combined(initial, sums)  # raises if they do not fit, while nothing is lost
        self.reset()
        self.add(sums)

    def _restored(self, key: str, value: ArrayLike, initial: np.ndarray) -> np.ndarray:
        """Return a copy of a sum, from an array or what JSON makes of it: nested lists."""
        array = np.asarray(value)
        if not array.size:
            return initial
        if array.ndim != initial.ndim:
            raise ShapeError(f"{self.name}: {key} has {initial.ndim} axes, not {array.ndim}")
        if array.dtype.kind not in "fiu":
            raise DTypeError(f"{self.name}: {key} holds {array.dtype} values, which are no sums")
        return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def _open_sizes(initial, array):
    """The sizes of a sum along the axes whose size the first batch has told."""
    # samples that are kept have more axes than none of them
    return {n for d, n in zip(initial.shape, array.shape, strict=False) if d == 0 and n}
