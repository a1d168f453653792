"""Derivatives of normalisations, from the formula of each."""

import numpy as np

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable, static
from ...ops.ranks import weighted_sum_over_ranks
from ..expression import expression
from ..registry import Attributes, Gradients, gradient

_TINY = 1e-9  # the epsilon of MeanVarianceNormalization, added to the standard deviation


@expression("LayerNormalization")
def layer_normalization(
    a: Attributes, x: Variable, scale: Variable, shift: Variable | None = None
) -> list[Variable]:
    """Normalise over the axes from `axis` on; return the mean and 1 / standard deviation too."""
    x, dtype = _to_single(x), x.dtype
    axes = list(range(a.get("axis", -1) % x.rank, x.rank))
    y, mean, factor = _standardised(x, axes, a.get("epsilon", 1e-5))
    y = ops.cast(y, dtype) * scale
    y = y if shift is None else y + shift
    return [y, ops.cast(mean, np.float32), ops.cast(factor, np.float32)]


@expression("RMSNormalization")
def rms_normalization(a: Attributes, x: Variable, scale: Variable) -> Variable:
    """Divide by the root mean square over the axes from `axis` on (Zhang & Sennrich 2019)."""
    x, dtype = _to_single(x), x.dtype
    axes = list(range(a.get("axis", -1) % x.rank, x.rank))
    power = ops.reduce_mean(ops.square(x), axes, keep_dim=True)
    return ops.cast(x / ops.sqrt(power + a.get("epsilon", 1e-5)), dtype) * scale


@expression("GroupNormalization")
def group_normalization(a: Attributes, x: Variable, scale: Variable, shift: Variable) -> Variable:
    """Normalise over groups of channels and all positions (Wu & He 2018)."""
    groups = ops.reshape(_to_single(x), [0, a["num_groups"], -1])
    y, _, _ = _standardised(groups, [2], a.get("epsilon", 1e-5))
    y = ops.cast(ops.reshape_like(y, x), x.dtype)
    return y * _column(scale, x) + _column(shift, x)


@expression("InstanceNormalization")
def instance_normalization(
    a: Attributes, x: Variable, scale: Variable, shift: Variable
) -> Variable:
    """Normalise over the positions of each channel of each image (Ulyanov et al. 2016)."""
    y, _, _ = _standardised(x, list(range(2, x.rank)), a.get("epsilon", 1e-5))
    return y * _column(scale, x) + _column(shift, x)


@expression("BatchNormalization")
def batch_normalization(
    a: Attributes, x: Variable, scale: Variable, shift: Variable, mean: Variable, variance: Variable
) -> Variable | list[Variable]:
    """Normalise by the running statistics; in training by those of the batch, and update them."""
    epsilon = a.get("epsilon", 1e-5)
    if not a.get("training_mode", 0):
        factor = 1.0 / ops.sqrt(_column(variance, x) + epsilon)
        return (x - _column(mean, x)) * factor * _column(scale, x) + _column(shift, x)
    axes, keep = [0, *range(2, x.rank)], a.get("momentum", 0.9)
    y, mu, _ = _standardised(x, axes, epsilon)
    var = ops.reduce_mean(ops.square(x - mu), axes)
    mu = ops.reshape_like(mu, mean)
    running = [old * keep + new * (1.0 - keep) for old, new in ((mean, mu), (variance, var))]
    return [y * _column(scale, x) + _column(shift, x), *running]


@gradient("BatchNorm")
def batch_norm(
    node: Node,
    dy: Variable | None,
    dmean: Variable | None,
    dvariance: Variable | None,
    _: Variable | None,
) -> Gradients:
    """By the batch's own statistics: dx is dy, x and 1, each times a factor per channel, summed.

    Where the statistics are those of all ranks, so are the sums in dx.
    """
    x, scale, _ = node.inputs
    _, mean, variance, elements = node.outputs
    axes = [0, *range(2, x.rank)]
    count = ops.where(elements > 0.0, elements, 1.0)  # an empty batch has none
    synchronized = node.attributes.get("synchronized")
    if synchronized:
        dmean, dvariance = (
            None if d is None else weighted_sum_over_ranks(d) for d in (dmean, dvariance)
        )
    offset = ops.zeros_like(mean) if dmean is None else dmean / count
    slope = ops.zeros_like(mean) if dvariance is None else dvariance * 2.0 / count
    if dy is None:
        return [x * _column(slope, x) + _column(offset - slope * mean, x), None, None]
    factor = 1.0 / ops.sqrt(variance + node.attributes["epsilon"])
    total = ops.reduce_sum(dy, axes)
    product = ops.reduce_sum(dy * x, axes)
    moment = (product - mean * total) * factor
    all_total, all_moment = total, moment
    if synchronized:
        channels = static(x.dims)[1]
        sums = weighted_sum_over_ranks(ops.concat([total, product], 0))
        all_total, all_product = (ops.slice(sums, [k], [k + channels], [0]) for k in (0, channels))
        all_moment = (all_product - mean * all_total) * factor
    gain = scale * factor
    slope = slope - gain * factor * all_moment / count
    offset = offset - gain * all_total / count
    dx = x * _column(slope, x) + _column(offset - slope * mean, x)
    return [dy * _column(gain, x) + dx, moment, total]


@gradient("Standardize")
def standardize(node: Node, dy: Variable | None, dfactor: Variable | None) -> Gradients:
    """Subtract from dy its mean, and y times the mean of dy y; divide by the deviation."""
    (x,), (y, factor) = node.inputs, node.outputs
    axes = list(range(node.attributes["axis"], x.rank))
    slope: Variable | float = 0.0
    if dfactor is not None:
        count = ops.cast(ops.size(x), x.dtype) / ops.cast(ops.size(factor), x.dtype)
        slope = dfactor * factor / count
    if dy is None:
        return [-(y * slope) * factor]
    product = ops.reduce_mean(dy * y, axes, keep_dim=True)
    slope = product if dfactor is None else product + slope
    return [(dy - ops.reduce_mean(dy, axes, keep_dim=True) - y * slope) * factor]


@expression("MeanVarianceNormalization")
def mean_variance_normalization(a: Attributes, x: Variable) -> Variable:
    """(x - mean) / (deviation + 1e-9)."""
    axes = a.get("axes", [0, 2, 3])
    centred = x - ops.reduce_mean(x, axes, keep_dim=True)
    return centred / (ops.sqrt(ops.reduce_mean(ops.square(centred), axes, keep_dim=True)) + _TINY)


@expression("LpNormalization")
def lp_normalization(a: Attributes, x: Variable) -> Variable:
    """x over its 1-norm or 2-norm along an axis; zeros stay zeros."""
    axis, euclidean = [a.get("axis", -1)], a.get("p", 2) == 2
    magnitude = ops.square(x) if euclidean else ops.where(x < 0.0, -x, x)
    norm = ops.reduce_sum(magnitude, axis, keep_dim=True)
    norm = ops.where(ops.equal(norm, 0.0), 1.0, norm)
    return x / (ops.sqrt(norm) if euclidean else norm)


def _standardised(x, axes, epsilon):
    """Return (x - mean) / standard deviation, the mean, and 1 / standard deviation."""
    mean = ops.reduce_mean(x, axes, keep_dim=True)
    centred = x - mean
    variance = ops.reduce_mean(ops.square(centred), axes, keep_dim=True)
    factor = 1.0 / ops.sqrt(variance + epsilon)
    return centred * factor, mean, factor


def _to_single(x):
    """Cast half precision to single precision, in which ONNX defines the normalisation."""
    return ops.cast(x, np.float32) if x.dtype == np.float16 else x


def _column(v, x):
    """Reshape a vector over channels to broadcast against [N, C, ...]."""
    return ops.reshape(v, [-1, *[1] * (x.rank - 2)])
