"""Padded sequences of a fixed capacity: the sub-sequences in one step of an outer loop.

In a loop every step has the same shapes, so each sequence gets `capacity` rows. Its tokens are the
first of them; the contents of the others are never used.
"""

from functools import cached_property

import numpy as np

from ...graph.node import apply
from ...graph.variable import Dim, Operand, Variable, constant
from .. import math as m
from ..gather import gather
from ..reduce import reduce_sum
from ..shape import arange, concat, shape_of, slice, unsqueeze
from .segments import Segments


class PaddedSegments(Segments):
    """Segments of values [B C, ...] with C = `capacity`, int64 [1].

    Sequence b has the rows from b C on, of which lengths[b] are tokens. `total` counts all rows.
    """

    def __init__(self, lengths: Operand, capacity: Variable, tokens: Dim | None = None):
        super().__init__(lengths, tokens)
        self.longest = capacity

    def fitting(self, values: Operand) -> Variable:
        """Return the values, which have spare rows."""
        return constant(values)

    @cached_property
    def total(self) -> Variable:
        return self.count * self.longest

    @cached_property
    def starts(self) -> Variable:
        return arange(self.count) * self.longest

    @cached_property
    def ends(self) -> Variable:
        return self.starts + self.lengths

    @cached_property
    def owner(self) -> Variable:
        return m.quotient(self.numbers, m.maximum(self.longest, 1))

    @cached_property
    def position(self) -> Variable:
        return self.numbers - self.owner * self.longest

    @cached_property
    def _filled(self) -> Variable:
        """The mask of the rows that hold a token, bool [B C]."""
        return self.position < gather(self.lengths, self.owner)

    def _count_from_end(self, steps):
        tokens, _ = super()._count_from_end(steps)
        back = gather(self.ends, self.owner) - self.numbers - 1
        return tokens, m.where(self._filled, back, self.position)

    def pack(self, padded: Operand, whole: bool = True) -> Variable:
        """Return the rows of a padded [B, C, ...], with zeros where there is no token.

        It is whole: C is given.
        """
        padded = constant(padded)
        return self.only_tokens(self.ungrouped(padded))

    def sum(self, values: Variable) -> Variable:
        """Sum each sequence, [B, ...]; zero for an empty one."""
        return reduce_sum(self.grouped(self.only_tokens(values)), [1])

    def grouped(self, values: Variable) -> Variable:
        """Reshape values [B C, ...] to [B, C, ...]."""
        sizes = concat([self.count, self.longest, slice(shape_of(values), [1], [values.rank], [0])])
        dims = (self.lengths.dims[0], self._longest_dim, *values.dims[1:])
        return apply("Reshape", values, sizes, known=dims, allowzero=1)

    def ungrouped(self, padded: Variable) -> Variable:
        """Reshape a padded [B, C, ...] to [B C, ...]; spare rows keep their contents."""
        sizes = concat([self.total, slice(shape_of(padded), [2], [padded.rank], [0])])
        dims = (self.tokens, *padded.dims[2:])
        return apply("Reshape", padded, sizes, known=dims, allowzero=1)

    def only_tokens(self, values: Variable) -> Variable:
        """Zero the rows that hold no token; no gradient flows to them."""
        mask = self._filled
        if values.rank > 1:
            mask = unsqueeze(mask, list(range(1, values.rank)))
        return m.where(mask, values, np.zeros((), values.dtype))
