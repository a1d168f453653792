"""Sparse rows: a matrix in CSR form, by the columns of each row that are not zero."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from ..graph.errors import ShapeError
from ..graph.node import refined
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .gather import gather, rows_of, scatter_add
from .sequence.segments import Segments
from .shape import concat, expand, ones_like, reshape, unsqueeze


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix [R, `width`]: the columns that are not zero, row by row.

    `columns` is int64 [N], `counts` int64 [R] the number of them in each row, `values` [N] the
    numbers in these columns, ones if None.
    """

    columns: Variable
    counts: Variable
    width: int
    values: Variable | None = None

    @cached_property
    def segments(self) -> Segments:
        """The rows as sequences of columns."""
        return Segments(self.counts, self.columns.dims[0])

    def matmul(self, w: Operand, of_rows: Callable[[Variable], Variable] | None = None) -> Variable:
        """Multiply with a dense matrix [width, D], of which only the rows in `columns` are read.

        `of_rows`, an elementwise function such as `square`, is applied to the rows that are read.
        """
        w = constant(w)
        if w.rank != 2 or rows_of(w) != self.width:
            raise ShapeError(f"SparseRows: {self.width} columns do not multiply {describe(w)}")
        rows = gather(w, self.columns)
        rows = rows if of_rows is None else of_rows(rows)
        if self.values is not None:
            rows = rows * unsqueeze(self.values, 1)
        return self.segments.sum(rows)

    def square(self) -> "SparseRows":
        """Square every number."""
        squares = None if self.values is None else m.square(self.values)
        return SparseRows(self.columns, self.counts, self.width, squares)

    def occurrences(self, dtype: DTypeLike = "float32") -> Variable:
        """Return how often each row names each column, [R, width], whatever the values are."""
        return SparseRows(self.columns, self.counts, self.width).dense(dtype)

    def dense(self, dtype: DTypeLike = "float32") -> Variable:
        """Return the dense matrix [R, width]; duplicate columns of a row add up."""
        segments, width = self.segments, np.int64(self.width)
        index = segments.owner * width + self.columns
        values = self.values
        if values is None:
            values = m.cast(ones_like(self.columns), dtype)
        zeros = expand(constant(0, dtype), segments.count * width)
        flat = scatter_add(zeros, index, m.cast(values, dtype))
        shape = concat([segments.count, constant(np.array([self.width]))])
        rows = reshape(flat, shape)
        rows = refined(rows, (self.counts.dims[0], self.width))
        return rows
