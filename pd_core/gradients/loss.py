"""Derivatives of costs that are operators of ours, for the sake of log space."""

from .. import ops
from .registry import elementwise


def _logit(p):
    """ln (1-p) - ln p."""
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
