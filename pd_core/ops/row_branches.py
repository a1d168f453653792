"""Row-wise branches: each computes only the rows for which it was chosen."""

from contextlib import AbstractContextManager, contextmanager

import numpy as np

from ..graph.errors import GraphError
from ..graph.node import apply
from ..graph.variable import Operand, Variable, constant, fresh_dim
from .gather import gather
from .math import cast, logical_not
from .shape import concat, reshape, size_of


class ifelse:
    """Branches by row, as `with` blocks: each gets only its rows; the results are merged in order.

    `condition` is bool [N] or [N, 1]. In `with i.true_block():` and `with i.false_block():`,
    `i.input(x)` returns the rows of x of that branch and `i.output(...)` declares its results;
    afterwards `i()` returns the list of merged results. A branch without rows runs on none.
    """

    def __init__(self, condition: Operand):
        condition = constant(condition)
        if condition.dtype != np.bool_ or condition.rank not in (1, 2):
            raise GraphError(f"ifelse: the condition is bool [N] or [N, 1], not {condition!r}")
        flat = reshape(condition, [-1])
        self._rows = {True: where_true(flat), False: where_true(logical_not(flat))}
        self._outputs: dict[bool, tuple[Variable, ...]] = {}
        self._side = None

    def true_block(self) -> AbstractContextManager["ifelse"]:
        """Open the block for the rows where the condition is true."""
        return self._block(True)

    def false_block(self) -> AbstractContextManager["ifelse"]:
        """Open the block for the other rows."""
        return self._block(False)

    @contextmanager
    def _block(self, side):
        self._side = side
        try:
            yield self
        finally:
            self._side = None

    def input(self, x: Operand) -> Variable:
        """Return the rows of x that belong to this branch."""
        if self._side is None:
            raise GraphError("ifelse: input belongs inside a block")
        return gather(x, self._rows[self._side])

    def output(self, *values: Variable) -> None:
        """Set the results of this branch for its rows."""
        if self._side is None:
            raise GraphError("ifelse: output belongs inside a block")
        self._outputs[self._side] = values

    def __call__(self) -> list[Variable]:
        if len(self._outputs) != 2:
            raise GraphError("ifelse: both blocks must give an output")
        a, b = self._outputs[True], self._outputs[False]
        if len(a) != len(b):
            raise GraphError(f"ifelse: {len(a)} outputs of one block, {len(b)} of the other")
        inverse = _inverse(concat([self._rows[True], self._rows[False]]))
        return [gather(concat(pair), inverse) for pair in zip(a, b, strict=True)]


def where_true(flags: Operand) -> Variable:
    """Indices of the true elements of bool [n], int64 [k]."""
    indices = apply("NonZero", flags, known=(1, fresh_dim()))
    return reshape(indices, [-1])


def _inverse(order):
    """Return the inverse of a permutation: its argsort."""
    _, positions = apply(
        "TopK", order, size_of(order, 0), outputs=2, axis=0, largest=0, sorted=1, known=order.dims
    )
    return cast(positions, np.int64)
