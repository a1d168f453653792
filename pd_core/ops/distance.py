"""Distances and angles between vectors."""

import numpy as np

from ..graph.checks import floats, sizes_differ
from ..graph.errors import GraphError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, describe
from .math import cast, maximum
from .promotion import match_dtypes
from .reduce import reduce_sum
from .shape import unsqueeze
from .statistics import norm


@op
def cosine_similarity(x: Operand, y: Operand, axis: int = -1, epsilon: float = 1e-8) -> Variable:
    """Cosine of the angle between vectors along an axis: x y / (|x| |y|), broadcast.

    Norms are at least epsilon, so that it is 0 for a vector of zeros.

    Args:
        x: floats.
        y: floats of the same dtype and rank.
        axis: the axis of the vectors.

    Returns:
        Without this axis, of the dtype of x.

    Raises:
        DTypeError: the operands are no floats of one dtype.
        ShapeError: the operands do not broadcast, or have no such axis.
    """
    pair = _floats(x, y)
    a, b = (v / maximum(norm(v, 2.0, axis, keep_dim=True), epsilon) for v in _wide(*pair))
    return cast(reduce_sum(a * b, axis), pair[0].dtype)


@op
def cdist(x: Operand, y: Operand, p: float = 2.0) -> Variable:
    """Distances of all pairs of rows, [..., n, d] and [..., m, d]: [..., n, m].

    Computed from the differences, n m d numbers: the squares |x|^2 + |y|^2 - 2 x y of a matrix
    product have no digits of a small distance. Equal rows have the distance 0, with a gradient of
    0.

    Args:
        x: floats [..., n, d].
        y: floats [..., m, d] of the same dtype; leading axes broadcast.
        p: the order of the norm, above 0, or inf.

    Returns:
        [..., n, m] of the dtype of x.

    Raises:
        DTypeError: the operands are no floats of one dtype.
        GraphError: p is not above 0.
        ShapeError: the rows differ in size, or an operand has no rows.
    """
    if not p > 0:
        raise GraphError(f"the order of a norm is above 0, not {p}")
    a, b = _floats(x, y)
    if a.rank < 2 or b.rank < 2 or sizes_differ(a.dims[-1], b.dims[-1]):
        raise ShapeError(f"takes rows of one size, not {describe(a)} and {describe(b)}")
    dtype, (a, b) = a.dtype, _wide(a, b)
    p = 1.0 if a.dims[-1] == 0 else p  # a sum of nothing is 0, a maximum is not
    return cast(norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1), dtype)


def _wide(*operands: Variable) -> list[Variable]:
    """Floats of 16 bits as float32, in which squares do not overflow."""
    return [cast(v, np.float32) if v.dtype.itemsize < 4 else v for v in operands]


def _floats(x: Operand, y: Operand) -> tuple[Variable, Variable]:
    a, b = (floats(v) for v in match_dtypes(x, y))
    return a, b
