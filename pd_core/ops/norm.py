"""Normalisation."""

import math

from ..graph.checks import axis_of
from ..graph.errors import ShapeError
from ..graph.node import composite
from ..graph.variable import constant
from . import math as m
from .conv import avg_pool
from .mode import mode_switch
from .reduce import reduce_mean, reduce_sum
from .shape import reshape


def batch_norm(x, scale, shift, mean, variance, epsilon=1e-5, momentum=0.9, use_global_stats=None):
    """scale (x - mu) / sqrt(var + epsilon) + shift, over all axes but 1 (Ioffe & Szegedy 2015).

    A training step takes the biased statistics of its batch and stores
    momentum * old + (1 - momentum) * batch in `mean` and `variance`, two persistent variables;
    inference reads those. use_global_stats: True reads them in training too, False takes the
    batch's in inference too. x [N, C, ...]; the others hold C elements.
    """
    x = constant(x)
    if x.rank < 2 or not isinstance(x.dims[1], int):
        raise ShapeError(f"batch_norm: takes [N, C, ...] with known C, not {x!r}")
    channels = x.dims[1]
    for v in map(constant, (scale, shift, mean, variance)):
        if v.dims != (channels,):
            raise ShapeError(f"batch_norm: {v!r} for {channels} channels")
    column = [1, channels] + [1] * (x.rank - 2)

    factor = m.div(scale, m.sqrt(variance + epsilon))
    stored = x * reshape(factor, column) + reshape(shift - mean * factor, column)
    if use_global_stats:
        return stored
    types = [(x.dims, x.dtype), *[((channels,), x.dtype)] * 2]
    batch, mu, var = composite("BatchNorm", x, scale, shift, types=types, epsilon=float(epsilon))
    effects = [
        (old, old * momentum + new * (1.0 - momentum)) for old, new in ((mean, mu), (variance, var))
    ]
    return mode_switch(batch, batch if use_global_stats is False else stored, effects)


def layer_norm(x, scale=None, shift=None, axis=-1, epsilon=1e-5):
    """(x - mean) / sqrt(var + epsilon) over the axes from `axis` on (Ba et al. 2016)."""
    x = constant(x)
    axes = list(range(axis_of(x, axis), x.rank))
    centred = x - reduce_mean(x, axes, keep_dim=True)
    y = centred / m.sqrt(reduce_mean(m.square(centred), axes, keep_dim=True) + epsilon)
    y = y if scale is None else y * scale
    return y if shift is None else y + shift


def l2_normalize(x, axis=-1, epsilon=1e-12):
    """x over its length along an axis, sqrt(sum x^2 + epsilon)."""
    return x / m.sqrt(reduce_sum(m.square(x), [axis], keep_dim=True) + epsilon)


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    """x (k + alpha mean of x^2 over `size` channels around)^-beta (Krizhevsky et al. 2012).

    x [N, C, ...]. The window of channel c starts at c - (size - 1) // 2; what it lacks at the
    borders counts as zero.
    """
    x = constant(x)
    if size < 1 or x.rank < 3 or not all(isinstance(d, int) for d in x.dims[1:]):
        raise ShapeError(
            f"local_response_norm: takes [N, C, ...] of known sizes and a window, not {x!r}, {size}"
        )
    before = (size - 1) // 2
    plane = reshape(m.square(x), [-1, 1, x.dims[1], math.prod(x.dims[2:])])
    around = [before, 0, size - 1 - before, 0]
    mean = reshape(avg_pool(plane, [size, 1], 1, around, include_pad=True), [-1, *x.dims[1:]])
    return x * m.pow(k + alpha * mean, -beta)
