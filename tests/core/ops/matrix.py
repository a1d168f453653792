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
# equations of the kinds: product, outer product, trace and diagonal, summed and broadcast axes
EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
    ("i,j", (2,), (3,)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->", (2, 3)),
    ("ij,kj->k", (2, 3), (4, 3)),
    ("...ij,...jk->...ik", (2, 2, 3), (1, 3, 4)),
    ("a...,a...b->...b", (2, 3), (2, 3, 4)),
    ("ij,j,jk->ik", (2, 3), (3,), (3, 2)),
]

CASES = (
    [
        case(
            "MatMul",
            ops.matmul,
            np.matmul,
            [normal(*a), normal(*b)],
            batch=batch,
            label=f"{list(a)}{list(b)}",
        )
        for a, b, batch in SHAPES
    ]
    + [
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
    + [
        case("Det", ops.det, np.linalg.det, [normal(3, 3)], batch=()),
        case("Det", ops.det, np.linalg.det, [normal(2, 2, 2)], batch=(0,)),
        *(
            case(
                "Einsum",
                lambda *inputs, equation: ops.einsum(equation, *inputs),
                lambda *inputs, equation: np.einsum(equation, *inputs),
                [normal(*shape) for shape in shapes],
                equation=equation,
                batch=(),
            )
            for equation, *shapes in EQUATIONS
        ),
    ]
)


def _positive(x):
    """Positive definite matrices, of any of the same size."""
    return x @ x.swapaxes(-1, -2) + 3.0 * np.eye(x.shape[-1], dtype=x.dtype)


def _cholesky(x):
    return ops.cholesky(x @ ops.swap_axes(x, -1, -2) + 3.0 * ops.eye(x.shape[-1], dtype=x.dtype))


def _triangular(a, upper):
    """A triangular matrix with a diagonal of more than its other elements."""
    part = np.triu if upper else np.tril
    return part(np.tanh(a)) + 3.0 * np.eye(a.shape[-1], dtype=a.dtype)


def _solve(a, b, upper):
    a = ops.tanh(a) + 3.0 * ops.eye(a.shape[-1], dtype=a.dtype)
    return ops.solve_triangular(a, b, upper=upper)


CASES += [
    case(
        "cholesky",
        _cholesky,
        lambda x: np.linalg.cholesky(_positive(x)),
        [normal(2, 3, 3)],
    ),
    *(
        case(
            "solve_triangular",
            _solve,
            lambda a, b, upper: np.linalg.solve(_triangular(a, upper), b),
            [normal(3, 3), normal(2, 3, 2)],
            upper=upper,
            batch=(1,),
        )
        for upper in (False, True)
    ),
    case("cross", ops.cross, np.cross, [normal(2, 3), normal(2, 3)], batch=(0, 1)),
    case(
        "cross",
        lambda a, b: ops.cross(a, b, axis=0),
        lambda a, b: np.cross(a, b, axis=0),
        [normal(3, 2), normal(3, 2)],
        batch=(),
        label="axis",
    ),
]
