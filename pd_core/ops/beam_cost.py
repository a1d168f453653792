"""The cost of a search by beams, normalised over all its paths at once."""

from dataclasses import dataclass

import numpy as np

from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply
from ..graph.variable import Variable, constant, describe
from . import math as m
from .index import gather
from .mode import stop_gradient
from .reduce import arg_max, cum_sum, reduce_max, reduce_sum
from .sequence.segments import Segments
from .shape import concat, ones_like, reshape, size_of, squeeze, unsqueeze

_NEVER = -1e30  # the logarithm of 0, finite so that differences of two are no NaN


@dataclass
class BeamExpansion:
    """One step of a search: scores of all that may follow, what was chosen, what is right.

    `scores` [T, 1] are packed in R `sequences`, one for each path that the step before chose, in
    that order; `samples` are the B Segments of the samples in those sequences, None in the first
    step, where each sample has one. `candidates` [R, K] are places in a sequence, -1 for none;
    `gold` [B] is the right place in the sequence that follows the right path.
    """

    scores: Variable
    sequences: Segments
    candidates: Variable
    gold: Variable
    samples: Segments | None = None

    def __post_init__(self):
        self.scores, self.gold = constant(self.scores), constant(self.gold)
        self.candidates = constant(self.candidates)
        if self.scores.rank != 2 or self.scores.dims[1] != 1 or self.scores.dtype.kind != "f":
            raise ShapeError(
                f"BeamExpansion: scores are floats [T, 1], not {describe(self.scores)}"
            )
        if self.candidates.rank != 2 or not isinstance(self.candidates.dims[1], int):
            given = describe(self.candidates)
            raise ShapeError(f"BeamExpansion: candidates are [R, K] of a known K, not {given}")
        if self.gold.rank != 1 or self.gold.dtype.kind != "i":
            raise DTypeError(f"BeamExpansion: gold is integers [B], not {describe(self.gold)}")
        self.candidates = m.cast(self.candidates, np.int64)
        self.gold = m.cast(self.gold, np.int64)
        if self.samples is None:
            lengths = self.sequences.lengths
            self.samples = Segments(ones_like(lengths), lengths.dims[0])


def cross_entropy_over_beam(expansions):
    """-ln p(gold) for each sample, [B, 1]: a softmax over the paths of a beam (Andor et al. 2016).

    A path's score is the sum of those of its candidates. The paths are those of the first of the
    expansions whose candidates lack the gold one, which is added to them, or of the last one.
    """
    if not expansions:
        raise ShapeError("cross_entropy_over_beam: there is no expansion")
    beam = _Beam(expansions[0].samples.lengths)
    for expansion in expansions[:-1]:
        beam.expand(expansion, last=False)
    beam.expand(expansions[-1], last=True)
    return unsqueeze(beam.cost, 1)


class _Beam:
    """What some expansions made of a batch.

    `paths` [R] are the scores of all paths. For each sample, `gold` is the score of its gold path
    and `row` the sequence behind that if the beam still has it, as `held` says; `cost` is final
    where it has not.
    """

    def __init__(self, ones):
        self.row = m.sub(cum_sum(ones), 1)
        self.held = m.greater_than(ones, 0)
        self.gold = self.paths = self.cost = None

    def expand(self, e, last):
        """One expansion more."""
        there = m.greater_equal(e.candidates, 0)
        scores = _with_zero(reshape(e.scores, [-1]))
        tokens = m.add(unsqueeze(e.sequences.starts, 1), e.candidates)
        paths = gather(scores, m.where(there, tokens, e.sequences.total))
        row = m.where(self.held, self.row, e.sequences.count)
        place = m.add(gather(_with_zero(e.sequences.starts), row), e.gold)
        gold = gather(scores, m.where(self.held, place, e.sequences.total))
        if self.paths is not None:
            paths, gold = m.add(paths, unsqueeze(self.paths, 1)), m.add(gold, self.gold)
        found, column = self._find(e, row)
        ends = self.held if last else m.logical_and(self.held, m.logical_not(found))
        cost = _softmax_cost(e.samples, m.where(there, paths, _NEVER), gold, found, ends)
        self.cost = cost if self.cost is None else m.add(self.cost, cost)
        self.held, self.gold = found, gold
        self._follow(paths, there, m.add(m.mul(row, e.candidates.dims[1]), column))

    def _find(self, e, row):
        """Whether the gold candidate is in its sequence's, and in which column."""
        none = constant(np.full((1, e.candidates.dims[1]), -1))
        mine = gather(concat([e.candidates, none]), row)
        hits = m.logical_and(m.equal(mine, unsqueeze(e.gold, 1)), unsqueeze(self.held, 1))
        hits = m.cast(hits, np.float32)
        return m.greater_than(reduce_max(hits, [1]), 0.0), arg_max(hits, 1)

    def _follow(self, paths, there, gold_place):
        """The chosen paths, in order, and which of them is gold."""
        chosen = reshape(there, [-1])
        number = m.sub(cum_sum(m.cast(chosen, np.int64)), 1)
        places = squeeze(apply("NonZero", chosen), 0)
        self.paths = gather(reshape(paths, [-1]), places)
        count = size_of(chosen, 0)
        self.row = gather(_with_zero(number), m.where(self.held, gold_place, count))


def _softmax_cost(samples, paths, gold, found, ends):
    """-ln of the share of gold in the paths [R, K] of each sample where it `ends`, 0 elsewhere."""
    top = stop_gradient(m.maximum(samples.max(reduce_max(paths, [1])), gold))
    shares = m.exp(m.sub(paths, unsqueeze(samples.repeat(top), 1)))
    extra = m.where(found, 0.0, m.exp(m.sub(gold, top)))
    total = m.add(samples.sum(reduce_sum(shares, [1])), extra)
    cost = m.add(m.log(m.where(ends, total, 1.0)), m.sub(top, gold))
    return m.where(ends, cost, 0.0)


def _with_zero(x):
    """A vector and a 0 behind it, which stands for none."""
    return concat([x, constant(np.zeros(1), x.dtype)])
