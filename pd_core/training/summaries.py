"""Summaries for TensorBoard: scalars, histograms and settings as its messages."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_SIDE = 32  # buckets on each side of zero
_ZERO_LIMIT = 1e-12  # zeros are in the bucket from 0 to this number, or a smaller one


def scalar_summary(values: Mapping[str, float]) -> Any:
    """Return a Summary of numbers by tag, in the precision of float32. NaN and inf are fine."""
    from tensorboardX.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=t, simple_value=v) for t, v in values.items()])


def histogram_summary(tag: str, values: np.ndarray) -> Any:
    """Return a Summary with the histogram of an array.

    `min`, `max` and the buckets are those of the finite values; `sum` and `sum_squares` are of all,
    so that the mean of an array with NaN is NaN.
    """
    from tensorboardX.summary import histogram_raw

    values = np.asarray(values, np.float64).reshape(-1)
    finite = values if np.isfinite(values).all() else values[np.isfinite(values)]
    limits, counts = _buckets(finite)
    with np.errstate(invalid="ignore", over="ignore"):
        total, squares = values.sum(), values.dot(values)
    low, high = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    return histogram_raw(tag, low, high, values.size, total, squares, limits, counts)


def _buckets(values):
    """The upper limits of buckets and how many values are in each; zeros have one of their own."""
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    if low > 0.0 or high < 0.0:
        if high - low <= 1e-12 * max(abs(low), abs(high)):  # too narrow to be divided
            return [high], [values.size]
        inside, edges = np.histogram(values, 2 * _SIDE)
        return edges[1:].tolist(), inside.tolist()
    zeros = values.size - np.count_nonzero(values)
    limits: list[float] = []
    counts: list[int] = []
    if low < 0.0:
        below, edges = np.histogram(values, _SIDE, (low, 0.0))
        below[-1] -= zeros
        limits, counts = edges[1:].tolist(), below.tolist()
    limits.append(min(_ZERO_LIMIT, high / _SIDE / 2) or _ZERO_LIMIT)
    counts.append(int(zeros))
    if high > 0.0:
        above, edges = np.histogram(values, _SIDE, (0.0, high))
        above[0] -= zeros
        limits, counts = limits + edges[1:].tolist(), counts + above.tolist()
    return limits, counts


def settings_summaries(
    settings: Mapping[str, str | int | float | bool], metrics: Iterable[str]
) -> list[Any]:
    """Return Summaries for TensorBoard's table of hyper-parameters; `metrics` are its columns."""
    from tensorboardX.summary import hparams

    experiment, start, _ = hparams(dict(settings), dict.fromkeys(metrics, 0.0))
    return [experiment, start]
