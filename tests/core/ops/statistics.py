"""Rows of reductions that are computed from others."""

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, flags, normal

AXES = [(None, False), (0, True), (-1, False), ([0, 2], False)]
INF = float("inf")


def _axes(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def _logsumexp(x, axis=None, keep_dim=False):
    return np.logaddexp.reduce(
        x.reshape(-1) if axis is None else x, 0 if axis is None else axis, keepdims=keep_dim
    )


def _var(x, axis=None, keep_dim=False, correction=1):
    return np.var(x, _axes(axis), ddof=correction, keepdims=keep_dim)


def _std(x, axis=None, keep_dim=False, correction=1):
    return np.std(x, _axes(axis), ddof=correction, keepdims=keep_dim)


def _norm(x, p=2, axis=None, keep_dim=False):
    if p in (INF, -INF):
        return (np.max if p > 0 else np.min)(np.abs(x), _axes(axis), keepdims=keep_dim)
    return (np.abs(x) ** p).sum(_axes(axis), keepdims=keep_dim) ** (1 / p)


def _count(x, axis=None, keep_dim=False):
    return np.count_nonzero(x, _axes(axis), keepdims=keep_dim)


ZEROS = [[0.0, 1.0, 0.0], [-2.0, 0.0, 0.0]]
UNLIKE = fixed([[0.5, -2.0, 1.0], [-3.0, 0.7, 1.5]])  # in size too
HALF = np.indices((2, 3, 4)).sum(0) % 2 == 0

CASES = [
    *(
        case(name, function, reference, [normal(2, 3, 4)], axis=axis, keep_dim=keep)
        for name, function, reference in (
            ("logsumexp", ops.logsumexp, _logsumexp),
            ("var", ops.var, _var),
            ("std", ops.std, _std),
            ("norm", ops.norm, _norm),
        )
        for axis, keep in AXES
        if not (name == "logsumexp" and isinstance(axis, list))
    ),
    case("logsumexp", ops.logsumexp, _logsumexp, [between(900, 901, 3, 4)], axis=1, label="large"),
    case("var", ops.var, _var, [normal(3, 4)], axis=0, correction=0),
    case("std", ops.std, _std, [normal(3, 4)], axis=1, correction=0.5),
    case("norm", ops.norm, _norm, [distinct(3, 4)], p=1, axis=1),
    case("norm", ops.norm, _norm, [distinct(3, 4)], p=3.5, axis=0, rtol=1e-4),
    case("norm", ops.norm, _norm, [distinct(3, 4)], p=-2, axis=-1, rtol=1e-4),
    case("norm", ops.norm, _norm, [UNLIKE], p=INF, axis=-1),
    case("norm", ops.norm, _norm, [UNLIKE], p=-INF),
    case(
        "norm",
        lambda x: ops.norm(x, 0, 1),
        lambda x: np.linalg.norm(x, 0, 1),
        [fixed(ZEROS, "float32")],
        label="0",
        smooth=False,
    ),
    case("cum_prod", ops.cum_prod, np.cumprod, [distinct(3, 4)], axis=0),
    case("cum_prod", ops.cum_prod, np.cumprod, [distinct(2, 3, 2)], axis=1),
    case("reduce_any", ops.reduce_any, np.any, [flags(3, 2)], axis=1, smooth=False),
    case("reduce_any", ops.reduce_any, np.any, [fixed([[False] * 3] * 2)], smooth=False),
    case("reduce_all", ops.reduce_all, np.all, [flags(3, 2)], axis=0, smooth=False),
    case("reduce_all", ops.reduce_all, np.all, [fixed([[True] * 3] * 2)], smooth=False),
    case("count_nonzero", ops.count_nonzero, _count, [fixed(ZEROS, "float32")], smooth=False),
    case("count_nonzero", ops.count_nonzero, _count, [fixed(ZEROS, "int32")], axis=1, smooth=False),
    case("count_nonzero", ops.count_nonzero, _count, [fixed(HALF)], axis=[0, 2], smooth=False),
]
