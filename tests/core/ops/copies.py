"""Rows of copies and rearrangements."""

import numpy as np

from pd_core import ops

from .case import case, fixed, normal, whole

X, CUBE = [normal(3, 4)], [normal(2, 3, 4)]
BOTH = {"batch": (0, 1)}


def _flip(x, axis=None):
    return np.flip(x, tuple(axis) if isinstance(axis, list) else axis)


def _diagonal(x, k=0):
    return np.diagonal(x, k)


def _diag_embed(x, k=0):
    return np.stack([np.diag(row, k) for row in x])


CASES = [
    case("Tile", lambda x: ops.tile(x, [2, 3]), lambda x: np.tile(x, [2, 3]), X),
    case("Tile", lambda x: ops.tile(x, 2), lambda x: np.tile(x, 2), X, label="the last axis"),
    case(
        "tile", lambda x: ops.tile(x, [2, 1, 3]), lambda x: np.tile(x, [2, 1, 3]), X, label="more"
    ),
    case("Tile", ops.tile, np.tile, [normal(3, 4), fixed([2, 1])], label="run-time", smooth=False),
    case(
        "repeat", ops.repeat, lambda x, count, axis: np.repeat(x, count, axis), X, count=3, axis=0
    ),
    case(
        "repeat", ops.repeat, lambda x, count, axis: np.repeat(x, count, axis), X, count=2, axis=1
    ),
    case(
        "repeat",
        ops.repeat,
        lambda x, count, axis: np.repeat(x, count, axis),
        CUBE,
        count=2,
        axis=-2,
    ),
    case(
        "stack",
        lambda a, b, axis=0: ops.stack([a, b], axis),
        lambda a, b, axis=0: np.stack([a, b], axis),
        [normal(3, 4), normal(3, 4)],
        **BOTH,
    ),
    case(
        "stack",
        lambda a, b, axis: ops.stack([a, b], axis),
        lambda a, b, axis: np.stack([a, b], axis),
        [normal(3, 4), normal(3, 4)],
        axis=-1,
        **BOTH,
    ),
    case("unstack", ops.unstack, lambda x, axis: [x[:, 0], x[:, 1]], [normal(3, 2)], axis=1),
    case("chunk", lambda x: ops.chunk(x, 3, -1), lambda x: np.split(x, 3, -1), [normal(3, 6)]),
    case("chunk", lambda x: ops.chunk(x, 2), lambda x: np.array_split(x, 2), [normal(5, 2)]),
    case("flip", ops.flip, _flip, CUBE),
    case("flip", ops.flip, _flip, CUBE, axis=1),
    case("flip", ops.flip, _flip, CUBE, axis=[0, -1]),
    case("roll", ops.roll, np.roll, X, shift=1, axis=0),
    case("roll", ops.roll, np.roll, X, shift=-3, axis=1),
    case("roll", ops.roll, np.roll, X, shift=5, axis=-1),
    case("roll", ops.roll, np.roll, X, shift=5),
    case("roll", ops.roll, np.roll, X, shift=[1, -1], axis=[0, 1]),
    case("move_axis", ops.move_axis, np.moveaxis, CUBE, source=0, destination=-1),
    case("move_axis", ops.move_axis, np.moveaxis, CUBE, source=-1, destination=1),
    case(
        "swap_axes",
        lambda x: ops.swap_axes(x, 0, -1),
        lambda x: np.swapaxes(x, 0, -1),
        CUBE,
    ),
    *(
        case("Trilu", function, reference, samples, k=k)
        for function, reference in ((ops.triu, np.triu), (ops.tril, np.tril))
        for samples, k in (([normal(2, 3, 4)], 0), (X, 1), (X, -1))
    ),
    case("Trilu", ops.triu, np.triu, [whole(0, 9, 3, 3)], smooth=False, label="integers"),
    case(
        "diagonal",
        ops.diagonal,
        lambda x: np.diagonal(x, axis1=-2, axis2=-1),
        [normal(2, 3, 3)],
    ),
    case("diagonal", ops.diagonal, np.diagonal, [normal(3, 3)], batch=()),
    *(
        case(
            "diagonal", ops.diagonal, lambda x, k: np.diagonal(x, k), [normal(3, 4)], batch=(), k=k
        )
        for k in (1, -2)
    ),
    *(case("diag_embed", ops.diag_embed, _diag_embed, [normal(2, 3)], k=k) for k in (0, 2, -1)),
    case("diag_embed", ops.diag_embed, np.diag, [whole(1, 9, 3)], k=1, smooth=False),
    case(
        "meshgrid",
        ops.meshgrid,
        lambda a, b, c: np.meshgrid(a, b, c, indexing="ij"),
        [normal(2), normal(3), normal(4)],
        **BOTH,
    ),
    case(
        "meshgrid",
        ops.meshgrid,
        lambda a, b, indexing: np.meshgrid(a, b, indexing=indexing),
        [normal(2), normal(3)],
        indexing="xy",
        **BOTH,
    ),
    *(
        case(name, function, reference, X, smooth=False, label="factor")
        for name, function, reference in (
            ("eye", lambda x: x * ops.eye(3, 4), lambda x: x * np.eye(3, 4)),
            (
                "eye, of run-time sizes",
                lambda x: x * ops.eye(ops.size_of(x, 0), 4),
                lambda x: x * np.eye(3, 4),
            ),
            ("linspace", lambda x: x * ops.linspace(0, 3, 4), lambda x: x * np.linspace(0, 3, 4)),
            ("full", lambda x: x * ops.full([4], 2.5), lambda x: x * 2.5),
            ("full_like", lambda x: ops.full_like(x, 3), lambda x: np.full_like(x, 3)),
            ("zeros", lambda x: x + ops.zeros([4]), lambda x: x),
            ("ones", lambda x: x + ops.ones([4]), lambda x: x + 1),
        )
    ),
]
