"""Determinants by elimination."""

import numpy as np

from ... import ops
from ...graph.variable import Variable, constant

_MOST = 64  # rows, each of which takes some twenty operators


def det(x: Variable) -> Variable | None:
    """Multiply the pivots of an elimination with exchanges of rows; None for too many rows."""
    n = x.dims[-1]
    if not isinstance(n, int) or not 0 < n <= _MOST:
        return None
    total, row_axis, column_axis = constant(1, x.dtype), x.rank - 2, x.rank - 1
    for k in range(n, 1, -1):
        column = ops.slice(x, [0], [1], [column_axis])
        largest = ops.arg_max(abs(column), row_axis, keep_dim=True)
        chosen = ops.equal(largest, np.arange(k).reshape(k, 1))
        row = ops.reduce_sum(ops.where(chosen, x, 0.0), [row_axis], keep_dim=True)
        pivot = ops.slice(row, [0], [1], [column_axis])
        total = ops.where(ops.equal(largest, 0), total, -total) * pivot
        # the first row takes the position of the chosen one
        first = ops.slice(x, [0], [1], [row_axis])
        others = ops.slice(ops.where(chosen, first, x), [1], [k], [row_axis])
        factor = ops.slice(others, [0], [1], [column_axis])
        factor = factor / ops.where(ops.equal(pivot, 0.0), 1.0, pivot)
        x = ops.slice(others - factor * row, [1], [k], [column_axis])
    return ops.squeeze(total * x, [row_axis, column_axis])
