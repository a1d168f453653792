"""Rows of matrix products."""

import numpy as np

from pd_core import ops

from .case import case, normal

# shapes of both operands, and which of them have a batch as their first axis
SHAPES = [
    ((3, 4), (4, 5), (0,)),
    ((1, 4), (4, 1), ()),
    ((2, 3, 4), (2, 4, 5), (0, 1)),
    ((2, 3, 4), (4, 5), (0,)),
    ((3, 4), (2, 4, 5), (1,)),
    ((1, 3, 4), (2, 4, 5), (1,)),
    ((2, 1, 3, 4), (5, 4, 2), (0,)),
    ((2, 3, 1, 4), (1, 3, 4, 2), (0,)),
    ((4,), (4,), ()),
    ((4,), (4, 5), ()),
    ((3, 4), (4,), (0,)),
    ((4,), (2, 4, 5), (1,)),
    ((2, 3, 4), (4,), (0,)),
]
CASES = [
    case(
        "MatMul",
        ops.matmul,
        np.matmul,
        [normal(*a), normal(*b)],
        batch=batch,
        label=f"{list(a)}{list(b)}",
    )
    for a, b, batch in SHAPES
] + [
    case("MatMul", lambda a, b: a @ b, np.matmul, [normal(3, 4), normal(4, 2)], label="a@b"),
    case(
        "MatMul",
        lambda b: np.eye(4)[:3] @ b,
        lambda b: np.eye(4)[:3] @ b,
        [normal(4, 2)],
        batch=(),
        label="array@b",
    ),
]
