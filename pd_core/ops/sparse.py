"""Sparse rows: the few columns of each row that are not zero."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..graph.errors import ShapeError
from ..graph.node import refined
from ..graph.variable import Variable, constant, describe
from . import math as m
from .index import gather, scatter_add
from .sequence.segments import Segments
from .shape import concat, expand, ones_like, reshape, unsqueeze


@dataclass(frozen=True, eq=False)
class SparseRows:
    """R rows of `width` numbers, as the columns that are not zero, row by row.

    `columns` int64 [N], `counts` int64 [R] how many of them each row has, `values` [N] what stands
    there, 1 if None.
    """

    columns: Variable
    counts: Variable
    width: int
    values: Variable | None = None

    @cached_property
    def segments(self):
        """Which columns belong to which row."""
        return Segments(self.counts, self.columns.dims[0])

    def matmul(self, w, of_rows=None):
        """The product with a dense matrix [width, D]: sums of its rows, no others are read.

        `of_rows`, a function of each element such as `square`, is applied to what is read.
        """
        w = constant(w)
        if w.rank != 2 or w.dims[0] != self.width:
            raise ShapeError(f"SparseRows: {self.width} columns do not multiply {describe(w)}")
        rows = gather(w, self.columns)
        rows = rows if of_rows is None else of_rows(rows)
        if self.values is not None:
            rows = m.mul(rows, unsqueeze(self.values, 1))
        return self.segments.sum(rows)

    def square(self):
        """The square of every number."""
        squares = None if self.values is None else m.square(self.values)
        return SparseRows(self.columns, self.counts, self.width, squares)

    def dense(self, dtype="float32"):
        """The same as a dense matrix [R, width]; what stands twice is added up."""
        segments, width = self.segments, np.int64(self.width)
        place = m.add(m.mul(segments.owner, width), self.columns)
        values = self.values
        if values is None:
            values = m.cast(ones_like(self.columns), dtype)
        zeros = expand(constant(0, dtype), m.mul(segments.count, width))
        flat = scatter_add(zeros, place, m.cast(values, dtype))
        shape = concat([segments.count, constant(np.array([self.width]))])
        rows = reshape(flat, shape)
        rows = refined(rows, (self.counts.dims[0], self.width))
        return rows
