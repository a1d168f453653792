"""Cholesky factors and triangular systems, column by column: ONNX has no operators of them."""

import numpy as np

from ..graph.broadcast import broadcast_dims
from ..graph.checks import floats
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .control import scan
from .copies import eye, flip, move_axis
from .matrix import matmul
from .promotion import match_dtypes
from .reduce import reduce_sum
from .shape import expand_like, matrix_transpose, unsqueeze, zeros_like


@op
def cholesky(a: Operand) -> Variable:
    """Lower triangular L [..., n, n] with L L^T = a; NaN if a is not positive definite.

    Of a matrix that is not symmetric it is that of (a + a^T) / 2, and so the gradient is symmetric.
    A loop takes n columns off what is left of the matrix (Golub & Van Loan 2013, 4.2.5).

    Args:
        a: floats [..., n, n] of a known n.

    Returns:
        Of the shape and dtype of a.

    Raises:
        DTypeError: a is no float.
        ShapeError: a is no [..., n, n] of a known n.
    """
    a = floats(a)
    n = _order_of(a)
    rest = (a + matrix_transpose(a)) * 0.5

    def step(rest: Variable, unit_and_rows: list[Variable]) -> tuple[Variable, Variable]:
        unit, below = unit_and_rows
        column = reduce_sum(rest * unit, -1) * below
        pivot = reduce_sum(column * unit, -1, keep_dim=True)
        column = column / m.sqrt(pivot)
        return rest - unsqueeze(column, -1) * unsqueeze(column, -2), column

    _, columns = scan(step, rest, [eye(n, dtype=a.dtype), constant(np.tri(n).T, a.dtype)])
    return refined(move_axis(columns, 0, -1), a.dims)


@op
def solve_triangular(a: Operand, b: Operand, *, upper: bool = False) -> Variable:
    """Solution x [..., n, k] of a x = b, for triangular matrices a [..., n, n].

    The other triangle of a is not read. A loop over n columns; leading axes broadcast.

    Args:
        a: floats [..., n, n] of a known n.
        b: floats [..., n, k] of the same dtype.
        upper: whether a is upper triangular, not lower.

    Returns:
        Of the dtype of b.

    Raises:
        DTypeError: the operands are no floats of one dtype.
        ShapeError: a is no [..., n, n] of a known n, b no [..., n, k], or they do not broadcast.
    """
    a, b = (floats(v) for v in match_dtypes(a, b))
    if a.dtype != b.dtype:
        raise DTypeError(f"solve_triangular: the dtypes differ, {describe(a)} and {describe(b)}")
    n = _order_of(a)
    if b.rank < 2 or b.dims[-2] not in (n, None):
        raise ShapeError(f"solve_triangular: b is [..., {n}, k], not {describe(b)}")
    if broadcast_dims(a.dims[:-2], b.dims[:-2]) is None:
        raise ShapeError(f"solve_triangular: {describe(a)} and {describe(b)} do not broadcast")
    if upper:
        return flip(_solved(flip(a, [-2, -1]), flip(b, -2)), -2)
    return _solved(a, b)


def _solved(lower, b):
    """Subtract each column times its part of the solution from what is left of b."""
    rest = b + reduce_sum(zeros_like(lower), -1, keep_dim=True)
    units = unsqueeze(eye(lower.dims[-1], dtype=b.dtype), -1)

    def step(rest, unit_and_column):
        unit, column = unit_and_column  # [n, 1] and [..., n, 1]
        pivot = reduce_sum(column * unit, -2, keep_dim=True)
        x = reduce_sum(rest * unit, -2, keep_dim=True) / pivot
        return rest - x * column, x * unit

    below = m.where(constant(np.tri(lower.dims[-1]) > 0.0), lower, 0.0)
    columns = unsqueeze(move_axis(below, -1, 0), -1)
    _, parts = scan(step, rest, [units, columns])
    return refined(reduce_sum(parts, 0), rest.dims)


def triangular_inverse(lower: Variable) -> Variable:
    """Return the inverses of lower triangular matrices [..., n, n]."""
    return _solved(lower, expand_like(eye(_order_of(lower), dtype=lower.dtype), lower))


def factor_of_inverse(a: Variable) -> Variable:
    """Return the lower triangular L [..., n, n] with L L^T the inverse of a matrix.

    The Cholesky factor of the matrix from its end on is the transposed inverse, from its end on.
    """
    reverse = constant(np.eye(_order_of(a))[::-1], a.dtype)
    factor = cholesky(matmul(matmul(reverse, a), reverse))
    return triangular_inverse(matrix_transpose(matmul(matmul(reverse, factor), reverse)))


def _order_of(a):
    """Return the n of matrices [..., n, n]."""
    n = a.dims[-1] if a.rank > 1 else None
    if not isinstance(n, int) or a.dims[-2] != n:
        raise ShapeError(f"takes matrices [..., n, n] of a known n, not {describe(a)}")
    return n
