"""Ranking: how well scores order the steps of sequences by their relevance."""

import numpy as np

from ..graph.variable import constant
from . import math as m
from .mode import stop_gradient
from .reduce import reduce_sum
from .shape import arange, size_of, unsqueeze


def sequence_ranks(segments, values):
    """The place of each of values [T] in its sequence from the largest down, int64 [T].

    Of equal ones the earlier comes first.
    """
    padded = segments.pad(values, fill=-np.inf)
    other, own = unsqueeze(padded, 1), unsqueeze(padded, 2)
    step = arange(size_of(padded, 1))
    earlier = m.less_than(unsqueeze(step, 0), unsqueeze(step, 1))
    ahead = m.logical_or(m.greater_than(other, own), m.logical_and(m.equal(other, own), earlier))
    return segments.pack(reduce_sum(m.cast(ahead, np.int64), [2]))


def ndcg(segments, scores, relevance, count):
    """The normalised discounted cumulative gain of each sequence at `count`, [B].

    The sum of (2^relevance - 1) / ln(place + 2) over the first `count` places by score, over the
    same by relevance (Järvelin & Kekäläinen 2002); 0 where nothing is relevant.
    """
    by_score, best = (
        segments.sum(_gains(segments, values, relevance, count)) for values in (scores, relevance)
    )
    some = m.greater_than(best, 0.0)
    return m.where(some, m.div(by_score, m.where(some, best, 1.0)), 0.0)


def _gains(segments, values, relevance, count):
    """What each step adds to the sum when `values` decide its place, [T]."""
    place = sequence_ranks(segments, values)
    gain = m.mul(m.sub(_power_of_two(relevance), 1.0), _discount(place, relevance.dtype))
    return m.where(m.less_than(place, count), gain, 0.0)


def lambda_rank(segments, scores, relevance, count, sort_size=None):
    """The gradient by each of scores [T] that LambdaRank follows (Burges et al. 2006), [T].

    Of two steps the more relevant one is pulled up and the other down, by what swapping them
    changes in `ndcg`, times the logistic of how far the order is wrong. With `sort_size` only
    that many places are told apart: those behind count as never read.
    """
    scores, relevance = stop_gradient(scores), stop_gradient(relevance)
    place = sequence_ranks(segments, relevance)
    discount, dtype = _discount(place, scores.dtype), scores.dtype
    if sort_size is not None:
        discount = m.where(m.less_than(place, sort_size), discount, constant(0, dtype))
    best = segments.sum(_gains(segments, relevance, relevance, count))
    score, power, discount, place = (
        segments.pad(v) for v in (scores, _power_of_two(relevance), discount, m.cast(place, dtype))
    )
    change = m.abs(m.mul(_differences(power), _differences(discount)))
    pull = m.mul(change, m.sigmoid(m.neg(_differences(score))))
    alive = segments.valid
    pair = m.logical_and(unsqueeze(alive, 1), unsqueeze(alive, 2))
    pair = m.logical_and(pair, m.less_than(_differences(place), 0.0))
    if sort_size is not None:
        pair = m.logical_and(pair, m.less_than(unsqueeze(place, 2), float(sort_size)))
    pull = m.where(pair, pull, constant(0, dtype))
    lift = segments.pack(m.sub(reduce_sum(pull, [1]), reduce_sum(pull, [2])))
    some = m.greater_than(best, 0.0)
    share = m.where(some, m.reciprocal(m.where(some, best, 1.0)), 0.0)
    return m.mul(lift, segments.repeat(share))


def _power_of_two(x):
    return m.exp(m.mul(x, float(np.log(2.0))))


def _discount(place, dtype):
    return m.reciprocal(m.log(m.add(m.cast(place, dtype), 2.0)))


def _differences(x):
    """x[b, i] - x[b, j] at [b, i, j]."""
    return m.sub(unsqueeze(x, 2), unsqueeze(x, 1))
