"""Rows of normalisation."""

import numpy as np

import pd_core as pd
from pd_core import ops

from .case import between, case, normal

MEAN, VARIANCE = np.array([0.5, -1.0, 0.25]), np.array([2.0, 0.5, 1.25])


def _batch_norm(x, scale, shift, **options):
    stored = (
        pd.Variable(data=values, dtype=x.dtype, trainable=False) for values in (MEAN, VARIANCE)
    )
    return ops.batch_norm(x, scale, shift, *stored, **options)


def _normalised(mean, variance, x, scale, shift, epsilon):
    column = (-1, *[1] * (x.ndim - 2))
    mean, variance, scale, shift = (v.reshape(column) for v in (mean, variance, scale, shift))
    return scale * (x - mean) / np.sqrt(variance + epsilon) + shift


def _by_batch(x, scale, shift, epsilon=1e-5, **_):
    axes = (0, *range(2, x.ndim))
    return _normalised(x.mean(axes), x.var(axes), x, scale, shift, epsilon)


def _by_stored(x, scale, shift, epsilon=1e-5, **_):
    return _normalised(MEAN, VARIANCE, x, scale, shift, epsilon)


def _layer_norm(x, scale=1.0, shift=0.0, axis=-1, epsilon=1e-5):
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon) * scale + shift


def _rms_norm(x, scale=1.0, axis=-1, epsilon=1e-5):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + epsilon) * scale


def _group_norm(x, scale=None, shift=None, groups=1, epsilon=1e-5):
    rows = x.reshape(len(x), groups, -1)
    rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + epsilon)
    column = (-1, *[1] * (x.ndim - 2))
    y = rows.reshape(x.shape)
    return y if scale is None else y * scale.reshape(column) + shift.reshape(column)


def _grouped(x, scale=None, shift=None, **options):
    return ops.group_norm(x, scale=scale, shift=shift, **options)


def _instance_norm(x, scale=None, shift=None, epsilon=1e-5):
    return _group_norm(x, scale, shift, x.shape[1], epsilon)


def _l2_normalize(x, axis=-1, epsilon=1e-12):
    return x / np.sqrt((x**2).sum(axis, keepdims=True) + epsilon)


def _local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    y = np.empty_like(x)
    for c in range(x.shape[1]):
        first = c - (size - 1) // 2
        around = x[:, max(first, 0) : first + size]
        y[:, c] = x[:, c] * (k + alpha / size * (around**2).sum(1)) ** -beta
    return y


def _batch_row(reference, x, label, **options):
    samples = [normal(*x), between(0.5, 2, 3), normal(3)]
    return case("batch_norm", _batch_norm, reference, samples, label=label, rtol=1e-4, **options)


CASES = [
    _batch_row(_by_batch, (4, 3, 2, 3), "training", training=True),
    _batch_row(_by_batch, (6, 3), "training, rows", training=True),
    _batch_row(_by_batch, (4, 3, 5), "training", training=True, epsilon=0.1),
    _batch_row(_by_stored, (4, 3, 2, 3), "inference"),
    _batch_row(_by_stored, (6, 3), "training", training=True, use_global_stats=True),
    _batch_row(_by_batch, (6, 3), "inference", use_global_stats=False),
    case("layer_norm", ops.layer_norm, _layer_norm, [normal(3, 5)], rtol=1e-4),
    case(
        "layer_norm", ops.layer_norm, _layer_norm, [normal(3, 5), normal(5), normal(5)], rtol=1e-4
    ),
    case("layer_norm", ops.layer_norm, _layer_norm, [normal(2, 3, 4)], axis=1, epsilon=0.1),
    case("rms_norm", ops.rms_norm, _rms_norm, [normal(3, 5)], rtol=1e-4),
    case("rms_norm", ops.rms_norm, _rms_norm, [normal(2, 3, 4), normal(3, 4)], axis=1, epsilon=0.1),
    case("group_norm", _grouped, _group_norm, [normal(3, 4, 2, 3)], groups=2, rtol=1e-4),
    case(
        "group_norm",
        _grouped,
        _group_norm,
        [normal(2, 6, 5), normal(6), normal(6)],
        groups=3,
        epsilon=0.1,
        rtol=1e-4,
    ),
    case("group_norm", _grouped, _group_norm, [normal(3, 4)], groups=2, epsilon=0.1),
    case("instance_norm", ops.instance_norm, _instance_norm, [normal(3, 2, 5)], rtol=1e-4),
    case(
        "instance_norm",
        lambda x, scale, shift, **options: ops.instance_norm(
            x, scale=scale, shift=shift, **options
        ),
        _instance_norm,
        [normal(2, 3, 2, 3), normal(3), normal(3)],
        epsilon=0.1,
        rtol=1e-4,
    ),
    case("l2_normalize", ops.l2_normalize, _l2_normalize, [normal(3, 4)]),
    case("l2_normalize", ops.l2_normalize, _l2_normalize, [normal(2, 3, 4)], axis=1, epsilon=0.5),
    case(
        "local_response_norm",
        ops.local_response_norm,
        _local_response_norm,
        [normal(2, 5, 2, 3)],
        size=3,
        alpha=2.0,
    ),
    case(
        "local_response_norm",
        ops.local_response_norm,
        _local_response_norm,
        [normal(2, 3, 4)],
        label="even, wider than the channels",
        size=4,
        alpha=1.0,
        beta=0.5,
        k=2.0,
    ),
    case(
        "local_response_norm",
        ops.local_response_norm,
        _local_response_norm,
        [normal(2, 3, 2, 2, 2)],
        size=1,
        alpha=0.5,
    ),
]
