"""Ranking: NDCG and LambdaRank of the order that scores give the steps of sequences."""

import numpy as np

from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from . import math as m
from .activation import sigmoid
from .mode import stop_gradient
from .reduce import reduce_sum
from .sequence.segments import Segments
from .shape import arange, size_of, unsqueeze


@op
def sequence_ranks(segments: Segments, values: Operand) -> Variable:
    """Return the rank of each of values [T] in its sequence, 0 for the largest, int64 [T].

    Of equal ones the earlier comes first.
    """
    padded = segments.pad(values, fill=-np.inf)
    other, own = unsqueeze(padded, 1), unsqueeze(padded, 2)
    step = arange(size_of(padded, 1))
    earlier = unsqueeze(step, 0) < unsqueeze(step, 1)
    before = m.logical_or(other > own, m.logical_and(m.equal(other, own), earlier))
    return segments.pack(reduce_sum(m.cast(before, np.int64), [2]))


@op
def ndcg(segments: Segments, scores: Operand, relevance: Variable, count: int) -> Variable:
    """Normalised discounted cumulative gain of each sequence at `count`, [B].

    The sum of (2^relevance - 1) / ln(rank + 2) over the first `count` ranks by score, divided by
    that of the ideal order, by relevance (Järvelin & Kekäläinen 2002); 0 where nothing is relevant.
    """
    by_score, best = (
        segments.sum(_gains(segments, values, relevance, count)) for values in (scores, relevance)
    )
    relevant = best > 0.0
    return m.where(relevant, by_score / m.where(relevant, best, 1.0), 0.0)


def _gains(segments, values, relevance, count):
    """Return the discounted gain of each step at its rank by `values`, [T]."""
    rank = sequence_ranks(segments, values)
    gain = (_power_of_two(relevance) - 1.0) * _discount(rank, relevance.dtype)
    return m.where(rank < count, gain, 0.0)


@op
def lambda_rank(
    segments: Segments,
    scores: Operand,
    relevance: Operand,
    count: int,
    sort_size: int | None = None,
) -> Variable:
    """Return LambdaRank's gradient of the cost in scores [T] (Burges et al. 2006), [T].

    Of two steps the more relevant one is pushed up and the other down, by the change of `ndcg` if
    they were swapped, times the sigmoid of the score difference. With `sort_size` only that many
    ranks count: steps behind them have a discount of 0.
    """
    scores, relevance = stop_gradient(scores), stop_gradient(relevance)
    rank = sequence_ranks(segments, relevance)
    discount, dtype = _discount(rank, scores.dtype), scores.dtype
    if sort_size is not None:
        discount = m.where(rank < sort_size, discount, constant(0, dtype))
    best = segments.sum(_gains(segments, relevance, relevance, count))
    score, power, discount, rank = (
        segments.pad(v) for v in (scores, _power_of_two(relevance), discount, m.cast(rank, dtype))
    )
    change = m.abs(_differences(power) * _differences(discount))
    lambdas = change * sigmoid(-_differences(score))
    alive = segments.valid
    pair = m.logical_and(unsqueeze(alive, 1), unsqueeze(alive, 2))
    pair = m.logical_and(pair, _differences(rank) < 0.0)
    if sort_size is not None:
        pair = m.logical_and(pair, unsqueeze(rank, 2) < float(sort_size))
    lambdas = m.where(pair, lambdas, constant(0, dtype))
    gradient = segments.pack(reduce_sum(lambdas, [1]) - reduce_sum(lambdas, [2]))
    relevant = best > 0.0
    scale = m.where(relevant, m.reciprocal(m.where(relevant, best, 1.0)), 0.0)
    return gradient * segments.repeat(scale)


def _power_of_two(x):
    return m.exp(x * float(np.log(2.0)))


def _discount(rank, dtype):
    return m.reciprocal(m.log(m.cast(rank, dtype) + 2.0))


def _differences(x):
    """Return x[b, i] - x[b, j] at [b, i, j]."""
    return unsqueeze(x, 2) - unsqueeze(x, 1)
