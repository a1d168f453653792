"""Derivatives of costs: ONNX's losses, and our own composites, which are stable in log space."""

import numpy as np

from ... import ops
from ...graph.variable import Variable
from ..expression import expression
from ..registry import Attributes, elementwise


def _logit(p):
    """Return ln (1-p) - ln p."""
    return ops.log_probability(1.0 - p) - ops.log_probability(p)


# fmt: off
elementwise("LogProbability",     lambda p, y, dy: ops.log_probability_grad(p, dy))
elementwise("LogProbabilityGrad", lambda p, dy, dp, u: -(u * dp / p),
                                  lambda p, dy, dp, u: ops.log_probability_grad(p, u))
elementwise("BinaryCrossEntropy", lambda p, t, y, dy: ops.binary_cross_entropy_grad(p, t, dy),
                                  lambda p, t, y, dy: dy * _logit(p))
elementwise("BinaryCrossEntropyGrad",
            lambda p, t, dy, dp, u: u * dy * (p * p - 2.0 * t * p + t) / ops.square(p - p * p),
            lambda p, t, dy, dp, u: -(u * dy / (p - p * p)),
            lambda p, t, dy, dp, u: ops.binary_cross_entropy_grad(p, t, u))
# fmt: on


# ---- ONNX's own


@expression("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    a: Attributes, logp: Variable, label: Variable, weights: Variable | None = None
) -> Variable:
    return _likelihood(a, logp, label, weights)


@expression("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    a: Attributes, scores: Variable, label: Variable, weights: Variable | None = None
) -> list[Variable]:
    logp = ops.log_softmax(scores, 1)
    return [_likelihood(a, logp, label, weights), logp]


def _likelihood(a, logp, label, weights):
    """Return -w[label] log p[label] for [N, C, ...] and labels [N, ...].

    The mean is weighted; labels equal to `ignore_index` have weight 0.
    """
    index, ignored, factor = ops.cast(label, np.int64), a.get("ignore_index"), None
    counted = None if ignored is None else ops.logical_not(ops.equal(index, ignored))
    if counted is not None:
        index = ops.where(counted, index, 0)
        factor = ops.cast(counted, logp.dtype)
    if weights is not None:
        own = ops.gather(weights, index)
        factor = own if factor is None else own * factor
    cost = -ops.squeeze(ops.gather_elements(logp, ops.unsqueeze(index, 1), 1), 1)
    cost = cost if factor is None else cost * factor
    reduction = a.get("reduction", "mean")
    if reduction == "none":
        return cost
    total = ops.reduce_sum(cost)
    if reduction == "sum":
        return total
    return ops.reduce_mean(cost) if factor is None else total / ops.reduce_sum(factor)
