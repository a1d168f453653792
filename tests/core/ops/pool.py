"""Rows of pooling to a given size."""

import numpy as np

from pd_core import ops

from .case import case, distinct, normal


def _adaptive(reduce):
    """A reference by loops over all windows, for one or two spatial axes."""

    def pool(x, size):
        sizes = np.broadcast_to(size, x.ndim - 2)
        y = np.empty((*x.shape[:2], *sizes))
        for place in np.ndindex(*sizes):
            windows = (
                slice(k * n // count, -(-(k + 1) * n // count))
                for k, n, count in zip(place, x.shape[2:], sizes, strict=True)
            )
            axes = tuple(range(2, x.ndim))
            y[(..., *place)] = reduce(x[(..., *windows)], axis=axes)
        return y

    return pool


SHAPES = [
    ((2, 2, 6, 4), [3, 2]),
    ((2, 2, 5, 7), 3),
    ((1, 2, 3, 4), [5, 4]),
    ((2, 3, 5, 4), 1),
    ((2, 2, 7), 4),
    ((2, 2, 3), 3),
]
CASES = [
    *(
        case("adaptive_avg_pool", ops.adaptive_avg_pool, _adaptive(np.mean), [normal(*x)], size=k)
        for x, k in SHAPES
    ),
    *(
        case("adaptive_max_pool", ops.adaptive_max_pool, _adaptive(np.max), [distinct(*x)], size=k)
        for x, k in SHAPES
    ),
    case(
        "global_pools",
        lambda x, y: [ops.global_avg_pool(x), ops.global_max_pool(y)],
        lambda x, y: [x.mean((2, 3), keepdims=True), y.max((2, 3, 4), keepdims=True)],
        [normal(2, 3, 4, 2), distinct(2, 2, 3, 1, 2)],
        batch=(0, 1),
    ),
]
