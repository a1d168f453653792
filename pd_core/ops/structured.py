"""Costs of whole label sequences: linear-chain CRF and CTC.

Both sum over all labelings by dynamic programming along packed sequences, in log space, for a
batch at once; their gradients are those of the loop.
"""

import numpy as np

from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.variable import constant, describe, fresh_dim
from . import math as m
from .index import gather, gather_elements
from .mode import stop_gradient
from .reduce import arg_max, reduce_max, reduce_sum
from .shape import arange, concat, expand, reshape, size_of, slice, squeeze, unsqueeze

_NEVER = -1e30  # the logarithm of 0, finite so that differences of two are no NaN


# ---- linear-chain conditional random fields


def crf_loss(scores, labels, segments, transitions, start=None, end=None):
    """-ln p(labels | scores) of a linear-chain CRF (Lafferty et al. 2001), a row per sequence.

    `scores` [T, K] and int `labels` [T] are packed sequences with these Segments, the result is
    [B, 1]. ln p is the sum of scores[t, l_t], of transitions[l_t, l_t+1], of start[first label]
    and end[last label], minus that sum's log-sum-exp over all labelings. `transitions` is [K, K]
    from row to column, `start` and `end` are [K], nothing where None. An empty sequence costs 0.
    """
    chain = _Chain("crf_loss", scores, segments, transitions, start, end)
    score = chain.score(_labels("crf_loss", labels, "[T]"))
    return unsqueeze(m.sub(chain.log_partition(), score), 1)


def crf_decode(scores, segments, transitions, start=None, end=None):
    """The labeling of greatest score, int64 [T], for each sequence (Viterbi 1967).

    The arguments are those of `crf_loss`. Of equal labels the lowest is taken.
    """
    return _Chain("crf_decode", scores, segments, transitions, start, end).best()


class _Chain:
    """A linear-chain model: the borders' scores are added to those of the first and last token."""

    def __init__(self, who, scores, segments, transitions, start, end):
        scores = _rows(who, "scores", scores, "[T, K]")
        self.labels, self.segments = scores.dims[1], segments
        self.transitions = self._weights(who, "transitions", transitions, 2, scores.dtype)
        left = m.sub(segments.repeat(segments.lengths), segments.position)
        self.first, last = m.equal(segments.position, 0), m.equal(left, 1)
        for name, border, at in (("start", start, self.first), ("end", end, last)):
            if border is not None:
                border = self._weights(who, name, border, 1, scores.dtype)
                scores = m.add(scores, m.where(unsqueeze(at, 1), border, 0.0))
        self.scores = scores

    def _weights(self, who, name, weights, rank, dtype):
        weights = constant(weights, dtype)
        if weights.dims != (self.labels,) * rank:
            sizes = [self.labels] * rank
            raise ShapeError(f"{who}: {name} are {sizes} as the scores, not {describe(weights)}")
        return weights

    def _zeros(self):
        return self.segments.zeros(self.labels, dtype=self.scores.dtype)

    def log_partition(self):
        """The log-sum-exp of all labelings' scores, [B]; 0 of no token."""

        def step(alpha, inputs):
            scores, first = inputs
            moved = _log_sum_exp(m.add(unsqueeze(alpha, 2), self.transitions), 1)
            alpha = m.add(scores, m.where(unsqueeze(first, 1), 0.0, moved))
            return alpha, alpha

        alpha, _ = self.segments.scan(step, self._zeros(), [self.scores, self.first])
        some = m.greater_than(self.segments.lengths, 0)
        return m.where(some, _log_sum_exp(alpha, 1), 0.0)

    def score(self, labels):
        """The score of a labeling, [B]."""
        states = squeeze(gather_elements(self.scores, unsqueeze(labels, 1), 1), 1)
        pairs = m.add(m.mul(_before(labels), self.labels), labels)
        moves = gather(reshape(self.transitions, [-1]), pairs)
        return self.segments.sum(m.add(states, m.where(self.first, 0.0, moves)))

    def best(self):
        """The labels of the best path: scores forward, then back along where they came from."""

        def forward(best, inputs):
            scores, first = inputs
            moved = m.add(unsqueeze(best, 2), self.transitions)
            start = unsqueeze(first, 1)
            best = m.add(scores, m.where(start, 0.0, reduce_max(moved, [1])))
            return best, arg_max(moved, 1)

        def back(label, came_from):
            return gather_elements(came_from, label, 1), label

        final, came_from = self.segments.scan(forward, self._zeros(), [self.scores, self.first])
        last = arg_max(final, 1, keep_dim=True)
        _, labels = self.segments.scan(back, last, came_from, reverse=True)
        return squeeze(labels, 1)


# ---- connectionist temporal classification


def ctc_loss(log_probability, labels, segments, label_segments, blank=0):
    """-ln p(labels | steps) by CTC (Graves et al. 2006), [B, 1]: the sum over all alignments.

    `log_probability` [T, C] holds the logarithms of each step's distribution over labels and the
    blank, packed with `segments`; int `labels` [L] are packed with `label_segments` and do not
    hold the blank. A sequence with fewer steps than labels and blanks between equal ones costs 0.
    """
    steps = _rows("ctc_loss", "log probabilities", log_probability, "[T, C]")
    labels = _labels("ctc_loss", labels, "[L]")
    if not 0 <= blank < steps.dims[1]:
        raise ShapeError(f"ctc_loss: the blank {blank} is none of {steps.dims[1]} classes")
    lattice = _Lattice(steps, labels, segments, label_segments, blank)
    feasible = m.greater_equal(segments.lengths, _least_steps(labels, label_segments))
    return unsqueeze(m.where(feasible, m.neg(lattice.log_probability()), 0.0), 1)


def _least_steps(labels, segments):
    """The steps that each sequence of labels takes at least: a repetition has a blank inside."""
    inside = m.greater_than(segments.position, 0)
    again = m.logical_and(m.equal(labels, _before(labels)), inside)
    return m.add(segments.lengths, segments.sum(m.cast(again, np.int64)))


class _Lattice:
    """All alignments of a batch: S places, with blanks at 0 and every other one, labels between."""

    def __init__(self, steps, labels, segments, label_segments, blank):
        self.steps, self.segments, self.label_segments = steps, segments, label_segments
        self.dims = (segments.lengths.dims[0], fresh_dim())
        self.places = arange(m.add(m.mul(m.maximum(label_segments.longest, 1), 2), 1))
        self.path = self._path(labels, blank)

    def _sized(self, x):
        x = refined(x, self.dims)
        return x

    def _path(self, labels, blank):
        """The class at each place, int64 [B, S]; blanks from the end of the labels on."""
        segments, step = self.label_segments, m.div(self.places, 2)
        odd = m.greater_than(m.sub(self.places, m.mul(step, 2)), 0)
        ends = unsqueeze(m.mul(segments.lengths, 2), 1)
        held = m.logical_and(unsqueeze(odd, 0), m.less_than(unsqueeze(self.places, 0), ends))
        index = m.add(unsqueeze(segments.starts, 1), unsqueeze(step, 0))
        classes = concat([labels, constant(np.array([blank], np.int64))])
        return self._sized(gather(classes, m.where(held, index, segments.total)))

    def _jump(self):
        """Zeros where a place is reached from two before it: no blank, nor the label there."""
        same = m.equal(self._moved(self.path, 2, -1), self.path)
        return m.where(same, constant(_NEVER, self.steps.dtype), 0.0)

    def _moved(self, x, count, fill):
        """x [B, S] moved `count` places up."""
        border = constant(np.full((1, count), fill), x.dtype)
        border = expand(border, concat([self.segments.count, constant(np.array([1]))]))
        moved = concat([border, slice(x, [0], [-count], [1])], 1)
        return self._sized(moved)

    def log_probability(self):
        """ln p of each sequence, [B]."""
        given = gather_elements(self.steps, self.segments.repeat(self.path), 1)
        given = m.maximum(given, _NEVER)  # where a probability is 0
        jump = self._jump()
        start = m.where(m.equal(self.places, 0), 0.0, constant(_NEVER, self.steps.dtype))
        start = self._sized(expand(start, concat([self.segments.count, size_of(self.path, 1)])))

        def step(alpha, given):
            once = self._moved(alpha, 1, _NEVER)
            twice = m.add(self._moved(alpha, 2, _NEVER), jump)
            alpha = m.add(given, _log_add(alpha, once, twice))
            return alpha, alpha

        alpha, _ = self.segments.scan(step, start, given)
        return self._final(alpha)

    def _final(self, alpha):
        """All labels are read at the last label or the blank behind it."""
        last = unsqueeze(m.mul(self.label_segments.lengths, 2), 1)
        blank = gather_elements(alpha, last, 1)
        label = gather_elements(alpha, m.maximum(m.sub(last, 1), 0), 1)
        never = constant(_NEVER, alpha.dtype)
        return squeeze(_log_add(blank, m.where(m.equal(last, 0), never, label)), 1)


# ---- what both have in common


def _rows(who, what, x, form):
    """Rows of floats with a known number of columns."""
    x = constant(x)
    if x.rank != 2 or x.dtype.kind != "f" or not isinstance(x.dims[1], int):
        raise ShapeError(f"{who}: {what} are floats {form}, not {describe(x)}")
    return x


def _labels(who, labels, form):
    labels = constant(labels)
    if labels.dtype.kind not in "iu" or labels.rank != 1:
        raise DTypeError(f"{who}: labels are integers {form}, not {describe(labels)}")
    return m.cast(labels, np.int64)


def _before(labels):
    """The label before each one; the first stays."""
    return concat([slice(labels, [0], [1], [0]), slice(labels, [0], [-1], [0])])


def _log_sum_exp(x, axis):
    """ln of the sum of e^x along an axis, which goes away."""
    top = stop_gradient(reduce_max(x, [axis], keep_dim=True))
    total = reduce_sum(m.exp(m.sub(x, top)), [axis])
    return m.add(m.log(total), squeeze(top, axis))


def _log_add(*terms):
    """ln of the sum of e^x, elementwise."""
    top = terms[0]
    for x in terms[1:]:
        top = m.maximum(top, x)
    top = stop_gradient(top)
    total = m.exp(m.sub(terms[0], top))
    for x in terms[1:]:
        total = m.add(total, m.exp(m.sub(x, top)))
    return m.add(top, m.log(total))
