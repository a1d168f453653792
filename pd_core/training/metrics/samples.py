"""Predictions, labels and weights as rows of samples, from any of the shapes that they have.

Samples may have several axes, [B] or [B, T], which are flattened to N rows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import DTypeError, ShapeError


@dataclass(frozen=True, slots=True)
class Samples:
    """N samples of a classification.

    `scores` is float [N] of one class, float [N, C] of C classes, or int64 [N], predicted classes.
    `labels` is int64 [N], or [N, C] of zeros and ones if there may be several labels in a sample.
    """

    scores: np.ndarray
    labels: np.ndarray
    weight: np.ndarray | None  # float64 [N], None for 1 each

    @property
    def is_binary(self) -> bool:
        """Whether there are scores of one class only."""
        return self.scores.ndim == 1 and self.scores.dtype.kind == "f"


def samples_of(
    who: str,
    prediction: ArrayLike,
    label: ArrayLike,
    weight: ArrayLike | None = None,
    classes: int | None = None,
    multi_label: bool = False,
) -> Samples:
    """Return the samples of a batch, those of weight 0 left out.

    Scores of one class are float or bool [B], [B, 1] or [B, T, 1], with labels 0 or 1 of the same
    shape, or without the 1. Scores of C classes are [..., C], with ids [...] or [..., 1], or with
    one-hot or `multi_label` labels [..., C]. Integer predictions are predicted classes, below
    `classes` if that is known.
    """
    p, y = numbers(who, "prediction", prediction), numbers(who, "label", label)
    is_single = p.ndim < 2 or p.shape[-1] == 1
    if p.ndim >= 2 and p.shape[-1] == 1:
        p = p[..., 0]
    if p.dtype.kind == "b":
        p = p.astype(np.float32)
    if is_single or p.dtype.kind != "f":
        return _single(who, p, y, weight, classes, (prediction, label))
    y = y[..., 0] if y.ndim == p.ndim and y.shape[-1] == 1 else y
    if multi_label and y.shape != p.shape:
        raise _mismatch(who, prediction, label, "\n  with a threshold, labels are 0 or 1 by class")
    if y.shape not in (p.shape[:-1], p.shape):
        raise _mismatch(who, prediction, label)
    if classes not in (None, p.shape[-1]):
        raise ShapeError(f"{who}: prediction has shape {p.shape}, there are {classes} classes")
    *axes, width = p.shape
    kept, w = _weighted(who, weight, tuple(axes))
    rows = math.prod(axes)
    p, y = p.reshape(rows, width)[kept], y.reshape(rows, *y.shape[len(axes) :])[kept]
    _check_nan(who, p)
    if multi_label:
        return Samples(p, integers(who, y, 2), w)
    return Samples(p, integers(who, y, width) if y.ndim == 1 else _of_one_hot(who, y), w)


def _single(who, p, y, weight, classes, given):
    """The samples of one score or predicted class each."""
    y = y[..., 0] if y.ndim == p.ndim + 1 and y.shape[-1] == 1 else y
    if p.shape != y.shape:
        raise _mismatch(who, *given)
    kept, w = _weighted(who, weight, p.shape)
    p, y = p.reshape(-1)[kept], y.reshape(-1)[kept]
    if p.dtype.kind == "f":
        _check_nan(who, p)
        return Samples(p, integers(who, y, 2), w)
    return Samples(integers(who, p, classes, "predicted class"), integers(who, y, classes), w)


def numbers(who: str, what: str, values: ArrayLike) -> np.ndarray:
    """Return values as an array; DTypeError if they are no numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{who}: {what} holds {array.dtype} values, which are no numbers")
    return array


def integers(
    who: str, values: np.ndarray, bound: int | None = None, what: str = "label"
) -> np.ndarray:
    """Return int64 of integers in [0, bound); ValueError names the first other value."""
    result = values
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # nan is found by the comparison
            result = values.astype(np.int64)
    wrong = (result != values) | (result < 0)
    if bound is not None:
        wrong |= result >= bound
    if wrong.any():
        limits = "" if bound is None else f" to {bound - 1}"
        raise ValueError(
            f"{who}: {what} {values[wrong][0].item()!r}, not an integer from 0{limits}"
        )
    return result.astype(np.int64)


def _of_one_hot(who, y):
    ids = integers(who, y, 2)
    counts = ids.sum(-1)
    if (counts != 1).any():
        raise ValueError(
            f"{who}: label {y[counts != 1][0].tolist()} has {counts[counts != 1][0]} ones, one-hot "
            "labels have one\n  hint: with a threshold there may be several"
        )
    return ids.argmax(-1)


def _check_nan(who, scores):
    wrong = np.isnan(scores) if scores.ndim == 1 else np.isnan(scores).any(1)
    if wrong.any():
        raise ValueError(f"{who}: prediction is nan in {wrong.sum()} of {len(wrong)} samples")


def weights_of(who: str, weight: ArrayLike | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return float64 weights of the shape of the samples, None for 1 each.

    They are given for each sample, or for the first of several axes: [B] or [B, 1] for [B, T].
    """
    if weight is None:
        return None
    given = numbers(who, "weight", weight).astype(np.float64)
    w = given[..., 0] if given.ndim == len(shape) + 1 and given.shape[-1] == 1 else given
    pairs = zip(w.shape, shape, strict=False)
    if w.ndim > len(shape) or any(a != b and (a != 1 or not k) for k, (a, b) in enumerate(pairs)):
        raise ShapeError(f"{who}: weight has shape {given.shape}, the samples have shape {shape}")
    wrong = ~(np.isfinite(w) & (w >= 0))
    if wrong.any():
        raise ValueError(f"{who}: weight {w[wrong][0].item()!r}, weights are 0 or greater")
    return np.broadcast_to(w.reshape(w.shape + (1,) * (len(shape) - w.ndim)), shape)


def _weighted(who, weight, shape):
    """Return the index of the samples whose weight is not 0, and these weights."""
    w = weights_of(who, weight, shape)
    if w is None:
        return slice(None), None
    w = w.reshape(-1)
    return w > 0, w[w > 0]


def _mismatch(who, prediction, label, remark=""):
    shapes = np.shape(prediction), np.shape(label)
    return ShapeError(
        f"{who}: prediction has shape {shapes[0]}, label has shape {shapes[1]}{remark}"
    )
