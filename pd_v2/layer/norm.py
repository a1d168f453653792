"""Layers that normalise."""

import numpy as np

import pd_core as pd

from .. import settings
from ..activation import Relu
from ..attr import ParameterAttribute
from ._legacy import layer
from .image import image_of


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
    """act(gamma (x - mu) / sqrt(var + epsilon) + beta) per channel, per feature of flat rows.

    Training takes the statistics of its batch and moves the stored ones; inference reads the
    stored ones unless `use_global_stats=False`. They start from 0, both, and are saved as
    parameters `.w1` and `.w2`, or `mean_var_names`.
    """
    if epsilon < 1e-5:
        raise pd.GraphError(f"epsilon is at least 1e-5, not {epsilon}")
    if img3D:
        raise pd.GraphError("normalisation over 3-D images is not supported")
    names = list(mean_var_names or [None, None])
    if len(names) != 2:
        raise pd.GraphError(f"mean_var_names are two names, not {mean_var_names!r}")
    x, channels = _image_or_rows(input, num_channels)
    _three_inputs(scope)
    gamma = scope.weight(0, [channels], param_attr or _constant(1.0), dims=[])
    mean, variance = (scope.statistic(k + 1, channels, n) for k, n in enumerate(names))
    beta = scope.bias([1, channels], bias_attr)
    flat_beta = np.zeros(channels, np.float32) if beta is None else pd.reshape(beta, [channels])
    y = pd.batch_norm(
        x,
        gamma,
        flat_beta,
        mean,
        variance,
        epsilon,
        moving_average_fraction,
        False if use_global_stats is False else None,
    )
    _record(scope, input, x, channels, epsilon, moving_average_fraction, use_global_stats)
    if batch_norm_type == "cudnn_batch_norm" or settings.current().use_gpu:
        scope.config.type = "cudnn_batch_norm"
    return y


def _image_or_rows(x, num_channels):
    """(x, its channels): an image, or rows where the layer before has none."""
    channels = num_channels or x.num_filters
    if not channels or channels == x.size:
        return x, x.size
    return image_of(x, channels)


def _three_inputs(scope):
    """The configuration names the input three times, for gamma and the two statistics."""
    for _ in range(2):
        scope.config.inputs.add(input_layer_name=scope.inputs[0].full_name)


def _constant(value):
    return ParameterAttribute(initial_mean=value, initial_std=0.0)


def _record(scope, before, x, channels, epsilon, fraction, use_global_stats):
    config = scope.config
    config.moving_average_fraction, config.epsilon = fraction, epsilon
    if use_global_stats is not None:
        config.use_global_stats = use_global_stats
    conf = config.inputs[0].image_conf
    conf.channels = channels
    pixels = x.dims[2:] if x.rank == 4 else (1, 1)
    conf.img_size_y, conf.img_size = pixels
    if before.height or before.width:
        scope.set_geometry(*pixels, depth=1)
    scope.num_filters = channels
