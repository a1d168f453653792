"""Derivatives of normalisations: of what each of them computes."""

import numpy as np

from ... import ops
from ..expression import expression
from ..registry import gradient

_TINY = 1e-9  # what MeanVarianceNormalization adds to the deviation


@expression("LayerNormalization")
def layer_normalization(a, x, scale, shift=None):
    """Over the axes from `axis` on; also the mean and 1 / deviation."""
    x, dtype = _widened(x), x.dtype
    axes = list(range(a.get("axis", -1) % x.rank, x.rank))
    y, mean, factor = _standardised(x, axes, a.get("epsilon", 1e-5))
    y = ops.cast(y, dtype) * scale
    return [y if shift is None else y + shift, mean, factor]


@expression("RMSNormalization")
def rms_normalization(a, x, scale):
    """Over the axes from `axis` on, without a mean (Zhang & Sennrich 2019)."""
    x, dtype = _widened(x), x.dtype
    axes = list(range(a.get("axis", -1) % x.rank, x.rank))
    power = ops.reduce_mean(ops.square(x), axes, keep_dim=True)
    return ops.cast(x / ops.sqrt(power + a.get("epsilon", 1e-5)), dtype) * scale


@expression("GroupNormalization")
def group_normalization(a, x, scale, shift):
    """Over groups of channels and all positions (Wu & He 2018)."""
    groups = ops.reshape(_widened(x), [0, a["num_groups"], -1])
    y, _, _ = _standardised(groups, [2], a.get("epsilon", 1e-5))
    y = ops.cast(ops.reshape_like(y, x), x.dtype)
    return y * _column(scale, x) + _column(shift, x)


@expression("InstanceNormalization")
def instance_normalization(a, x, scale, shift):
    """Over the positions of each channel of each image (Ulyanov et al. 2016)."""
    y, _, _ = _standardised(x, list(range(2, x.rank)), a.get("epsilon", 1e-5))
    return y * _column(scale, x) + _column(shift, x)


@expression("BatchNormalization")
def batch_normalization(a, x, scale, shift, mean, variance):
    """By the stored statistics; in training by those of the batch, which move the stored ones."""
    epsilon = a.get("epsilon", 1e-5)
    if not a.get("training_mode", 0):
        factor = ops.div(1.0, ops.sqrt(_column(variance, x) + epsilon))
        return (x - _column(mean, x)) * factor * _column(scale, x) + _column(shift, x)
    axes, keep = [0, *range(2, x.rank)], a.get("momentum", 0.9)
    y, mu, _ = _standardised(x, axes, epsilon)
    var = ops.reduce_mean(ops.square(x - mu), axes)
    mu = ops.reshape_like(mu, mean)
    stored = [old * keep + new * (1.0 - keep) for old, new in ((mean, mu), (variance, var))]
    return [y * _column(scale, x) + _column(shift, x), *stored]


@gradient("BatchNorm")
def batch_norm(node, dy, dmean, dvariance):
    """By the batch's own statistics: dy, x and 1 each times a number per channel, added up."""
    x, scale, _ = node.inputs
    _, mean, variance = node.outputs
    axes = [0, *range(2, x.rank)]
    count = ops.cast(ops.size(x), x.dtype) * (1.0 / x.dims[1])
    offset = ops.zeros_like(mean) if dmean is None else dmean / count
    slope = ops.zeros_like(mean) if dvariance is None else dvariance * 2.0 / count
    if dy is None:
        return [x * _column(slope, x) + _column(offset - slope * mean, x), None, None]
    factor = ops.div(1.0, ops.sqrt(variance + node.attributes["epsilon"]))
    total = ops.reduce_sum(dy, axes)
    moment = (ops.reduce_sum(dy * x, axes) - mean * total) * factor
    gain = scale * factor
    slope, offset = slope - gain * factor * moment / count, offset - gain * total / count
    dx = x * _column(slope, x) + _column(offset - slope * mean, x)
    return [dy * _column(gain, x) + dx, moment, total]


@expression("MeanVarianceNormalization")
def mean_variance_normalization(a, x):
    """(x - mean) / (deviation + 1e-9)."""
    axes = a.get("axes", [0, 2, 3])
    centred = x - ops.reduce_mean(x, axes, keep_dim=True)
    return centred / (ops.sqrt(ops.reduce_mean(ops.square(centred), axes, keep_dim=True)) + _TINY)


@expression("LpNormalization")
def lp_normalization(a, x):
    """x over the sum of |x| or its length along an axis; zeros stay zeros."""
    axis, by_length = [a.get("axis", -1)], a.get("p", 2) == 2
    part = ops.square(x) if by_length else ops.where(x < 0.0, -x, x)
    size = ops.reduce_sum(part, axis, keep_dim=True)
    size = ops.where(ops.equal(size, 0.0), 1.0, size)
    return x / (ops.sqrt(size) if by_length else size)


def _standardised(x, axes, epsilon):
    """(x - mean) / deviation, the mean, and 1 / deviation."""
    mean = ops.reduce_mean(x, axes, keep_dim=True)
    centred = x - mean
    variance = ops.reduce_mean(ops.square(centred), axes, keep_dim=True)
    factor = ops.div(1.0, ops.sqrt(variance + epsilon))
    return centred * factor, mean, factor


def _widened(x):
    """Half precision is normalised in single precision."""
    return ops.cast(x, np.float32) if x.dtype == np.float16 else x


def _column(v, x):
    """One number for each channel, beside [N, C, ...]."""
    return ops.reshape(v, [-1, *[1] * (x.rank - 2)])
