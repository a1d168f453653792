"""Metrics of how scores order the samples of two classes: area under curves."""

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import ShapeError
from .base import Metric, Sums
from .samples import Samples, samples_of


class RankingMetric(Metric):
    """A metric of the numbers of positive and negative samples at each score.

    Every score is kept, so memory grows with the number of distinct ones, and `result` sorts. With
    `bins`, scores are in [0, 1] and counted in that many bins of equal width: constant memory, and
    the scores of a bin are equal.

    Args:
        bins: the number of bins; None keeps every score.
        name: the name in logs.

    Raises:
        ValueError: bins is below 1.
    """

    def __init__(self, bins: int | None = None, name: str | None = None):
        name = type(self).__name__.lower() if name is None else name
        if bins is not None and bins < 1:
            raise ValueError(f"{name}: bins is {bins}, not 1 or greater")
        self.bins = bins
        super().__init__(name, bins=bins)

    def initial_sums(self) -> Sums:
        """Return the numbers of positive and negative samples by bin, or by score."""
        if self.bins is not None:
            return {key: np.zeros(self.bins, np.int64) for key in ("positives", "negatives")}
        counts = np.zeros(0, np.int64)
        return {"scores": np.zeros(0, np.float32), "positives": counts, "negatives": counts}

    def reset(self) -> None:
        """Forget all samples."""
        super().reset()
        self._batches: list[Sums] = []

    def update(
        self, prediction: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch: scores of one class, or probabilities [B, 2] of two, with their labels.

        Args:
            prediction: scores [B] or [B, 1], or probabilities [B, 2], floats.
            label: 0 or 1 for each, or one-hot rows.
            weight: numbers of samples, at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: there are more than two classes, or prediction, label and weight do not fit
                each other.
            TypeError: the prediction is integers.
            ValueError: probabilities do not sum to 1, a score is outside of the bins, a label is
                not 0 or 1, or a weight negative.
        """
        samples = samples_of(self.name, prediction, label, weight)
        scores = _positive_scores(self.name, samples, np.shape(prediction))
        w = np.int64(1) if samples.weight is None else samples.weight
        positives, negatives = samples.labels * w, (1 - samples.labels) * w
        if self.bins is None:
            # a copy, because readers may use the memory of a batch again
            self.add({"scores": scores.copy(), "positives": positives, "negatives": negatives})
            return
        outside = (scores < 0) | (scores > 1)
        if outside.any():
            raise ValueError(
                f"{self.name}: score {scores[outside][0].item()!r}, bins take scores from 0 to 1"
            )
        places = np.minimum((scores.astype(np.float64) * self.bins).astype(np.int64), self.bins - 1)
        tables = {"positives": positives, "negatives": negatives}
        sums = {key: np.zeros(self.bins, counts.dtype) for key, counts in tables.items()}
        for key, counts in tables.items():
            np.add.at(sums[key], places, counts)
        self.add(sums)

    def add(self, sums: Sums) -> None:
        """Add the sums of a batch, of another metric or of a state."""
        if self.bins is None:
            self._batches.append(sums)  # sorted all at once, when `sums` is asked for
        else:
            super().add(sums)

    @property
    def sums(self) -> Sums:
        """The numbers of samples, and the distinct scores in ascending order."""
        if self._batches:
            batches, self._batches = [self._sums, *self._batches], []
            self._sums = _joined(batches)
        return self._sums

    def combined(self, sums: Sums, others: Sums) -> Sums:
        """Return the sums over two sets of samples; both are left as they are."""
        return super().combined(sums, others) if self.bins is not None else _joined([sums, others])


class AUC(RankingMetric):
    """Area under the ROC curve: how often a positive sample has a higher score than a negative one.

    Equal scores count one half (the Mann-Whitney U statistic divided by the number of pairs).

    Args:
        bins: the number of bins; None keeps every score.
        name: the name in logs.

    Raises:
        ValueError: bins is below 1.
    """

    def result(self) -> float:
        """Return the area, nan unless there are samples of both classes."""
        positives, negatives = self.sums["positives"], self.sums["negatives"]
        pairs = float(positives.sum()) * float(negatives.sum())
        if not pairs:
            return float("nan")
        below = np.cumsum(negatives) - negatives
        return float(positives @ (below + 0.5 * negatives)) / pairs


class AveragePrecision(RankingMetric):
    """Average precision: the sum over scores of precision times the growth of recall.

    It is the area under the steps of the precision-recall curve, without interpolation.

    Args:
        bins: the number of bins; None keeps every score.
        name: the name in logs.

    Raises:
        ValueError: bins is below 1.
    """

    def __init__(self, bins: int | None = None, name: str = "average_precision"):
        super().__init__(bins, name)

    def result(self) -> float:
        """Return the average precision, nan without positive samples."""
        positives, negatives = self.sums["positives"][::-1], self.sums["negatives"][::-1]
        total = positives.sum()
        if not total:
            return float("nan")
        is_used = positives > 0  # nothing is added elsewhere, and an empty bin may be 0 / 0
        hits, decisions = np.cumsum(positives), np.cumsum(positives + negatives)
        precision = hits[is_used] / decisions[is_used]
        return float(positives[is_used] @ precision / total)


def _positive_scores(who: str, samples: Samples, shape: tuple[int, ...]) -> np.ndarray:
    """Scores of the positive class [N]."""
    scores = samples.scores
    if samples.is_binary:
        return scores
    if scores.ndim == 1:
        raise TypeError(f"{who}: prediction {shape} holds integers, scores are floats")
    if scores.shape[1] != 2:
        raise ShapeError(f"{who}: prediction {shape} has {scores.shape[1]} classes, not two")
    sums = scores.sum(1, dtype=np.float64)
    wrong = ~(np.abs(sums - 1) < 0.01)
    if wrong.any():  # the order by one of two logits is not that by the probability
        raise ValueError(
            f"{who}: prediction {shape} is probabilities of two classes, and the sum of "
            f"{scores[wrong][0].tolist()} is not 1\n  hint: softmax, or the scores of one class"
        )
    return scores[:, 1]


def _joined(batches: list[Sums]) -> Sums:
    """Sums by distinct scores, in ascending order."""
    joined = {key: np.concatenate([sums[key] for sums in batches]) for key in batches[0]}
    order = np.argsort(joined["scores"])
    joined = {key: values[order] for key, values in joined.items()}
    scores = joined.pop("scores")
    if not len(scores):
        return {"scores": scores, **joined}
    starts = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]]))
    counts = {key: np.add.reduceat(values, starts) for key, values in joined.items()}
    return {"scores": scores[starts], **counts}
