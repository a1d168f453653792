"""Normalisation layers."""

import numpy as np

import pd_core as pd

from .. import settings
from ..activation import Relu
from ..attr import ParameterAttribute
from .base import layer
from .image import image_of, record_axes, set_pixels, whole


@layer("batch_norm", "batch_norm", Relu, supports=("drop_rate", "error_clipping_threshold"))
def batch_norm(
    scope,
    input,
    act=None,
    name=None,
    img3D=False,
    num_channels=None,
    bias_attr=None,
    param_attr=None,
    layer_attr=None,
    batch_norm_type=None,
    epsilon=1e-5,
    moving_average_fraction=0.9,
    use_global_stats=None,
    mean_var_names=None,
):
    """Batch normalisation: act(gamma (x - mu) / sqrt(var + epsilon) + beta) per channel.

    Of flat rows it is per column. Training uses the statistics of the batch and updates the moving
    ones; inference uses the moving ones unless `use_global_stats=False`. As in 2017 these both
    start from 0; they are saved as the parameters `.w1` and `.w2`, or `mean_var_names`.
    """
    if epsilon < 1e-5:
        raise pd.GraphError(f"epsilon is at least 1e-5, not {epsilon}")
    names = list(mean_var_names or [None, None])
    if len(names) != 2:
        raise pd.GraphError(f"mean_var_names are two names, not {mean_var_names!r}")
    x, channels = _image_or_rows(input, num_channels, 3 if img3D else 2)
    _three_inputs(scope)
    gamma = scope.weight(0, [channels], param_attr or _constant(1.0), dims=[])
    mean, variance = (scope.statistic(k + 1, channels, n) for k, n in enumerate(names))
    beta = scope.bias([1, channels], bias_attr)
    beta = np.zeros(channels, np.float32) if beta is None else pd.reshape(beta, [channels])
    y = pd.batch_norm(
        x,
        gamma,
        beta,
        mean,
        variance,
        epsilon,
        moving_average_fraction,
        False if use_global_stats is False else None,
    )
    _record(scope, input, x, channels, epsilon, moving_average_fraction, use_global_stats)
    default = batch_norm_type is None and settings.current().use_gpu
    if default or batch_norm_type == "cudnn_batch_norm":
        scope.config.type = "cudnn_batch_norm"
    return y


def _image_or_rows(x, num_channels, n):
    """Return x as an image and its channels, or x and its width if it has no channels."""
    channels = num_channels or x.num_filters
    if not channels or channels == x.size:
        return x, x.size
    return image_of(x, channels, n)


def _three_inputs(scope):
    """Record the input three times, for gamma and the two statistics."""
    for _ in range(2):
        scope.config.inputs.add(input_layer_name=scope.inputs[0].full_name)


def _constant(value):
    return ParameterAttribute(initial_mean=value, initial_std=0.0)


def _record(scope, input, x, channels, epsilon, fraction, use_global_stats):
    config = scope.config
    config.moving_average_fraction, config.epsilon = fraction, epsilon
    if use_global_stats is not None:
        config.use_global_stats = use_global_stats
    conf = config.inputs[0].image_conf
    conf.channels = channels
    *depth, height, width = x.dims[2:] or (1, 1)
    record_axes(conf, img_size=[*depth, height, width])
    if input.height or input.width:
        scope.set_geometry(height, width, *(depth or [1]))
    scope.num_filters = channels


@layer("norm", "crmnorm")
def img_cmrnorm(
    scope, input, size, scale=0.0128, power=0.75, name=None, num_channels=None, layer_attr=None
):
    """Local response normalisation across channels (Krizhevsky et al. 2012).

    x (1 + scale / size times the sum of x² over the `size` channels around)^-power.
    """
    whole("size", size)
    scope.size = input.size
    x, _ = image_of(input, num_channels)
    _record_norm(scope, x, "cmrnorm-projection", size, scale / size, power)
    return pd.local_response_norm(x, size, scale, power)


@layer("norm", "cross_channel_norm")
def cross_channel_norm(scope, input, name=None, param_attr=None):
    """Divide each pixel by its L2 norm, times a weight per channel (Liu et al. 2016)."""
    x, channels = image_of(input)
    w = scope.weight(0, [channels, 1], param_attr)
    _record_norm(scope, x, "cross-channel-norm", input.size, 0.0, 0.0)
    return pd.l2_normalize(x, 1, 1e-6) * pd.reshape(w, [1, channels, 1, 1])


def _record_norm(scope, x, kind, size, scale, power):
    conf = scope.config.inputs[0].norm_conf
    conf.norm_type, conf.channels, conf.size = kind, x.dims[1], size
    conf.scale, conf.pow, conf.blocked = scale, power, False
    record_axes(conf, img_size=x.dims[2:], output=x.dims[2:])
    scope.num_filters = x.dims[1]
    set_pixels(scope, x)
