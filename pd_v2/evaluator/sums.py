"""Means over rows: of the sum of a row, and of its last column."""

import pd_core as pd

from . import base


@base.of_steps
@base.evaluator
def sum(input, name=None, weight=None):
    """Mean over rows, weighted, of the sum of a row's elements, or of its id."""
    input, weight = base.by_role("sum", ("input", "weight"), input, weight)
    if input.dtype.kind == "i":
        rows = pd.cast(base.ids_of("sum", input), "float64")
    else:
        rows = pd.reduce_sum(input, [1])
    _declare("sum", "sum", name, input, rows, weight)


@base.of_steps
@base.evaluator
def column_sum(input, name=None, weight=None):
    """Mean of the last column, weighted."""
    input, weight = base.by_role("column_sum", ("input", "weight"), input, weight)
    base.check_rows("column_sum", input)
    _declare("last-column-sum", "column_sum", name, input, base.last_column(input), weight)


def _declare(kind, function, name, input, rows, weight):
    base.check_weight(function, weight)
    scale = pd.ones_like(rows)
    if weight is not None:
        scale = pd.cast(pd.reshape(weight, [-1]), rows.dtype)
    base.declare(
        kind,
        function,
        name,
        [input, weight],
        (pd.reduce_sum(rows * scale), pd.reduce_sum(scale)),
        lambda: base.Sums(2, lambda total, rows: {"": base.share(total, rows)}),
    )
