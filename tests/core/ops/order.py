"""Rows of sorting and of the largest elements."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed

EQUAL = [[2.0, 1.0, 2.0, 1.0, 0.0], [3.0, 3.0, 3.0, -1.0, 7.0]]


def _order(x, axis, descending=False):
    # stable in both directions: equal elements keep their order
    if not descending:
        return np.argsort(x, axis, kind="stable")
    order = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(order, axis)


def _sorted(x, axis=-1, descending=False):
    return np.take_along_axis(x, _order(x, axis, descending), axis)


def _top_k(x, k, axis=-1, largest=True):
    index = np.take(_order(x, axis, largest), np.arange(k), axis)
    return np.take_along_axis(x, index, axis), index


def _unique(x, axis=None):
    values, first, inverse, counts = np.unique(x, True, True, True, axis)
    return values, first, inverse.reshape(-1), counts


CASES = [
    case("ArgMin", ops.arg_min, np.argmin, [distinct(3, 4)], axis=0, smooth=False),
    case(
        "ArgMin",
        lambda x: ops.arg_min(x, keep_dim=True),
        lambda x: np.argmin(x, -1, keepdims=True),
        [fixed(EQUAL, "float32")],
        label="equal",
        smooth=False,
    ),
    *(
        case("top_k", lambda x, **o: ops.top_k(x, **o)[0], lambda x, **o: _top_k(x, **o)[0], x, **o)
        for x, o in [
            ([distinct(3, 4)], {"k": 2}),
            ([distinct(4, 3)], {"k": 3, "axis": 0, "batch": ()}),
            ([distinct(3, 4)], {"k": 2, "largest": False}),
            ([distinct(2, 4, 2)], {"k": 4, "axis": -2}),
        ]
    ),
    case("TopK", ops.top_k, _top_k, [fixed(EQUAL, "float32")], k=3, smooth=False, label="equal"),
    case("TopK", ops.top_k, _top_k, [fixed(EQUAL, "int64")], k=2, smooth=False, label="integers"),
    case("TopK", ops.top_k, _top_k, [fixed(EQUAL, "float32")], k=0, smooth=False),
    case("sort", ops.sort, _sorted, [distinct(3, 4)]),
    case("sort", ops.sort, _sorted, [distinct(3, 4)], axis=0),
    case("sort", ops.sort, _sorted, [distinct(3, 4)], descending=True),
    case("argsort", ops.argsort, _order, [fixed(EQUAL, "float32")], axis=-1, smooth=False),
    case(
        "argsort",
        ops.argsort,
        _order,
        [fixed(EQUAL, "int64")],
        axis=0,
        descending=True,
        smooth=False,
    ),
    case("Unique", ops.unique, _unique, [fixed(EQUAL, "float32")], smooth=False),
    case("Unique", ops.unique, _unique, [fixed([[1, 2], [0, 5], [1, 2]])], axis=0, smooth=False),
    case("Unique", ops.unique, _unique, [fixed([[1, 2, 1], [0, 5, 0]])], axis=1, smooth=False),
]
