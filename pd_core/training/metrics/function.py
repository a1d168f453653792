"""Metrics of other libraries: functions of all labels and predictions, torchmetrics' objects."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import ShapeError
from ...graph.handlers import check_takes
from .base import Metric, Sums
from .samples import numbers, weights_of


class FunctionMetric(Metric):
    """A function (y_true, y_pred) -> number of all samples, such as scikit-learn's metrics.

    It keeps labels and predictions, those of the samples so far, and the function is called with
    all of them for a `result`. With weights it is called with `sample_weight`, too. A metric object
    of torchmetrics is computed by its `update` and `compute`, over tensors of all samples.

    `Evaluate` and `Module.fit` take the function itself among their metrics. They compute it at the
    end of a pass and of a test, not for each batch, in which classes may be missing.

    Args:
        function: (y_true, y_pred) -> number, or a metric object of torchmetrics.
        name: the name in logs, by default that of the function.

    Raises:
        TypeError: the function does not take two arguments.
        ValueError: the function has no name, and none is given.
    """

    of_batches = False
    _parts: list[Sums]

    def __init__(self, function: Any, name: str | None = None):
        self.function = _of_torchmetrics(function) if _is_torchmetrics(function) else function
        check_takes("a metric", self.function, "y_true", "y_pred")
        super().__init__(name or _name_of(function))

    def __repr__(self) -> str:
        return f"FunctionMetric({self.name})"

    def initial_sums(self) -> Sums:
        """Return no labels, predictions and weights."""
        return {key: np.zeros(0) for key in ("prediction", "label", "weight")}

    @property
    def sums(self) -> Sums:
        """The predictions, labels and weights of all samples since the last `reset`."""
        if len(self._parts) > 1:  # joined when they are asked for, not with each batch
            every = {key: [p[key] for p in self._parts if p[key].size] for key in self._sums}
            joined = {key: np.concatenate(a) if a else np.zeros(0) for key, a in every.items()}
            self._parts = [joined]
        return self._parts[0]

    def reset(self) -> None:
        """Forget all samples."""
        super().reset()
        self._parts = [self._sums]

    def add(self, sums: Sums) -> None:
        """Add the samples of a batch, of another metric or of a state."""
        first = next((part for part in self._parts if part["prediction"].size), sums)
        self.combined(first, sums)
        self._parts.append(sums)

    def combined(self, sums: Sums, others: Sums) -> Sums:
        """Check that the samples of two sets fit together; return those of the second."""
        for key, a in sums.items():
            b = others[key]
            if a.size and b.size and a.shape[1:] != b.shape[1:]:
                raise ShapeError(f"{self.name}: {key} {b.shape}, those before had {a.shape}")
        both = bool(sums["label"].size and others["label"].size)
        if both and bool(sums["weight"].size) != bool(others["weight"].size):
            raise ValueError(f"{self.name}: some batches have weights, others have none")
        return others

    def _restored(self, key: str, value: ArrayLike, initial: np.ndarray) -> np.ndarray:
        array = numbers(self.name, key, np.array(value))
        if not array.ndim:
            raise ShapeError(f"{self.name}: {key} of samples is no number, {array}")
        return array

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch.

        Args:
            prediction: an array [B, ...], the outputs as they are.
            label: an array [B, ...].
            weight: weights [B] of 0 or more; samples of weight 0 are left out.

        Raises:
            DTypeError: the values are no numbers.
            ShapeError: there are other numbers of samples, or other shapes than before.
            ValueError: a weight is negative, or some batches have weights and others none.
        """
        p, y = numbers(self.name, "prediction", prediction), numbers(self.name, "label", label)
        if p.shape[:1] != y.shape[:1] or not p.ndim:
            raise ShapeError(f"{self.name}: prediction {p.shape} of samples with label {y.shape}")
        w = weights_of(self.name, weight, p.shape[:1])
        if w is None:
            w = np.zeros(0)
        else:
            p, y, w = p[w > 0], y[w > 0], w[w > 0]
        self.add({"prediction": p.copy(), "label": y.copy(), "weight": w.copy()})

    def result(self) -> float:
        """Return what the function gives for all samples, nan before the first one."""
        sums = self.sums
        y, p, w = sums["label"], sums["prediction"], sums["weight"]
        if not len(y):
            return float("nan")
        try:
            value = self.function(y, p, **({"sample_weight": w} if w.size else {}))
        except Exception as error:
            error.add_note(
                f"  {self.name}: of y_true {y.dtype}{list(y.shape)}, y_pred {p.dtype}"
                f"{list(p.shape)}, the outputs\n  hint: a metric of decisions takes these, "
                "metrics=[FunctionMetric(lambda y, p: f1_score(y, p.argmax(1)), name='f1')]"
            )
            raise
        if np.ndim(value) or isinstance(value, dict):
            what = f"an array {np.shape(value)}" if np.ndim(value) else "a dict"
            raise TypeError(f"{self.name}: a metric is one number, the function returned {what}")
        return float(value)


def _name_of(function):
    """The name of a function, of the one in a partial, or of the class of an object."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ValueError(
            "a metric has a name, a lambda has none\n"
            "  hint: pd.metrics.FunctionMetric(function, name='f1')"
        )
    return name


def _is_torchmetrics(function):
    return not inspect.isclass(function) and all(
        callable(getattr(function, name, None)) for name in ("update", "compute", "reset")
    )


def parts_of(metric: Any) -> list[Any]:
    """Return the metrics of a MetricCollection of torchmetrics under their names, else the one."""
    if callable(getattr(metric, "items", None)) and _is_torchmetrics(metric):
        return [FunctionMetric(part, name) for name, part in metric.items()]
    return [metric]


def _of_torchmetrics(metric: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return a function that computes an object of torchmetrics anew, of tensors of all samples."""

    def computed(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        import torch

        metric.reset()
        metric.update(torch.from_numpy(y_pred), torch.from_numpy(y_true))
        return metric.compute()

    return computed
