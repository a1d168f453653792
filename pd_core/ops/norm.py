"""Normalisation layers' arithmetic: batch, layer, group, instance, RMS, L2 and local response."""

import math
from typing import Any

import numpy as np

from ..graph.checks import axis_of
from ..graph.errors import ShapeError
from ..graph.node import apply, composite
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .conv import avg_pool
from .mode import mode, mode_switch
from .onnx_form import onnx_form
from .ranks import batch_norm_is_synchronized
from .reduce import reduce_mean, reduce_sum
from .shape import concat, product_of_sizes, reshape, reshape_like, size_of


@op
def batch_norm(
    x: Operand,
    scale: Operand,
    shift: Operand,
    mean: Variable,
    variance: Variable,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    use_global_stats: bool | None = None,
) -> Variable:
    """Batch normalisation of x [N, C, ...] over all axes but 1 (Ioffe & Szegedy 2015).

    The result is scale (x - mu) / sqrt(var + epsilon) + shift; scale, shift, mean and variance
    hold C elements. A training step normalises by the batch's mean and biased variance and stores
    momentum * old + (1 - momentum) * batch in `mean` and `variance`, two persistent variables, if
    the batch has elements; inference normalises by those. use_global_stats=True normalises by the
    stored statistics in training too, and False by the batch's in inference too. With
    `pd.distributed.init(sync_batch_norm=True)` the batch is that of all ranks.

    Args:
        x: floats [N, C, ...].
        scale: [C].
        shift: [C].
        mean: a persistent Variable [C].
        variance: a persistent Variable [C].

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: C is not known, or an argument has not C elements.
        TypeError: mean or variance is not a persistent Variable.
        ValueError: mean and variance are trained, and scale and shift are not: they are in each
            other's place.
    """
    x = constant(x)
    _check_channels(x, scale, shift, mean, variance)
    if _is_moving(scale, shift) and _is_trained(mean, variance):
        raise ValueError(
            "batch_norm: the arguments are x, scale, shift, mean, variance; mean and variance are "
            f"trained, and scale and shift not: {mean!r}, {variance!r}, {scale!r}, {shift!r}"
        )
    channels = x.dims[1]
    column = [1, channels] + [1] * (x.rank - 2)

    factor = scale / m.sqrt(variance + epsilon)
    stored = x * reshape(factor, column) + reshape(shift - mean * factor, column)
    (stored,) = onnx_form(
        "BatchNormalization", [stored], x, scale, shift, mean, variance, epsilon=float(epsilon)
    )
    if use_global_stats or (mode() is False and use_global_stats is None):
        return stored
    if not (isinstance(mean, Variable) and isinstance(variance, Variable)):
        raise TypeError(
            "batch_norm: mean and variance are persistent Variables, where training stores them"
            f", not {type(mean).__name__} and {type(variance).__name__}"
        )
    types = [(x.dims, x.dtype), *[((channels,), x.dtype)] * 2, ((), x.dtype)]
    attributes: dict[str, Any] = {"epsilon": float(epsilon)}
    if batch_norm_is_synchronized():
        attributes["synchronized"] = 1
    batch, mu, var, count = composite("BatchNorm", x, scale, shift, types=types, **attributes)
    moved = [old * momentum + new * (1.0 - momentum) for old, new in ((mean, mu), (variance, var))]
    if 0 in x.dims or not x.is_static:
        moved = [
            m.where(count > 0.0, new, old) for new, old in zip(moved, (mean, variance), strict=True)
        ]
    effects = list(zip((mean, variance), moved, strict=True))
    return mode_switch(batch, batch if use_global_stats is False else stored, effects)


def _is_moving(*statistics):
    return all(isinstance(v, Variable) and v.is_persistent and not v.trainable for v in statistics)


def _is_trained(*factors):
    return all(isinstance(v, Variable) and v.is_persistent and v.trainable for v in factors)


@op
def layer_norm(
    x: Operand,
    scale: Operand | None = None,
    shift: Operand | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Variable:
    """Layer normalisation over the axes from `axis` on (Ba et al. 2016).

    The result is scale (x - mean) / sqrt(var + epsilon) + shift.

    Args:
        x: floats of any shape.
        scale: broadcasts to the normalised axes.
        shift: broadcasts to the normalised axes.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: x has no such axis.
        TypeError: sizes are given where PyTorch has them; the axes are those from `axis` on.
    """
    _refuse_sizes("layer_norm", scale)
    x = constant(x)
    axis = axis_of(x, axis)
    _check_elements(x, axis)
    one_each = (*x.dims[:axis], *[1] * (x.rank - axis))
    types = [(x.dims, x.dtype), (one_each, x.dtype)]
    y, _ = composite("Standardize", x, types=types, axis=axis, epsilon=float(epsilon))
    y = y if scale is None else y * scale
    y = y if shift is None else y + shift
    return _as_operator("LayerNormalization", y, x, scale, shift, axis=axis, epsilon=epsilon)


def _refuse_sizes(who: str, scale: Any) -> None:
    if isinstance(scale, (list, tuple)) and scale and all(type(n) is int for n in scale):
        raise TypeError(
            f"{who}: a scale is of floats, not {scale!r}\n"
            f"  hint: axis={-len(scale)} normalises the last {len(scale)}, whatever their sizes"
        )


@op
def rms_norm(
    x: Operand, scale: Operand | None = None, axis: int = -1, epsilon: float = 1e-5
) -> Variable:
    """Root mean square normalisation over the axes from `axis` on (Zhang & Sennrich 2019).

    The result is scale x / sqrt(mean(x^2) + epsilon).

    Args:
        x: floats of any shape.
        scale: broadcasts to the normalised axes.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: x has no such axis.
        TypeError: sizes are given where PyTorch has them; the axes are those from `axis` on.
    """
    _refuse_sizes("rms_norm", scale)
    x = constant(x)
    axis = axis_of(x, axis)
    axes = list(range(axis, x.rank))
    y = x / m.sqrt(reduce_mean(m.square(x), axes, keep_dim=True) + epsilon)
    y = y if scale is None else y * scale
    return _as_operator("RMSNormalization", y, x, scale, axis=axis, epsilon=epsilon)


@op
def group_norm(
    x: Operand,
    groups: int,
    scale: Operand | None = None,
    shift: Operand | None = None,
    epsilon: float = 1e-5,
) -> Variable:
    """Normalisation of x [N, C, ...] over groups of C / groups channels (Wu & He 2018).

    scale and shift hold C elements.

    Args:
        x: floats [N, C, ...].
        scale: [C], or None.
        shift: [C], or None.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: C is not known or no multiple of the groups, or an argument has not C elements.
    """
    x = constant(x)
    _check_elements(x, 1)
    _check_channels(x, scale, shift)
    if groups < 1 or x.dims[1] % groups:
        raise ShapeError(f"{x.dims[1]} channels do not split into {groups} groups")
    y = _standardised(_grouped(x, groups), [2], epsilon)
    y = _by_channel(reshape_like(y, x), scale, shift)
    attributes = {"num_groups": groups, "epsilon": float(epsilon)}
    return onnx_form("GroupNormalization", [y], x, scale, shift, **attributes)[0]


def _grouped(x, groups):
    """x [N, C, ...] as [N, groups, elements of a group]."""
    if all(isinstance(d, int) for d in x.dims[1:]):
        return reshape(x, [0, groups, math.prod(x.dims[1:]) // groups])
    sizes = m.quotient(product_of_sizes(x, range(1, x.rank)), groups)
    return apply("Reshape", x, concat([size_of(x, 0), [groups], sizes]), allowzero=1)


@op
def instance_norm(
    x: Operand,
    *,
    scale: Operand | None = None,
    shift: Operand | None = None,
    epsilon: float = 1e-5,
) -> Variable:
    """Normalisation of each channel of each image of x [N, C, ...] (Ulyanov et al. 2016).

    scale and shift hold C elements.

    Args:
        x: floats [N, C, ...].
        scale: [C], or None.
        shift: [C], or None.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: x has no axis after the channels, C is not known, or an argument has not C
            elements.
    """
    x = constant(x)
    _check_channels(x, scale, shift)
    if x.rank < 3:
        raise ShapeError(f"takes [N, C, ...] with axes to normalise over, not {x!r}")
    y = _by_channel(_standardised(x, list(range(2, x.rank)), epsilon), scale, shift)
    if x.dtype != np.float32:
        return y  # ONNX Runtime's operator takes no other
    return onnx_form("InstanceNormalization", [y], x, scale, shift, epsilon=float(epsilon))[0]


def _check_elements(x, axis):
    """Refuse rows of which there is no mean."""
    if 0 in x.dims[axis:]:
        raise ShapeError(f"{describe(x)} has no elements to normalise")


def _as_operator(form, y, x, *factors, axis, epsilon):
    """Return y, as an ONNX operator in exports if the factors have one element for each of x."""
    sizes = x.dims[axis:]
    fit = all(v is None or constant(v).dims == sizes for v in factors)
    if not fit or not all(isinstance(d, int) for d in sizes):
        return y
    return onnx_form(form, [y], x, *factors, axis=axis, epsilon=float(epsilon))[0]


def _standardised(x, axes, epsilon):
    """Return (x - mean) / sqrt(var + epsilon) over some axes."""
    centred = x - reduce_mean(x, axes, keep_dim=True)
    return centred / m.sqrt(reduce_mean(m.square(centred), axes, keep_dim=True) + epsilon)


def _check_channels(x, *vectors):
    if x.rank < 2 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes [N, C, ...] with known C, not {x!r}")
    for v in vectors:
        if v is not None and constant(v).dims != (x.dims[1],):
            raise ShapeError(f"{constant(v)!r} for {x.dims[1]} channels")


def _by_channel(y, scale, shift):
    """Scale and shift each channel of y [N, C, ...]."""
    column = [1, y.dims[1]] + [1] * (y.rank - 2)
    y = y if scale is None else y * reshape(scale, column)
    return y if shift is None else y + reshape(shift, column)


@op
def l2_normalize(x: Variable, axis: int = -1, epsilon: float = 1e-12) -> Variable:
    """Divide x by its L2 norm along an axis, sqrt(sum x^2 + epsilon).

    Args:
        x: a float Variable.
        axis: an axis.
        epsilon: a number above 0, added to the sum of squares.

    Returns:
        The shape and dtype of x.

    Raises:
        DTypeError: x are no floats.
        ShapeError: x has no such axis.
    """
    return x / m.sqrt(reduce_sum(m.square(x), [axis], keep_dim=True) + epsilon)


@op
def local_response_norm(
    x: Operand, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Variable:
    """Local response normalisation of x [N, C, ...] across channels (Krizhevsky et al. 2012).

    The result is x (k + alpha mean(x^2))^-beta, the mean taken over a window of `size` channels.
    The window of channel c starts at c - (size - 1) // 2, as in ONNX; channels beyond the borders
    are zero. PyTorch's starts at c - size // 2, which is another one for even sizes.

    Args:
        x: floats [N, C, ...] of known sizes.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: a size is not known.
    """
    x = constant(x)
    _check_elements(x, 1)
    if size < 1 or x.rank < 3 or not all(isinstance(d, int) for d in x.dims[1:]):
        raise ShapeError(f"takes [N, C, ...] of known sizes and a window, not {x!r}, {size}")
    before = (size - 1) // 2
    plane = reshape(m.square(x), [-1, 1, x.dims[1], math.prod(x.dims[2:])])
    pads = [before, 0, size - 1 - before, 0]
    mean = reshape(avg_pool(plane, [size, 1], 1, pads, include_pad=True), [-1, *x.dims[1:]])
    return x * (k + alpha * mean) ** -beta
