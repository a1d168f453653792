"""Convolution layers over 2-D and 3-D images, plain and transposed."""

import math

import pd_core as pd

from .. import settings
from ..activation import Relu
from ..attr import ParameterAttribute
from .base import layer
from .image import image_of, per_axis, record_axes, set_pixels, whole


@layer("exconv", "conv", Relu, supports=("drop_rate",), label="conv")
def img_conv(
    scope,
    input,
    filter_size,
    num_filters,
    name=None,
    num_channels=None,
    act=None,
    groups=1,
    stride=1,
    padding=0,
    dilation=1,
    bias_attr=None,
    param_attr=None,
    shared_biases=True,
    layer_attr=None,
    filter_size_y=None,
    stride_y=None,
    padding_y=None,
    dilation_y=None,
    trans=False,
    layer_type=None,
):
    """Convolve an image with `num_filters` filters (cross-correlation, zero padding).

    Sizes are one number or a pair (x, y), width first; `*_y` are the sizes of the height alone.
    The output is 1 + floor((2 padding + in - ((filter - 1) dilation + 1)) / stride) wide; with
    `trans`, the transposed convolution, (in - 1) stride + (filter - 1) dilation + 1 - 2 padding.
    `shared_biases=False` has a bias for every output element. Weights start from
    N(0, 2 / (filter_x² channels)), which as in 2017 is also written into the given `param_attr`.
    """
    geometry = {
        "window": per_axis("filter_size", filter_size, filter_size_y),
        "strides": per_axis("stride", stride, stride_y),
        "pads": per_axis("padding", padding, padding_y, least=0),
        "dilations": per_axis("dilation", dilation, dilation_y),
    }
    scope.config.type = _type_of_2d(layer_type, trans)
    scope.layer_type = "convt" if trans else "conv"
    x, _ = image_of(input, num_channels)
    y = _convolved(
        scope, x, num_filters, groups, geometry, trans, param_attr, bias_attr, shared_biases
    )
    record_axes(scope.config.inputs[0].conv_conf, dilation=geometry["dilations"])
    return y


def _type_of_2d(layer_type, trans):
    plain, library = ("exconvt", "cudnn_convt") if trans else ("exconv", "cudnn_conv")
    if layer_type is None:
        return library if settings.current().use_gpu else plain
    return _one_of(layer_type, plain, library)


@layer("conv3d", "conv3d", Relu, supports=("drop_rate",))
def img_conv3d(
    scope,
    input,
    filter_size,
    num_filters,
    name=None,
    num_channels=None,
    act=None,
    groups=1,
    stride=1,
    padding=0,
    bias_attr=None,
    param_attr=None,
    shared_biases=True,
    layer_attr=None,
    trans=False,
    layer_type=None,
):
    """3-D `img_conv`, over depth, height and width; sizes are one number or (x, y, z)."""
    geometry = {
        "window": per_axis("filter_size", filter_size, n=3),
        "strides": per_axis("stride", stride, n=3),
        "pads": per_axis("padding", padding, n=3, least=0),
        "dilations": [1, 1, 1],
    }
    kind = "deconv3d" if trans else "conv3d"
    scope.config.type = scope.layer_type = _one_of(layer_type or kind, kind)
    x, _ = image_of(input, num_channels, n=3)
    return _convolved(
        scope, x, num_filters, groups, geometry, trans, param_attr, bias_attr, shared_biases
    )


def _one_of(layer_type, *allowed):
    if layer_type not in allowed:
        raise pd.GraphError(f"layer_type is {' or '.join(allowed)}, not {layer_type!r}")
    return layer_type


def _convolved(
    scope, x, num_filters, groups, geometry, trans, param_attr, bias_attr, shared_biases
):
    """Convolve an image of any rank, with its parameters and its record."""
    channels, window = x.dims[1], geometry["window"]
    _check_groups(channels, num_filters, groups)
    attr = filter_attribute(param_attr, window[-1], channels)
    outer, inner = (channels, num_filters) if trans else (num_filters, channels)
    w = scope.weight(0, [outer, inner // groups, *window], attr, dims=[])
    column = scope.bias([num_filters, 1], bias_attr) if shared_biases else None
    bias = None if column is None else pd.reshape(column, [num_filters])
    convolve = pd.conv_transpose if trans else pd.conv
    y = convolve(x, w, bias, geometry["strides"], geometry["pads"], geometry["dilations"], groups)
    if not shared_biases:
        y = _add_unshared(scope, y, bias_attr)
    scope.config.num_filters, scope.config.shared_biases = num_filters, shared_biases
    scope.num_filters = num_filters
    _record(scope, x, y, groups, geometry, trans)
    return y


def _add_unshared(scope, y, bias_attr):
    size = math.prod(y.dims[1:])
    bias = scope.bias([size, 1], bias_attr)
    return y if bias is None else y + pd.reshape(bias, [1, *y.dims[1:]])


def _check_groups(channels, num_filters, groups):
    if channels % whole("groups", groups) or num_filters % groups:
        raise pd.ShapeError(
            f"{channels} channels and {num_filters} filters do not split into {groups} groups"
        )


def filter_attribute(attr, width, channels):
    """Write the default initial distribution of filters into the given attribute; return it."""
    attr = ParameterAttribute() if attr is None else attr
    if attr.attr.get("initial_smart"):
        attr.attr.update(
            initial_mean=0.0,
            initial_std=math.sqrt(2.0 / (width**2 * channels)),
            initial_strategy=0,
            initial_smart=False,
        )
    return attr


def _record(scope, x, y, groups, geometry, trans):
    """Record the geometry; of a transposed convolution that of the plain one, output to input."""
    conf = scope.config.inputs[0].conv_conf
    image, result = (y, x) if trans else (x, y)
    record_axes(
        conf,
        filter_size=geometry["window"],
        stride=geometry["strides"],
        padding=geometry["pads"],
        img_size=image.dims[2:],
        output=result.dims[2:],
    )
    conf.channels, conf.groups = x.dims[1], groups
    conf.filter_channels = image.dims[1] // groups
    conf.caffe_mode = True
    set_pixels(scope, y)
