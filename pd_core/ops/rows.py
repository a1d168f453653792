"""Row-wise branches: each side of a condition sees only its rows."""

from contextlib import contextmanager

import numpy as np

from ..graph.errors import GraphError
from ..graph.node import apply
from ..graph.variable import Variable, constant, fresh_dim
from .index import gather
from .math import cast, logical_not
from .shape import concat, reshape, size_of


class ifelse:
    """Branches by row: each sees only its rows, and the results stand in the original order.

    `condition` is bool [N] or [N, 1]. In `with i.true_block():` and `with i.false_block():`,
    `i.input(x)` gives the rows of x of that branch and `i.output(...)` its results; then `i()` is
    the list of merged results. A branch without rows is run with none.
    """

    def __init__(self, condition):
        condition = constant(condition)
        if condition.dtype != np.bool_ or condition.rank not in (1, 2):
            raise GraphError(f"ifelse: the condition is bool [N] or [N, 1], not {condition!r}")
        flat = reshape(condition, [-1])
        self._rows = {True: where_true(flat), False: where_true(logical_not(flat))}
        self._outputs = {}
        self._side = None

    def true_block(self):
        """The block of the rows where the condition holds."""
        return self._block(True)

    def false_block(self):
        """The block of the other rows."""
        return self._block(False)

    @contextmanager
    def _block(self, side):
        self._side = side
        try:
            yield self
        finally:
            self._side = None

    def input(self, x) -> Variable:
        """The rows of x that belong to this branch."""
        if self._side is None:
            raise GraphError("ifelse: input belongs inside a block")
        return gather(x, self._rows[self._side])

    def output(self, *values):
        """What this branch gives for its rows."""
        if self._side is None:
            raise GraphError("ifelse: output belongs inside a block")
        self._outputs[self._side] = values

    def __call__(self) -> list:
        if len(self._outputs) != 2:
            raise GraphError("ifelse: both blocks must give an output")
        yes, no = self._outputs[True], self._outputs[False]
        if len(yes) != len(no):
            raise GraphError(f"ifelse: {len(yes)} outputs of one block, {len(no)} of the other")
        order = concat([self._rows[True], self._rows[False]])
        back = _inverse(order)
        return [gather(concat([a, b]), back) for a, b in zip(yes, no, strict=True)]


def where_true(flags):
    """Indices where flags hold, int64[k]."""
    found = apply("NonZero", flags, known=(1, fresh_dim()))
    return reshape(found, [-1])


def _inverse(order):
    """The permutation that undoes another: where each index stands in it."""
    _, places = apply(
        "TopK", order, size_of(order, 0), outputs=2, axis=0, largest=0, sorted=1, known=order.dims
    )
    return cast(places, np.int64)
