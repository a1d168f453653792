"""Rows of functions of segments, against loops over them in NumPy."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed

IDS = np.int64([2, 0, 2, 2, 4, 0])
COUNT = 5  # the segments 1 and 3 are empty


def rows_of(a, reduce):
    """Reduce the rows of each segment; zeros for an empty one."""
    parts = [a[k == IDS] for k in range(COUNT)]
    return np.stack([reduce(p, 0) if len(p) else np.zeros(a.shape[1:]) for p in parts])


def softmax(a):
    """The exponentials of each segment, divided by their sum."""
    y = np.empty_like(a)
    for k in set(IDS):
        powers = np.exp(a[k == IDS] - a[k == IDS].max(0))
        y[k == IDS] = powers / powers.sum(0)
    return y


REFERENCES = {
    "segment_sum": lambda a: rows_of(a, np.sum),
    "segment_mean": lambda a: rows_of(a, np.mean),
    "segment_max": lambda a: rows_of(a, np.max),
    "segment_min": lambda a: rows_of(a, np.min),
    "segment_softmax": softmax,
}
FUNCTIONS = {
    "segment_sum": ops.segment_sum,
    "segment_mean": ops.segment_mean,
    "segment_max": ops.segment_max,
    "segment_min": ops.segment_min,
    "segment_softmax": ops.segment_softmax,
}
CASES = [
    case(
        name,
        function,
        lambda a, ids, count, f=REFERENCES[name]: f(a),
        [distinct(6, 3), fixed(IDS)],
        count=COUNT,
    )
    for name, function in FUNCTIONS.items()
]
