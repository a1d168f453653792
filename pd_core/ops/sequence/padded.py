"""Sequences with room to spare: the sub-sequences that one step of an outer loop sees.

In a loop every step has the same shapes, so each sequence gets `capacity` rows, of which the first
ones are its tokens. What stands in the others is never looked at.
"""

from functools import cached_property

import numpy as np

from ...graph.node import apply
from .. import math as m
from ..index import gather
from ..reduce import reduce_sum
from ..shape import arange, concat, shape_of, slice, unsqueeze
from .segments import Segments


class PaddedSegments(Segments):
    """Segments of values [B C, ...]: sequence b begins at row b C, where C, int64 [1], is the
    `capacity`, and has lengths[b] tokens."""

    def __init__(self, lengths, capacity, tokens=None):
        super().__init__(lengths, tokens)
        self.longest = capacity

    @cached_property
    def total(self):
        return m.mul(self.count, self.longest)

    @cached_property
    def starts(self):
        return m.mul(arange(self.count), self.longest)

    @cached_property
    def ends(self):
        return m.add(self.starts, self.lengths)

    @cached_property
    def owner(self):
        return m.div(self.numbers, m.maximum(self.longest, 1))

    @cached_property
    def position(self):
        return m.sub(self.numbers, m.mul(self.owner, self.longest))

    @cached_property
    def _filled(self):
        """Which rows hold a token, bool [B C]."""
        return m.less_than(self.position, gather(self.lengths, self.owner))

    def _count_from_end(self, steps):
        tokens, _ = super()._count_from_end(steps)
        back = m.sub(m.sub(gather(self.ends, self.owner), self.numbers), 1)
        return tokens, m.where(self._filled, back, self.position)

    def pack(self, padded):
        """The rows of a padded [B, C, ...]; zeros where there is no token."""
        return self.only_tokens(self.ungrouped(padded))

    def sum(self, values):
        """The sum of each sequence, [B, ...]; zero for an empty one."""
        return reduce_sum(self.grouped(self.only_tokens(values)), [1])

    def grouped(self, values):
        """values [B C, ...] as [B, C, ...]."""
        sizes = concat([self.count, self.longest, slice(shape_of(values), [1], [values.rank], [0])])
        dims = (self.lengths.dims[0], self._longest_dim, *values.dims[1:])
        return apply("Reshape", values, sizes, known=dims, allowzero=1)

    def ungrouped(self, padded):
        """The rows of a padded [B, C, ...], with whatever stands in the spare ones."""
        sizes = concat([self.total, slice(shape_of(padded), [2], [padded.rank], [0])])
        dims = (self.tokens, *padded.dims[2:])
        return apply("Reshape", padded, sizes, known=dims, allowzero=1)

    def only_tokens(self, values):
        """The values where a row is a token, zeros elsewhere, to which no gradient flows."""
        flags = self._filled
        if values.rank > 1:
            flags = unsqueeze(flags, list(range(1, values.rank)))
        return m.where(flags, values, np.zeros((), values.dtype))
