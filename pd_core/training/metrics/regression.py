"""Metrics of real predictions, in float64. A nan in a prediction or label makes the result nan."""

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import ShapeError
from .base import Metric, Sums
from .mean import MeanMetric
from .samples import numbers, weights_of


def _pair(who, prediction, label):
    """Predictions and labels as float64 of the same shape, [B] or [B, ...]."""
    y, t = numbers(who, "prediction", prediction), numbers(who, "label", label)
    if y.ndim == t.ndim + 1 and y.shape[-1] == 1:
        y = y[..., 0]
    elif t.ndim == y.ndim + 1 and t.shape[-1] == 1:
        t = t[..., 0]
    if y.shape != t.shape:
        raise ShapeError(
            f"{who}: prediction has shape {np.shape(prediction)}, label has shape {np.shape(label)}"
        )
    return np.atleast_1d(y.astype(np.float64)), np.atleast_1d(t.astype(np.float64))


class MeanAbsoluteError(MeanMetric):
    """Mean of |prediction - label| over samples and outputs.

    Args:
        name: the name in logs.
    """

    def __init__(self, name: str = "mae"):
        super().__init__(name)

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch [B] or [B, ...], with weights of samples.

        Args:
            prediction: numbers [B] or [B, ...].
            label: numbers of the same shape.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            ValueError: a weight is negative.
        """
        y, t = _pair(self.name, prediction, label)
        self.add_mean(abs(y - t), weight)


class MeanSquaredError(MeanMetric):
    """Mean of (prediction - label)² over samples and outputs.

    Args:
        name: the name in logs.
    """

    def __init__(self, name: str = "mse"):
        super().__init__(name)

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch [B] or [B, ...], with weights of samples.

        Args:
            prediction: numbers [B] or [B, ...].
            label: numbers of the same shape.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            ValueError: a weight is negative.
        """
        y, t = _pair(self.name, prediction, label)
        self.add_mean(np.square(y - t), weight)


class RootMeanSquaredError(MeanSquaredError):
    """Square root of the mean of (prediction - label)² over samples and outputs.

    Args:
        name: the name in logs.
    """

    def __init__(self, name: str = "rmse"):
        super().__init__(name)

    def result(self) -> float:
        """Return the root of the mean, nan before the first sample."""
        return self.mean() ** 0.5


class R2(Metric):
    """Coefficient of determination: 1 - residual sum of squares / total sum of squares.

    The mean over outputs for predictions [B, D]. It is nan while all labels of an output are equal.

    Args:
        name: the name in logs.
    """

    def __init__(self, name: str = "r2"):
        super().__init__(name)

    def initial_sums(self) -> Sums:
        """Return the sums by output: of weights and squares, and the means of labels."""
        names = ("weight", "mean", "total_squares", "residual_squares")
        return {name: np.zeros(0) for name in names}

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch [B] or [B, D], with weights of samples.

        Args:
            prediction: numbers [B] or [B, D].
            label: numbers of the same shape.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            ValueError: a weight is negative.
        """
        y, t = _pair(self.name, prediction, label)
        w = weights_of(self.name, weight, t.shape)
        if not t.size:
            return
        w = np.ones(t.shape) if w is None else w
        y, t, w = (values.reshape(len(values), -1) for values in (y, t, w))
        used = w > 0
        y, t = np.where(used, y, 0.0), np.where(used, t, 0.0)
        # Labels minus one of them: equal labels have exactly that mean and no squares.
        shift = t[used.argmax(0), np.arange(t.shape[1])]
        total, d = w.sum(0), np.where(used, t - shift, 0.0)
        mean = _quotient((w * d).sum(0), total)
        squares = {"total": (d - mean) ** 2, "residual": (t - y) ** 2}
        sums = {f"{key}_squares": (w * values).sum(0) for key, values in squares.items()}
        self.add({"weight": total, "mean": shift + mean, **sums})

    def combined(self, sums: Sums, others: Sums) -> Sums:
        """Return the sums over two sets of samples (Chan, Golub & LeVeque 1979)."""
        total = super().combined(sums, others)
        if not sums["weight"].size or not others["weight"].size:
            return total
        share = _quotient(others["weight"], total["weight"])
        delta = others["mean"] - sums["mean"]
        between = delta**2 * sums["weight"] * share
        mean = np.where(share < 1, sums["mean"] + delta * share, others["mean"])
        squares = total["total_squares"] + between
        return {**total, "mean": mean, "total_squares": squares}

    def result(self) -> float:
        """Return the mean over outputs of 1 - residual / total squares."""
        total, residual = self.sums["total_squares"], self.sums["residual_squares"]
        if not total.size or not total.all():
            return float("nan")
        return float(np.mean(1.0 - residual / total))


def _quotient(a, b):
    """a / b, with 0 / 0 = 0."""
    return np.divide(a, b, out=np.zeros(np.shape(b)), where=b != 0)
