"""Layers over images [channels, height, width]."""

import math

import pd_core as pd

from .. import settings
from ..activation import Relu
from ..attr import ParameterAttribute
from ..pooling import Avg, CudnnAvg, CudnnMax, Max, MaxWithMask
from ._legacy import layer


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
    """Cross-correlation of an image with `num_filters` filters, zero padding.

    Sizes are one number or a pair (x, y), width first; `*_y` gives the height's. The output is
    1 + floor((2 padding + in - ((filter - 1) dilation + 1)) / stride) wide. `shared_biases=False`
    has a bias for every output element. Weights start from N(0, 2 / (filter_x² channels)), which
    is also written into the given `param_attr`, as in 2017.
    """
    if trans:
        raise pd.GraphError("transposed convolution is not supported")
    x, channels = image_of(input, num_channels)
    window, strides = _pair(filter_size, filter_size_y), _pair(stride, stride_y)
    pads, dilations = _pair(padding, padding_y), _pair(dilation, dilation_y)
    _check_groups(channels, num_filters, groups)
    attr = _filter_start(param_attr, window[1], channels)
    shape = [num_filters, channels // groups, *window]
    w = scope.weight(0, shape, attr, dims=[])
    scope.config.type = _conv_type(layer_type)
    per_channel = scope.bias([num_filters, 1], bias_attr) if shared_biases else None
    shift = None if per_channel is None else pd.reshape(per_channel, [num_filters])
    y = pd.conv(x, w, shift, strides, pads, dilations, groups)
    if not shared_biases:
        y = _add_unshared(scope, y, bias_attr)
    scope.config.num_filters, scope.config.shared_biases = num_filters, shared_biases
    scope.num_filters = num_filters
    _record_conv(scope, x, y, channels, groups, window, strides, pads, dilations)
    return y


def _add_unshared(scope, y, bias_attr):
    size = math.prod(y.dims[1:])
    bias = scope.bias([size, 1], bias_attr)
    return y if bias is None else y + pd.reshape(bias, [1, *y.dims[1:]])


def _conv_type(layer_type):
    if layer_type is None:
        return "cudnn_conv" if settings.current().use_gpu else "exconv"
    if layer_type not in ("exconv", "cudnn_conv"):
        raise pd.GraphError(f"layer_type is exconv or cudnn_conv, not {layer_type!r}")
    return layer_type


def _check_groups(channels, num_filters, groups):
    if channels % groups or num_filters % groups:
        raise pd.ShapeError(
            f"{channels} channels and {num_filters} filters do not split into {groups} groups"
        )


def _filter_start(attr, width, channels):
    """The smart start of filters, written into the attribute that was given."""
    attr = ParameterAttribute() if attr is None else attr
    if attr.attr.get("initial_smart"):
        attr.attr.update(
            initial_mean=0.0,
            initial_std=math.sqrt(2.0 / (width**2 * channels)),
            initial_strategy=0,
            initial_smart=False,
        )
    return attr


def _record_conv(scope, x, y, channels, groups, window, strides, pads, dilations):
    conf = scope.config.inputs[0].conv_conf
    conf.filter_size_y, conf.filter_size = window
    conf.stride_y, conf.stride = strides
    conf.padding_y, conf.padding = pads
    conf.dilation_y, conf.dilation = dilations
    conf.channels, conf.groups, conf.filter_channels = channels, groups, channels // groups
    conf.img_size_y, conf.img_size = x.dims[2:]
    conf.output_y, conf.output_x = y.dims[2:]
    conf.caffe_mode = True
    scope.set_geometry(*y.dims[2:])


@layer("pool", "pool")
def img_pool(
    scope,
    input,
    pool_size,
    name=None,
    num_channels=None,
    pool_type=None,
    stride=1,
    padding=0,
    layer_attr=None,
    pool_size_y=None,
    stride_y=None,
    padding_y=None,
    ceil_mode=True,
    exclude_mode=None,
):
    """The largest or mean element of each window; sizes are x, those of y may be given apart.

    `ceil_mode` counts a window that reaches over the end, and one of no pixels, which gives 0. A
    mean is over the cells inside the image unless `exclude_mode=False`.
    """
    x, channels = image_of(input, num_channels)
    window, strides = _pair(pool_size, pool_size_y), _pair(stride, stride_y)
    pads = _pair(padding, padding_y)
    kind, pool = _pool_kind(pool_type or Max())
    axes = [_Windows(*a, ceil_mode) for a in zip(x.dims[2:], window, strides, pads, strict=True)]
    around = [*pads, *(a.overhang for a in axes)]
    if pool is pd.avg_pool:
        y = pool(x, window, strides, around, include_pad=exclude_mode is False)
    else:
        y = pool(x, window, strides, around)
    y = _with_outside(y, axes)
    conf = scope.config.inputs[0].pool_conf
    conf.pool_type, conf.channels = kind, channels
    conf.size_y, conf.size_x = window
    conf.stride_y, conf.stride = strides
    conf.padding_y, conf.padding = pads
    conf.img_size_y, conf.img_size = x.dims[2:]
    conf.output_y, conf.output_x = y.dims[2:]
    if exclude_mode is not None:
        conf.exclude_mode = exclude_mode
    scope.set_geometry(*y.dims[2:])
    scope.num_filters = channels
    return y


class _Windows:
    """The windows along one axis, by 2017's count: the last may hang over the end or lie outside.

    `inside` of the `count` begin within the image; the last of them ends `overhang` behind it.
    """

    def __init__(self, size, window, stride, pad, ceil_mode):
        if pad >= window:
            raise pd.ShapeError(f"a padding of {pad} leaves windows of {window} without a pixel")
        room = size + 2 * pad - window
        self.count = 1 + (-(-room // stride) if ceil_mode else room // stride)
        if self.count < 1:
            raise pd.ShapeError(f"the window is {window} wide, the padded image {size + 2 * pad}")
        self.inside = min(self.count, -(-(size + pad) // stride))
        self.overhang = max(0, (self.inside - 1) * stride + window - size - pad)


def _with_outside(y, axes):
    """The result of pooling with a 0 for every window that lies outside the image."""
    missing = [a.count - a.inside for a in axes]
    return pd.pad(y, [0] * 4, [0, 0, *missing]) if any(missing) else y


def _pool_kind(pool_type):
    """(name in the configuration, op function) of a pooling type."""
    for kind, (name, pool) in _POOLS.items():
        if type(pool_type) is kind:
            return name, pool
    raise TypeError(
        f"img_pool: pool_type is one of {', '.join(k.__name__ for k in _POOLS)}, not {pool_type!r}"
    )


_POOLS = {
    Max: ("max-projection", pd.max_pool),
    Avg: ("avg-projection", pd.avg_pool),
    MaxWithMask: ("max-pool-with-mask", pd.max_pool),
    CudnnMax: ("cudnn-max-pool", pd.max_pool),
    CudnnAvg: ("cudnn-avg-pool", pd.avg_pool),
}


def image_of(x, num_channels=None):
    """A layer's output as [N, C, H, W], and C; geometry as 2017 finds it."""
    channels = num_channels or x.num_filters
    if not channels:
        raise pd.ShapeError(
            f"the number of channels of {x.name!r} is not known\n  hint: give num_channels"
        )
    if x.image is not None and x.image.rank == 4 and x.image.dims[1] == channels:
        return x.image, channels
    pixels = x.size // channels
    width = x.width or math.isqrt(pixels)
    height = x.height or (pixels // width if width else 0)
    if channels * height * width != x.size:
        raise pd.ShapeError(
            f"{x.name!r} is {x.size} wide, which is not {channels} channels of "
            f"{height} x {width} pixels"
        )
    return pd.reshape(x, [-1, channels, height, width]), channels


def _pair(value, y=None):
    """(height, width) from a number or a pair (x, y); a pair overrides the separate y."""
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise pd.GraphError(f"a size is one number or a pair (x, y), not {value!r}")
        return [int(value[1]), int(value[0])]
    return [int(value if y is None else y), int(value)]
