"""Globally normalised cost of a beam search: cross-entropy over the paths of the beam."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import MaybeNone, Variable, constant, describe
from . import math as m
from .gather import gather
from .mode import stop_gradient
from .reduce import arg_max, cum_sum, reduce_max, reduce_sum
from .sequence.segments import Segments
from .shape import concat, ones_like, reshape, size_of, squeeze, unsqueeze

_LOG_ZERO = -1e30  # the logarithm of 0; finite, since -inf - -inf is NaN


@dataclass
class BeamExpansion:
    """One step of a beam search: the scores of all continuations, the selected ones, the gold one.

    `scores` [T, 1] are packed in R `sequences`, one for each path that the step before selected, in
    that order; `samples` are the Segments of the B samples in those sequences, None in the first
    step, where each sample has one. `candidates` [R, K] are the positions of the selected
    continuations in each sequence, -1 for none; `gold` [B] is the position of the gold one in the
    sequence of the gold path.
    """

    scores: Variable
    sequences: Segments
    candidates: Variable
    gold: Variable
    samples: Segments | MaybeNone = None

    def __post_init__(self) -> None:
        self.scores, self.gold = constant(self.scores), constant(self.gold)
        self.candidates = constant(self.candidates)
        if self.scores.rank != 2 or self.scores.dims[1] != 1 or self.scores.dtype.kind != "f":
            raise ShapeError(
                f"BeamExpansion: scores are floats [T, 1], not {describe(self.scores)}"
            )
        if self.candidates.rank != 2 or not isinstance(self.candidates.dims[1], int):
            shape = describe(self.candidates)
            raise ShapeError(f"BeamExpansion: candidates are [R, K] of a known K, not {shape}")
        if self.gold.rank != 1 or self.gold.dtype.kind != "i":
            raise DTypeError(f"BeamExpansion: gold is integers [B], not {describe(self.gold)}")
        self.candidates = m.cast(self.candidates, np.int64)
        self.gold = m.cast(self.gold, np.int64)
        if self.samples is None:
            lengths = self.sequences.lengths
            self.samples = Segments(ones_like(lengths), lengths.dims[0])


@op
def cross_entropy_over_beam(expansions: Sequence[BeamExpansion]) -> Variable:
    """-ln p(gold path) of each sample, [B, 1]: softmax over a beam's paths (Andor et al. 2016).

    A path's score is the sum of those of its candidates. The paths are those of the first expansion
    from whose candidates the gold one is missing, with the gold path added, or of the last one.

    Args:
        expansions: BeamExpansions, one for each step of the beam.

    Returns:
        [B, 1].

    Raises:
        ShapeError: there is no expansion.
    """
    if not expansions:
        raise ShapeError("there is no expansion")
    beam = _Beam(expansions[0].samples.lengths)
    for expansion in expansions[:-1]:
        beam.expand(expansion, last=False)
    beam.expand(expansions[-1], last=True)
    return unsqueeze(beam.cost, 1)


class _Beam:
    """The paths of a batch after some expansions.

    `paths` [R] are the scores of all paths. For each sample, `held` tells if its gold path is still
    in the beam, `gold` is that path's score, and `row` the sequence that continues it; `cost` is
    final once the gold path is lost.
    """

    def __init__(self, ones):
        self.row = cum_sum(ones) - 1
        self.held = ones > 0
        self.gold: Variable | None = None
        self.paths: Variable | None = None
        self.cost: Any = None  # a Variable after the first expansion

    def expand(self, e, last):
        """Add the scores of one more expansion, and the cost of the samples that end with it."""
        valid = e.candidates >= 0
        scores = _with_zero(reshape(e.scores, [-1]))
        tokens = unsqueeze(e.sequences.starts, 1) + e.candidates
        paths = gather(scores, m.where(valid, tokens, e.sequences.total))
        row = m.where(self.held, self.row, e.sequences.count)
        gold_token = gather(_with_zero(e.sequences.starts), row) + e.gold
        gold = gather(scores, m.where(self.held, gold_token, e.sequences.total))
        if self.paths is not None and self.gold is not None:
            paths, gold = paths + unsqueeze(self.paths, 1), gold + self.gold
        selected, column = self._find_gold(e, row)
        ends = self.held if last else m.logical_and(self.held, m.logical_not(selected))
        cost = _softmax_cost(e.samples, m.where(valid, paths, _LOG_ZERO), gold, selected, ends)
        self.cost = cost if self.cost is None else self.cost + cost
        self.held, self.gold = selected, gold
        self._select(paths, valid, row * e.candidates.dims[1] + column)

    def _find_gold(self, e, row):
        """Return whether the gold continuation is one of the candidates, and in which column."""
        none = constant(np.full((1, e.candidates.dims[1]), -1))
        candidates = gather(concat([e.candidates, none]), row)
        hits = m.logical_and(m.equal(candidates, unsqueeze(e.gold, 1)), unsqueeze(self.held, 1))
        hits = m.cast(hits, np.float32)
        return reduce_max(hits, [1]) > 0.0, arg_max(hits, 1)

    def _select(self, paths, valid, gold_index):
        """Keep the paths of the valid candidates, in order, and the row of the gold one."""
        valid = reshape(valid, [-1])
        number = cum_sum(m.cast(valid, np.int64)) - 1
        index = squeeze(apply("NonZero", valid), 0)
        self.paths = gather(reshape(paths, [-1]), index)
        count = size_of(valid, 0)
        self.row = gather(_with_zero(number), m.where(self.held, gold_index, count))


def _softmax_cost(samples, paths, gold, selected, ends):
    """-ln softmax(gold) over the paths [R, K] of each sample where it `ends`, 0 elsewhere.

    Where the gold path is not among them, as `selected` tells, it is added to the sum.
    """
    top = stop_gradient(m.maximum(samples.max(reduce_max(paths, [1])), gold))
    exponentials = m.exp(paths - unsqueeze(samples.repeat(top), 1))
    extra = m.where(selected, 0.0, m.exp(gold - top))
    total = samples.sum(reduce_sum(exponentials, [1])) + extra
    cost = m.log(m.where(ends, total, 1.0)) + (top - gold)
    return m.where(ends, cost, 0.0)


def _with_zero(x):
    """Append a 0 to a vector, which an index past its end reads."""
    return concat([x, constant(np.zeros(1), x.dtype)])
