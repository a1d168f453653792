"""Cholesky factors and triangular systems, column by column: ONNX has no operators of them."""

from typing import Any

import numpy as np

from ...graph.node import refined
from ...graph.variable import Variable, constant
from .. import math as m
from ..control import scan
from ..copies import eye, move_axis
from ..matrix import matmul
from ..reduce import reduce_sum
from ..shape import expand_like, matrix_transpose, unsqueeze, zeros_like


def cholesky(a: Variable) -> Variable:
    """Return the lower triangular L [..., n, n] with L L^T = a; NaN if a is not positive definite.

    Of a matrix that is not symmetric it is that of (a + a^T) / 2, and so the gradient is symmetric.
    Each step takes a column off what is left of the matrix (Golub & Van Loan 2013, 4.2.5).
    """
    n: Any = a.dims[-1]
    a = (a + matrix_transpose(a)) * 0.5
    units, rows = eye(n, dtype=a.dtype), constant(np.tri(n).T, a.dtype)

    def step(rest, unit_and_rows):
        unit, below = unit_and_rows
        column = reduce_sum(rest * unit, -1) * below
        pivot = reduce_sum(column * unit, -1, keep_dim=True)
        column = column / m.sqrt(pivot)
        return rest - unsqueeze(column, -1) * unsqueeze(column, -2), column

    _, columns = scan(step, a, [units, rows])
    return refined(move_axis(columns, 0, -1), a.dims)


def solved(lower: Variable, b: Variable) -> Variable:
    """Return x [..., n] with L x = b, for lower triangular L [..., n, n] that broadcast to b."""
    n: Any = lower.dims[-1]
    b = b + reduce_sum(zeros_like(lower), -1)
    units = eye(n, dtype=b.dtype)

    def step(rest, unit_and_column):
        unit, column = unit_and_column
        own, pivot = (reduce_sum(v * unit, -1, keep_dim=True) for v in (rest, column))
        x = own / pivot
        return rest - x * column, x * unit

    _, parts = scan(step, b, [units, move_axis(lower, -1, 0)])
    return refined(reduce_sum(move_axis(parts, 0, -1), -2), b.dims)


def inverse(lower: Variable) -> Variable:
    """Return the inverses of lower triangular matrices [..., n, n]."""
    n: Any = lower.dims[-1]
    units = expand_like(eye(n, dtype=lower.dtype), lower)
    return matrix_transpose(solved(unsqueeze(lower, -3), units))


def by_precision(precision: Variable) -> Variable:
    """Return the lower triangular L [..., n, n] with L L^T the inverse of a matrix.

    The Cholesky factor of the matrix from its end on is the transposed inverse, from its end on.
    """
    n: Any = precision.dims[-1]
    reverse = constant(np.eye(n)[::-1], precision.dtype)
    factor = cholesky(matmul(matmul(reverse, precision), reverse))
    return inverse(matrix_transpose(matmul(matmul(reverse, factor), reverse)))
