"""A recurrence over packed sequences in chunks of steps, with a batch that shrinks between them.

With sequences sorted by length, those that are not over at a step are the first ones, as in
PyTorch's PackedSequence. All steps of one ONNX loop have the same shapes, so the batch shrinks a
few times only. `/` of integer Variables rounds toward zero.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ...graph.node import apply, composite, refined
from ...graph.op import op
from ...graph.variable import Operand, Variable, constant, fresh_dim
from .. import math as m
from ..control import Results, as_list, restructure, scan
from ..gather import gather, scatter_add
from ..reduce import cum_sum, reduce_sum
from ..shape import arange, concat, slice, unsqueeze, zeros_like
from .padded import PaddedSegments
from .segments import Operands, Segments, permute_rows

CHUNKS = 3  # each is a loop of its own in the graph


@op
def scan_bounded(
    sequences: Segments, step: Callable, init: Operands, inputs: Operands, reverse: bool = False
) -> Results:
    """Return the outputs of `sequences.scan` for a step whose states stay finite on any input.

    It is faster, since no state is masked: a sequence that has ended goes on with the input of any
    token until its chunk of steps is over, then it leaves the batch. The step is called once for
    each chunk. It must not capture values with a row for each sequence, as the batch is reordered.
    """
    if isinstance(sequences, PaddedSegments):
        return sequences.scan(step, init, inputs, reverse)[1]
    chunks = Chunks(sequences, CHUNKS, reverse)
    xs = [chunks.pad(x) for x in as_list(inputs)]
    states, outputs = [chunks.sorted(s) for s in as_list(init)], []
    for k in range(chunks.number):
        new, ys = scan(step, restructure(init, states), restructure(inputs, [x[k] for x in xs]))
        states = [chunks.shrunk(s, k) for s in as_list(new)]
        outputs.append(as_list(ys))
    return restructure(ys, [chunks.pack(parts) for parts in zip(*outputs, strict=True)])


class Chunks:
    """Index arithmetic of packed sequences in `number` chunks of S steps each."""

    def __init__(self, sequences: Segments, number: int, reverse: bool):
        self.sequences, self.number, self.reverse = sequences, number, reverse
        self._step_dim = fresh_dim()
        self._row_dims = [fresh_dim() for _ in range(number)]

    def pad(self, values: Operand) -> list[Variable]:
        """Pad values [T, ...] to [S, B, ...] for each chunk, with any row after a sequence ends."""
        return pad_chunks(values, self._inverse, self._indices, zeros=False)

    def pack(self, parts: Sequence[Variable]) -> Variable:
        """Undo `pad`."""
        return pack_chunks(parts, self._inverse, self._indices)

    def sorted(self, rows: Operand) -> Variable:
        """Sort rows [B, ...] by length, the longest sequence first, for the first chunk."""
        count = self._counts[0]
        back = m.where(self._rank < count, self._rank, count)
        return permute_rows(rows, self._rows[0], back)

    def shrunk(self, rows: Variable, k: int) -> Variable:
        """Keep the rows of chunk k whose sequences reach the next one."""
        if k + 1 == self.number:
            return rows
        count = self._counts[k + 1]
        kept, before = self._first(count, k + 1), self._first(self._counts[k], k)
        return permute_rows(rows, kept, m.where(before < count, before, count))

    def _first(self, count, k):
        return refined(arange(count), (self._row_dims[k],))

    @cached_property
    def _by_length(self):
        """The lengths of the sequences, the longest first, and their numbers."""
        lengths = self.sequences.lengths
        known = [lengths.dims] * 2
        return apply("TopK", lengths, self.sequences.count, outputs=2, axis=0, known=known)

    @cached_property
    def _rank(self):
        """The rank of each sequence in that order."""
        order = self._by_length[1]
        return scatter_add(zeros_like(order), order, arange(self.sequences.count))

    @cached_property
    def _steps(self):
        """The length of a chunk, [1]; at least 1, as ONNX Runtime refuses a Scan without steps."""
        rounded = m.quotient(self.sequences.longest + (self.number - 1), self.number)
        return m.maximum(rounded, 1)

    @cached_property
    def _counts(self):
        """The number of sequences that reach each chunk, [1] each."""
        reached = [self._by_length[0] > self._steps * k for k in range(self.number)]
        return [reduce_sum(m.cast(r, np.int64), [0], keep_dim=True) for r in reached]

    @cached_property
    def _rows(self):
        """The numbers of the sequences that reach each chunk."""
        return [
            refined(slice(self._by_length[1], [0], count, [0]), (dim,))
            for count, dim in zip(self._counts, self._row_dims, strict=True)
        ]

    @cached_property
    def _indices(self):
        """The token of each cell [S, B] of each chunk, T for none."""
        return [self._index(k, rows) for k, rows in enumerate(self._rows)]

    def _index(self, k, rows):
        s = self.sequences
        steps = refined(arange(self._steps) + self._steps * k, (self._step_dim,))
        steps = unsqueeze(steps, 1)
        if self.reverse:
            tokens = unsqueeze(gather(s.ends, rows), 0) - 1 - steps
        else:
            tokens = unsqueeze(gather(s.starts, rows), 0) + steps
        alive = steps < unsqueeze(gather(s.lengths, rows), 0)
        return m.where(alive, tokens, s.total)

    @cached_property
    def _inverse(self):
        """The index of each token in the flattened cells of all chunks back to back."""
        s = self.sequences
        step = s.position
        if self.reverse:
            step = gather(s.lengths, s.owner) - 1 - step
        chunk = m.quotient(step, self._steps)
        counts = concat(self._counts)
        cells = counts * self._steps
        before = cum_sum(cells) - cells
        within = (step - chunk * self._steps) * gather(counts, chunk)
        return gather(before, chunk) + within + gather(self._rank, s.owner)


@op
def pad_chunks(
    values: Operand, inverse: Variable, indices: Sequence[Variable], zeros: bool = True
) -> list[Variable]:
    """Gather values [T, ...] at each index [S, B], zeros where it is T: a list of chunks.

    `inverse` [T] is the index of each row in all chunks flattened: every row has one.
    Without `zeros`, an index T gives any row, on which no result may depend.
    """
    values = constant(values)
    types = [((*index.dims, *values.dims[1:]), values.dtype) for index in indices]
    parts = composite("PadChunks", values, inverse, *indices, types=types, zeros=int(zeros))
    return list(_several(parts))


@op
def pack_chunks(
    chunks: Sequence[Variable], inverse: Variable, indices: Sequence[Variable]
) -> Variable:
    """Return the rows of chunks [S, B, ...] as packed values [T, ...]: undoes `pad_chunks`.

    `inverse` and `indices` are those of the `pad_chunks` that made the chunks.
    """
    chunks = [constant(chunk) for chunk in chunks]
    types = [((inverse.dims[0], *chunks[0].dims[2:]), chunks[0].dtype)]
    return composite("PackChunks", inverse, *chunks, *indices, types=types)


def _several(values):
    return values if isinstance(values, tuple) else (values,)
