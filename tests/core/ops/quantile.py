"""Rows of order statistics and histograms."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed, normal, whole


def _axes(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def _quantile(x, q, axis=None, keep_dim=False):
    return np.quantile(x, q, _axes(axis), keepdims=keep_dim)


def _median(x, axis=None, keep_dim=False):
    return np.median(x, _axes(axis), keepdims=keep_dim)


def _histogram(x, **options):
    options["range"] = (options.pop("low"), options.pop("high"))
    return np.histogram(x, **options)


EDGES = [-1.0, 0.0, 0.0, 0.5, 2.0]
AT_EDGES = fixed([[-3.0, -1.0, 0.0], [0.25, 2.0, np.inf]])
PLACES = {"boundaries": EDGES}

CASES = [
    case("quantile", ops.quantile, _quantile, [distinct(3, 4)], q=0.3),
    case("quantile", ops.quantile, _quantile, [distinct(3, 4)], q=[0.0, 0.45, 1.0], axis=1),
    case("quantile", ops.quantile, _quantile, [distinct(2, 3, 2)], q=0.6, axis=[0, 2]),
    case("quantile", ops.quantile, _quantile, [distinct(3, 5)], q=[0.5], axis=0, keep_dim=True),
    case("median", ops.median, _median, [distinct(3, 4)], axis=1),
    case("median", ops.median, _median, [distinct(5, 3)], axis=0, keep_dim=True),
    case("median", ops.median, _median, [whole(-9, 9, 3, 4)], axis=[0, 1], smooth=False),
    *(
        case(
            "searchsorted",
            lambda x, side: ops.searchsorted(EDGES, x, side),
            lambda x, side: np.searchsorted(EDGES, x, side),
            [AT_EDGES],
            side=side,
            smooth=False,
        )
        for side in ("left", "right")
    ),
    case(
        "histogram",
        lambda x: ops.histogram(x, 5, -1.0, 1.0),
        lambda x: list(np.histogram(x, 5, (-1.0, 1.0))),
        [normal(3, 8)],
        label="range",
        smooth=False,
    ),
    case(
        "histogram",
        lambda x, w: ops.histogram(x, EDGES[:2] + EDGES[3:], weights=w)[0],
        lambda x, w: np.histogram(x, EDGES[:2] + EDGES[3:], weights=w)[0],
        [AT_EDGES, normal(2, 3)],
        label="edges",
        batch=(0, 1),
        smooth=False,
    ),
]
