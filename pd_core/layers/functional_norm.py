"""Normalisation layers as functions; `scale=False` and `bias=False` leave those out.

A new scale is 1, a new bias 0.
"""

import numpy as np

from .. import ops
from ..graph.checks import axis_of
from ..graph.errors import ShapeError
from ..graph.initializers import Constant
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from ..graph.whole import whole
from .parameter import Bias, Parameter, dtype_for, layer_name, parameter


@op
@whole
def batch_norm(
    x: Operand,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    scale: Bias = None,
    bias: Bias = None,
    mean: Parameter = None,
    variance: Parameter = None,
    use_global_stats: bool | None = None,
) -> Variable:
    """Batch normalisation layer of x [N, C, ...], see `pd.batch_norm`.

    A training step keeps `momentum` of the moving statistics `mean` and `variance`, two
    persistent variables that are not trained.
    """
    x = constant(x)
    shape = [_channels(x)]
    name = layer_name("batch_norm_", mean)
    a = _vector(scale, f"{name}.scale", shape, 1.0, dtype_for(x))
    b = _vector(bias, f"{name}.bias", shape, 0.0, dtype_for(x))
    mu = _vector(mean, f"{name}.mean", shape, 0.0, dtype_for(x), trainable=False)
    var = _vector(variance, f"{name}.variance", shape, 1.0, dtype_for(x), trainable=False)
    a = constant(np.ones(shape), x.dtype) if a is None else a
    b = constant(np.zeros(shape), x.dtype) if b is None else b
    return ops.batch_norm(x, a, b, mu, var, epsilon, momentum, use_global_stats)


@op
@whole
def layer_norm(
    x: Operand, axis: int = -1, epsilon: float = 1e-5, scale: Bias = None, bias: Bias = None
) -> Variable:
    """Layer normalisation layer over the axes from `axis` on, whose sizes are known.

    See `pd.layer_norm`. scale and bias have the sizes of those axes.
    """
    x = constant(x)
    shape, name = _last_sizes(x, axis), layer_name("layer_norm_", scale)
    a = _vector(scale, f"{name}.scale", shape, 1.0, dtype_for(x))
    return ops.layer_norm(
        x, a, _vector(bias, f"{name}.bias", shape, 0.0, dtype_for(x)), axis, epsilon
    )


@op
@whole
def rms_norm(x: Operand, axis: int = -1, epsilon: float = 1e-5, scale: Bias = None) -> Variable:
    """Root mean square normalisation layer over the axes from `axis` on; see `pd.rms_norm`."""
    x = constant(x)
    shape, name = _last_sizes(x, axis), layer_name("rms_norm_", scale)
    return ops.rms_norm(x, _vector(scale, f"{name}.scale", shape, 1.0, dtype_for(x)), axis, epsilon)


@op
@whole
def group_norm(
    x: Operand, groups: int, epsilon: float = 1e-5, scale: Bias = None, bias: Bias = None
) -> Variable:
    """Normalisation layer of x [N, C, ...] over groups of C / groups channels."""
    x = constant(x)
    shape, name = [_channels(x)], layer_name("group_norm_", scale)
    if groups < 1 or shape[0] % groups:
        raise ShapeError(f"{shape[0]} channels do not split into {groups} groups")
    a = _vector(scale, f"{name}.scale", shape, 1.0, dtype_for(x))
    b = _vector(bias, f"{name}.bias", shape, 0.0, dtype_for(x))
    return ops.group_norm(x, groups, a, b, epsilon)


@op
@whole
def instance_norm(
    x: Operand, epsilon: float = 1e-5, scale: Bias = None, bias: Bias = None
) -> Variable:
    """Normalisation layer of each channel of each image of x [N, C, ...]."""
    x = constant(x)
    shape, name = [_channels(x)], layer_name("instance_norm_", scale)
    a = _vector(scale, f"{name}.scale", shape, 1.0, dtype_for(x))
    b = _vector(bias, f"{name}.bias", shape, 0.0, dtype_for(x))
    return ops.instance_norm(x, scale=a, shift=b, epsilon=epsilon)


def _channels(x):
    if x.rank < 2 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes [N, C, ...] with known C, not {x!r}")
    return x.dims[1]


def _last_sizes(x, axis):
    sizes = list(x.dims[axis_of(x, axis) :])
    if not all(isinstance(d, int) for d in sizes):
        raise ShapeError(f"normalises over axes of known sizes, not {sizes} of {x!r}")
    return sizes


def _vector(spec, name, shape, initial, dtype, **attributes):
    """Return a parameter with these defaults, or None for False."""
    if spec is False:
        return None
    if spec is None or spec is True:
        spec = {}
    elif isinstance(spec, str):
        spec = {"name": spec}
    elif callable(spec):
        spec = {"initializer": spec}
    if isinstance(spec, dict):
        start = {} if "data" in spec else {"initializer": Constant(initial)}
        spec = {**start, **attributes, **spec}
    return parameter(spec, name, shape, dtype)
