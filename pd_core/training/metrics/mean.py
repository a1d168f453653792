"""Weighted means of values, one for each sample."""

import numpy as np
from numpy.typing import ArrayLike

from .base import Metric, Sums
from .samples import numbers, weights_of


class MeanMetric(Metric):
    """A weighted mean of values: a subclass computes one for each sample and calls `add_mean`."""

    def initial_sums(self) -> Sums:
        """Return the sum of the values, each by its weight, and of the weights."""
        return {"total": np.asarray(0), "weight": np.asarray(0)}

    def add_mean(self, values: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Add values, one for each sample, whose weights are 1 by default.

        Values of weight 0 are left out. Weights [B] are those of the rows of values [B, ...].
        """
        array = np.atleast_1d(numbers(self.name, "a value", values))
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        w = weights_of(self.name, weight, array.shape)
        if w is None:
            sums = {"total": array.sum(), "weight": np.int64(array.size)}
        else:
            used = w > 0  # others may be nan
            sums = {"total": array[used] @ w[used], "weight": w.sum()}
        self.add({key: np.asarray(value) for key, value in sums.items()})

    def mean(self) -> float:
        """Return the mean of the values, nan if there are none."""
        total, weight = self.sums["total"].item(), self.sums["weight"].item()
        return total / weight if weight else float("nan")

    def result(self) -> float:
        """Return the mean, nan before the first sample."""
        return self.mean()


class Mean(MeanMetric):
    """Running mean of numbers, each by its weight: of costs by the size of their batches, say.

    Args:
        name: the name in logs.
    """

    def __init__(self, name: str = "mean"):
        super().__init__(name)

    def update(
        self, prediction: ArrayLike, label: None = None, weight: ArrayLike | None = None
    ) -> None:
        """Add a number or an array of them, with weights for each; there are no labels.

        Args:
            prediction: a number, or an array of them.
            label: None.
            weight: a number for each, at least 0; 1 by default.

        Raises:
            DTypeError: the values or weights are no numbers.
            ShapeError: the weights do not have the shape of the values.
            TypeError: there is a label.
            ValueError: a weight is negative.
        """
        if label is not None:
            raise TypeError(f"{self.name}: a mean has no labels\n  hint: update(value, weight=...)")
        self.add_mean(prediction, weight)
