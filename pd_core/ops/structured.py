"""Costs of label sequences: linear-chain CRF and CTC.

Both sum over all labelings by dynamic programming (the forward algorithm) along packed sequences,
in log space, for a batch at once. Their gradients are those of the loop.
"""

import numpy as np

from ..graph.errors import DTypeError, ShapeError
from ..graph.node import refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, fresh_dim
from . import math as m
from .gather import chosen, gather, gather_elements
from .mode import stop_gradient
from .reduce import arg_max, reduce_max, reduce_sum
from .sequence.segments import Segments
from .shape import arange, concat, expand, reshape, size_of, slice, squeeze, unsqueeze

_LOG_ZERO = -1e30  # the logarithm of 0; finite, since -inf - -inf is NaN


# ---- linear-chain conditional random fields


@op
def crf_loss(
    scores: Operand,
    labels: Operand,
    segments: Segments,
    transitions: Operand,
    start: Operand | None = None,
    end: Operand | None = None,
) -> Variable:
    """-ln p(labels | scores) of a linear-chain CRF (Lafferty et al. 2001), [B, 1].

    `scores` [T, K] and int `labels` [T] are packed sequences with these Segments. ln p is the sum
    of scores[t, l_t], of transitions[l_t, l_t+1], of start[first label] and end[last label], minus
    that sum's log-sum-exp over all labelings. `transitions` is [K, K], from row to column; `start`
    and `end` are [K], None for zeros. An empty sequence costs 0. A label outside 0 … K-1 is an
    OutOfRange error on a CPU, here and in `ctc_loss`.

    Args:
        scores: floats [T, K].
        labels: integers [T].
        transitions: floats [K, K].
        start: [K], or None.
        end: [K], or None.

    Returns:
        [B, 1].

    Raises:
        DTypeError: the labels are no integers.
    """
    chain = _Chain(scores, segments, transitions, start, end)
    score = chain.score(chosen(_labels(labels, "[T]"), chain.labels))
    return unsqueeze(chain.log_partition() - score, 1)


@op
def crf_decode(
    scores: Operand,
    segments: Segments,
    transitions: Operand,
    start: Operand | None = None,
    end: Operand | None = None,
) -> Variable:
    """Find the labeling of greatest score of each sequence (Viterbi 1967), int64 [T].

    The arguments are those of `crf_loss`. Of labels with equal scores the lowest is taken.
    """
    return _Chain(scores, segments, transitions, start, end).best()


class _Chain:
    """A linear-chain CRF; the scores of first and last tokens include `start` and `end`."""

    def __init__(self, scores, segments, transitions, start, end):
        scores = _rows("scores", scores, "[T, K]")
        self.labels, self.segments = scores.dims[1], segments
        self.transitions = self._weights("transitions", transitions, 2, scores.dtype)
        left = segments.repeat(segments.lengths) - segments.position
        self.first, last = m.equal(segments.position, 0), m.equal(left, 1)
        for name, weights, mask in (("start", start, self.first), ("end", end, last)):
            if weights is not None:
                weights = self._weights(name, weights, 1, scores.dtype)
                scores = scores + m.where(unsqueeze(mask, 1), weights, 0.0)
        self.scores = scores

    def _weights(self, name, weights, rank, dtype):
        weights = constant(weights, dtype)
        if weights.dims != (self.labels,) * rank:
            sizes = [self.labels] * rank
            raise ShapeError(f"{name} are {sizes} as the scores, not {describe(weights)}")
        return weights

    def _zeros(self):
        return self.segments.zeros(self.labels, dtype=self.scores.dtype)

    def log_partition(self):
        """Compute the log-sum-exp of the scores of all labelings, [B]; 0 of an empty sequence."""

        def step(alpha, inputs):
            scores, first = inputs
            before = _log_sum_exp(unsqueeze(alpha, 2) + self.transitions, 1)
            alpha = scores + m.where(unsqueeze(first, 1), 0.0, before)
            return alpha, alpha

        alpha, _ = self.segments.scan(step, self._zeros(), [self.scores, self.first])
        return m.where(self.segments.lengths > 0, _log_sum_exp(alpha, 1), 0.0)

    def score(self, labels):
        """Compute the score of a labeling, [B]."""
        emissions = squeeze(gather_elements(self.scores, unsqueeze(labels, 1), 1), 1)
        pairs = _previous(labels) * self.labels + labels
        transitions = gather(reshape(self.transitions, [-1]), pairs)
        return self.segments.sum(emissions + m.where(self.first, 0.0, transitions))

    def best(self):
        """Find the best labeling by Viterbi: a forward pass, then back along its pointers."""

        def forward(best, inputs):
            scores, first = inputs
            candidates = unsqueeze(best, 2) + self.transitions
            first = unsqueeze(first, 1)
            best = scores + m.where(first, 0.0, reduce_max(candidates, [1]))
            return best, arg_max(candidates, 1)

        def back(label, pointers):
            return gather_elements(pointers, label, 1), label

        final, pointers = self.segments.scan(forward, self._zeros(), [self.scores, self.first])
        last = arg_max(final, 1, keep_dim=True)
        _, labels = self.segments.scan(back, last, pointers, reverse=True)
        return squeeze(labels, 1)


# ---- connectionist temporal classification


@op
def ctc_loss(
    log_probability: Operand,
    labels: Operand,
    segments: Segments,
    label_segments: Segments,
    blank: int = 0,
) -> Variable:
    """-ln p(labels | steps) by CTC (Graves et al. 2006), [B, 1]: the sum over all alignments.

    `log_probability` [T, C] is the log-softmax over labels and the blank of each step, packed with
    `segments`; int `labels` [L], without blanks, are packed with `label_segments`. A sequence with
    too few steps for its labels and the blanks between equal ones costs 0.

    Args:
        log_probability: floats [T, C].
        labels: integers [L].
        blank: the class of the blank.

    Returns:
        [B, 1].

    Raises:
        DTypeError: the labels are no integers.
        ShapeError: there is no class of the blank's number, or the steps are no floats [T, C].
    """
    steps = _rows("log probabilities", log_probability, "[T, C]")
    labels = chosen(_labels(labels, "[L]"), steps.dims[1])
    if not 0 <= blank < steps.dims[1]:
        raise ShapeError(f"the blank {blank} is none of {steps.dims[1]} classes")
    # float16 has no number for the logarithm of 0, nor the digits of a sum over alignments
    wide = m.cast(steps, np.float32) if steps.dtype == np.float16 else steps
    lattice = _Lattice(wide, labels, segments, label_segments, blank)
    feasible = segments.lengths >= _least_steps(labels, label_segments)
    loss = m.where(feasible, -lattice.log_probability(), 0.0)
    return unsqueeze(m.cast(loss, steps.dtype), 1)


def _least_steps(labels, segments):
    """Return the least number of steps for each label sequence; equal neighbours need a blank."""
    inside = segments.position > 0
    repeated = m.logical_and(m.equal(labels, _previous(labels)), inside)
    return segments.lengths + segments.sum(m.cast(repeated, np.int64))


class _Lattice:
    """All alignments of a batch: S = 2 L + 1 states, blanks at even ones, labels at odd ones.

    `/` of integer Variables rounds toward zero.
    """

    def __init__(self, steps, labels, segments, label_segments, blank):
        self.steps, self.segments, self.label_segments = steps, segments, label_segments
        self.dims = (segments.lengths.dims[0], fresh_dim())
        self.states = arange(m.maximum(label_segments.longest, 1) * 2 + 1)
        self.path = self._path(labels, blank)

    def _sized(self, x):
        x = refined(x, self.dims)
        return x

    def _path(self, labels, blank):
        """Return the class of each state, int64 [B, S]; blanks after the end of the labels."""
        segments, position = self.label_segments, m.quotient(self.states, 2)
        odd = self.states - position * 2 > 0
        ends = unsqueeze(segments.lengths * 2, 1)
        is_label = m.logical_and(unsqueeze(odd, 0), unsqueeze(self.states, 0) < ends)
        index = unsqueeze(segments.starts, 1) + unsqueeze(position, 0)
        classes = concat([labels, constant(np.array([blank], np.int64))])
        return self._sized(gather(classes, m.where(is_label, index, segments.total)))

    def _skip(self):
        """Return 0 where a state may follow the one two before it, of another class."""
        same = m.equal(self._shifted(self.path, 2, -1), self.path)
        return m.where(same, constant(_LOG_ZERO, self.steps.dtype), 0.0)

    def _shifted(self, x, count, fill):
        """Shift x [B, S] by `count` states to the right."""
        border = constant(np.full((1, count), fill), x.dtype)
        border = expand(border, concat([self.segments.count, constant(np.array([1]))]))
        shifted = concat([border, slice(x, [0], [-count], [1])], 1)
        return self._sized(shifted)

    def log_probability(self):
        """Compute ln p of each sequence by the forward algorithm, [B]."""
        emissions = gather_elements(self.steps, self.segments.repeat(self.path), 1)
        emissions = m.maximum(emissions, _LOG_ZERO)  # where a probability is 0
        skip = self._skip()
        start = m.where(m.equal(self.states, 0), 0.0, constant(_LOG_ZERO, self.steps.dtype))
        start = self._sized(expand(start, concat([self.segments.count, size_of(self.path, 1)])))

        def step(alpha, emission):
            from_previous = self._shifted(alpha, 1, _LOG_ZERO)
            from_second = self._shifted(alpha, 2, _LOG_ZERO) + skip
            alpha = emission + _log_add(alpha, from_previous, from_second)
            return alpha, alpha

        alpha, _ = self.segments.scan(step, start, emissions)
        return self._final(alpha)

    def _final(self, alpha):
        """Sum over the two final states: the last label, and the blank after it."""
        last = unsqueeze(self.label_segments.lengths * 2, 1)
        blank = gather_elements(alpha, last, 1)
        label = gather_elements(alpha, m.maximum(last - 1, 0), 1)
        log_zero = constant(_LOG_ZERO, alpha.dtype)
        return squeeze(_log_add(blank, m.where(m.equal(last, 0), log_zero, label)), 1)


# ---- shared by both


def _rows(what, x, form):
    """Check for rows of floats with a known number of columns."""
    x = constant(x)
    if x.rank != 2 or x.dtype.kind != "f" or not isinstance(x.dims[1], int):
        raise ShapeError(f"{what} are floats {form}, not {describe(x)}")
    return x


def _labels(labels, form):
    labels = constant(labels)
    if labels.dtype.kind not in "iu" or labels.rank != 1:
        raise DTypeError(f"labels are integers {form}, not {describe(labels)}")
    return m.cast(labels, np.int64)


def _previous(labels):
    """Return the label before each one; for the first, itself."""
    return concat([slice(labels, [0], [1], [0]), slice(labels, [0], [-1], [0])])


def _log_sum_exp(x, axis):
    """Compute ln of the sum of e^x along an axis, which is removed."""
    top = stop_gradient(reduce_max(x, [axis], keep_dim=True))
    total = reduce_sum(m.exp(x - top), [axis])
    return m.log(total) + squeeze(top, axis)


def _log_add(*terms):
    """Compute ln of the sum of e^x over the terms, elementwise."""
    top = terms[0]
    for x in terms[1:]:
        top = m.maximum(top, x)
    top = stop_gradient(top)
    total = m.exp(terms[0] - top)
    for x in terms[1:]:
        total = total + m.exp(x - top)
    return top + m.log(total)
