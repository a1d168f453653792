"""Metrics of decisions: accuracy, precision, recall and F1, confusion matrices.

The decision is the class of the highest score, the first one of several; for scores of one class,
and with a threshold for each of several labels, whether a score is above the threshold.
"""

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import ShapeError
from .base import Metric, Sums
from .mean import MeanMetric
from .samples import Samples, samples_of

Average = Literal["macro", "micro", "weighted"] | None


def _decisions(who: str, samples: Samples, threshold: float | None) -> np.ndarray:
    """Predicted classes, int64 [N]; with several labels [N, C], whether each is predicted."""
    if samples.scores.dtype.kind != "f":
        if threshold is not None:
            raise TypeError(f"{who}: a threshold is for scores, predictions are integers")
        return samples.scores
    if samples.is_binary or samples.labels.ndim == 2:
        return (samples.scores > (0.5 if threshold is None else threshold)).astype(np.int64)
    return samples.scores.argmax(-1)


class Accuracy(MeanMetric):
    """Share of right decisions; with several labels in a sample, of right labels.

    Scores of one class [B] or [B, 1], in [0, 1] unless there is a `threshold`, with labels 0 or 1;
    scores of classes [B, C] or [B, T, C] with ids or one-hot labels; or predicted classes, which
    are integers. With a threshold, scores [B, C] are of labels [B, C] that are independent.

    Args:
        threshold: the score above which a decision is positive; None for 0.5, or the class of the
            highest score.
        name: the name in logs.
    """

    def __init__(self, threshold: float | None = None, name: str = "accuracy"):
        self.threshold = threshold
        super().__init__(name, threshold=threshold)

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch of scores or predicted classes, with weights of samples.

        Args:
            prediction: scores [B], [B, 1], [B, C] or [B, T, C], floats; or predicted classes,
                integers.
            label: classes, integers, or one-hot rows.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            TypeError: there is a threshold for predicted classes.
            ValueError: a label is no class, a prediction is nan, or a weight negative.
        """
        multi_label = self.threshold is not None
        samples = samples_of(self.name, prediction, label, weight, multi_label=multi_label)
        hits = _decisions(self.name, samples, self.threshold) == samples.labels
        self.add_mean(hits, samples.weight)


class TopK(MeanMetric):
    """Share of samples whose class is among the k with the highest scores.

    Of equal scores the first ones count as higher, so k = 1 is the accuracy.

    Args:
        k: a number of classes, at least 1.
        name: the name in logs. None for `top_<k>`.

    Raises:
        ValueError: k is below 1.
    """

    def __init__(self, k: int = 5, name: str | None = None):
        if k < 1:
            raise ValueError(f"TopK: k is {k}, not 1 or greater")
        self.k = k
        super().__init__(f"top_{k}" if name is None else name, k=k)

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch of scores [B, C] or [B, T, C], with ids or one-hot labels.

        Args:
            prediction: scores [B, C] or [B, T, C], C at least k.
            label: classes, integers, or one-hot rows.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            ValueError: a label is no class, a prediction is nan, or a weight negative.
        """
        samples = samples_of(self.name, prediction, label, weight)
        scores, labels = samples.scores, samples.labels
        if scores.ndim == 1 or scores.shape[1] < self.k:
            raise ShapeError(
                f"{self.name}: prediction has shape {np.shape(prediction)}, "
                f"which are scores of fewer than {self.k} classes"
            )
        own = np.take_along_axis(scores, labels[:, None], 1)
        is_before = np.arange(scores.shape[1]) < labels[:, None]
        rank = np.count_nonzero((scores > own) | ((scores == own) & is_before), axis=1)
        self.add_mean(rank < self.k, samples.weight)


class ClassMetric(Metric):
    """A ratio of the numbers of hits, decisions and labels of each class.

    average="macro" is the mean over classes, "weighted" the mean by the number of labels, "micro"
    the ratio of the numbers of all classes together, and None an array [C]. Scores of one class
    give the ratio of the positive class, whatever the average. With a `threshold`, scores [B, C]
    are of labels [B, C] that are independent. `classes` is the number of classes, needed only if
    predictions are predicted classes.

    As in scikit-learn, 0 / 0 is 0. A class that is neither a label nor a decision is left out of
    the mean, and nan in the array, unless there is a threshold.

    Args:
        average: "macro", "micro", "weighted" or None.
        threshold: the score above which a decision is positive; None for 0.5, or the class of the
            highest score.
        classes: the number of classes; None if scores tell it.
        name: the name in logs.

    Raises:
        ValueError: `average` is another.
    """

    def __init__(
        self,
        average: Average = "macro",
        threshold: float | None = None,
        classes: int | None = None,
        name: str | None = None,
    ):
        name = type(self).__name__.lower() if name is None else name
        averages = ("macro", "micro", "weighted", None)
        if average not in averages:
            raise ValueError(f"{name}: average is {average!r}, not one of {averages}")
        self.average, self.threshold, self.classes = average, threshold, classes
        super().__init__(name, average=average, threshold=threshold, classes=classes)

    @abstractmethod
    def ratio(self, hits: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        """Return the metric of numbers of true positives, decisions and labels."""

    def initial_sums(self) -> Sums:
        """Return the numbers of each class, and the weight of all samples."""
        zeros = np.zeros(self.classes or 0, np.int64)
        return {"hits": zeros, "predicted": zeros, "labelled": zeros, "weight": np.asarray(0)}

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch of scores or predicted classes, with weights of samples.

        Args:
            prediction: scores [B], [B, 1], [B, C] or [B, T, C], floats; or predicted classes,
                integers.
            label: classes, integers, or one-hot rows.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            TypeError: there is a threshold for predicted classes.
            ValueError: a label is no class, a prediction is nan, a weight negative, or the number
                of classes of predicted ones unknown.
        """
        has_threshold = self.threshold is not None
        samples = samples_of(self.name, prediction, label, weight, self.classes, has_threshold)
        if samples.is_binary and self.classes is not None:
            raise ShapeError(
                f"{self.name}: prediction has shape {np.shape(prediction)}, "
                f"there are {self.classes} classes"
            )
        decisions, labels, w = (
            _decisions(self.name, samples, self.threshold),
            samples.labels,
            samples.weight,
        )
        if samples.is_binary:
            decisions, labels = decisions[:, None], labels[:, None]
        if labels.ndim == 2:
            tables = (decisions & labels, decisions, labels)
            counts = [table.sum(0) if w is None else w @ table for table in tables]
        else:
            classes, hits = _width(self.name, samples, self.classes), decisions == labels
            counts = [
                np.bincount(labels[hits], None if w is None else w[hits], classes),
                np.bincount(decisions, w, classes),
                np.bincount(labels, w, classes),
            ]
        total = np.asarray(len(labels) if w is None else w.sum())
        names = ("hits", "predicted", "labelled", "weight")
        self.add(dict(zip(names, (*counts, total), strict=True)))

    def result(self) -> float | np.ndarray:
        """Return the metric, nan before the first sample; an array [C] for average=None."""
        hits, predicted, labelled = (self.sums[k] for k in ("hits", "predicted", "labelled"))
        is_binary = self.classes is None and len(hits) == 1
        is_array = self.average is None and not is_binary
        if not self.sums["weight"]:
            return np.full(len(hits), np.nan) if is_array else float("nan")
        ratios = self.ratio(hits, predicted, labelled)
        if is_binary:
            return float(ratios[0])
        if self.average == "micro":
            return float(self.ratio(hits.sum(), predicted.sum(), labelled.sum()))
        if self.average == "weighted":
            return float(_quotient(ratios @ labelled, labelled.sum()))
        is_counted = (predicted + labelled > 0) | (self.threshold is not None)
        if self.average == "macro":
            return float(ratios[is_counted].mean())
        return np.where(is_counted, ratios, np.nan)


class Precision(ClassMetric):
    """Share of right decisions among the decisions for a class; averages as of ClassMetric.

    Args:
        average: "macro", "micro", "weighted" or None.
        threshold: the score above which a decision is positive; None for 0.5, or the class of the
            highest score.
        classes: the number of classes; None if scores tell it.
        name: the name in logs.

    Raises:
        ValueError: `average` is another.
    """

    def ratio(self, hits: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        """Return true positives / decisions."""
        return _quotient(hits, predicted)


class Recall(ClassMetric):
    """Share of the samples of a class that are found; averages as of ClassMetric.

    Args:
        average: "macro", "micro", "weighted" or None.
        threshold: the score above which a decision is positive; None for 0.5, or the class of the
            highest score.
        classes: the number of classes; None if scores tell it.
        name: the name in logs.

    Raises:
        ValueError: `average` is another.
    """

    def ratio(self, hits: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        """Return true positives / labels."""
        return _quotient(hits, labelled)


class F1(ClassMetric):
    """Harmonic mean of precision and recall of a class; averages as of ClassMetric.

    Args:
        average: "macro", "micro", "weighted" or None.
        threshold: the score above which a decision is positive; None for 0.5, or the class of the
            highest score.
        classes: the number of classes; None if scores tell it.
        name: the name in logs.

    Raises:
        ValueError: `average` is another.
    """

    def ratio(self, hits: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        """Return 2 true positives / (decisions + labels)."""
        return _quotient(2 * hits, predicted + labelled)


class ConfusionMatrix(Metric):
    """Numbers of samples by class and decision, [C, C]: rows are labels, columns decisions.

    Scores of one class give two classes. `classes` is the number of classes, needed only if
    predictions are predicted classes.

    Args:
        classes: the number of classes; None if scores tell it.
        threshold: the score of one class above which a decision is positive; None for 0.5.
        name: the name in logs.
    """

    def __init__(
        self,
        classes: int | None = None,
        threshold: float | None = None,
        name: str = "confusion_matrix",
    ):
        self.classes, self.threshold = classes, threshold
        super().__init__(name, classes=classes, threshold=threshold)

    def initial_sums(self) -> Sums:
        """Return the matrix of no samples."""
        classes = self.classes or 0
        return {"matrix": np.zeros((classes, classes), np.int64)}

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch of scores or predicted classes, with weights of samples.

        Args:
            prediction: scores [B], [B, 1], [B, C] or [B, T, C], floats; or predicted classes,
                integers.
            label: classes, integers, or one-hot rows.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: prediction, label and weight do not fit each other.
            ValueError: a label is no class, a prediction is nan, a weight negative, or the number
                of classes of predicted ones unknown.
        """
        samples = samples_of(self.name, prediction, label, weight, self.classes)
        if self.threshold is not None and not samples.is_binary:
            shape = np.shape(prediction)
            raise ShapeError(f"{self.name}: a threshold is for scores of one class, not {shape}")
        classes = _width(self.name, samples, self.classes)
        cells = samples.labels * classes + _decisions(self.name, samples, self.threshold)
        counts = np.bincount(cells, samples.weight, classes * classes)
        self.add({"matrix": counts.reshape(classes, classes)})

    def result(self) -> np.ndarray:
        """Return the matrix: int64, or float64 if there are weights; of no samples, zeros.

        It is [0, 0] while the number of classes is unknown.
        """
        return self.sums["matrix"].copy()


def _width(who, samples, classes):
    """The number of classes of samples that have one label each."""
    if samples.is_binary:
        return 2
    if samples.scores.ndim == 2:
        return samples.scores.shape[1]
    if classes is None:
        raise ValueError(f"{who}: predicted classes need the number of classes, as classes=")
    return classes


def _quotient(a, b):
    """a / b, with 0 / 0 = 0."""
    return np.divide(a, b, out=np.zeros(np.shape(b)), where=np.asarray(b) != 0)
