"""Pooling layers over 2-D and 3-D images."""

import pd_core as pd

from ..pooling import Avg, CudnnAvg, CudnnMax, Max, MaxWithMask
from .base import layer
from .image import image_of, per_axis, record_axes, record_image, set_pixels, whole


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
    """Max or average pooling; sizes are one number or (x, y), `*_y` those of the height alone.

    `ceil_mode` rounds the number of windows up: the last one may reach over the end, and as in 2017
    it may hold no pixel at all, which gives 0. A mean is over the pixels inside the image unless
    `exclude_mode=False`.
    """
    x, _ = image_of(input, num_channels)
    window, strides = (
        per_axis("pool_size", pool_size, pool_size_y),
        per_axis("stride", stride, stride_y),
    )
    pads = per_axis("padding", padding, padding_y, least=0)
    if exclude_mode is not None:
        scope.config.inputs[0].pool_conf.exclude_mode = exclude_mode
    return _pooled(scope, x, pool_type, window, strides, pads, ceil_mode, exclude_mode is False)


@layer("pool3d", "pool3d", label="pool")
def img_pool3d(
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
    pool_size_z=None,
    stride_z=None,
    padding_z=None,
    ceil_mode=True,
):
    """3-D `img_pool`, over depth, height and width; sizes are one number or (x, y, z)."""
    x, _ = image_of(input, num_channels, n=3)
    window = per_axis("pool_size", pool_size, pool_size_y, pool_size_z, n=3)
    strides = per_axis("stride", stride, stride_y, stride_z, n=3)
    pads = per_axis("padding", padding, padding_y, padding_z, n=3, least=0)
    return _pooled(scope, x, pool_type, window, strides, pads, ceil_mode)


def _pooled(scope, x, pool_type, window, strides, pads, ceil_mode, include_pad=False):
    """Pool an image of any rank, and record it."""
    kind, pool = _pool_kind(scope, pool_type)
    axes = [
        _Windows(size, k, s, p, _count(size, k, s, p, ceil_mode))
        for size, k, s, p in zip(x.dims[2:], window, strides, pads, strict=True)
    ]
    y = _over(axes, x, pool, include_pad)
    conf = scope.config.inputs[0].pool_conf
    conf.pool_type, conf.channels = kind, x.dims[1]
    record_axes(conf, stride=strides, padding=pads, img_size=x.dims[2:], output=y.dims[2:])
    record_axes(conf, last="_x", size=window)
    set_pixels(scope, y)
    scope.num_filters = x.dims[1]
    return y


def _count(size, window, stride, pad, ceil_mode):
    """Return the number of windows along an axis, as 2017 counts them."""
    if pad >= window:
        raise pd.ShapeError(f"a padding of {pad} leaves windows of {window} without a pixel")
    span = size + 2 * pad - window  # from the first window to the last possible one
    count = 1 + (-(-span // stride) if ceil_mode else span // stride)
    if count < 1:
        raise pd.ShapeError(f"the window is {window} wide, the padded image {size + 2 * pad}")
    return count


class _Windows:
    """`count` windows along one axis, of which some may lie outside the image.

    `before` of them end before the image, `behind` begin after it. The first of the others begins
    `pad` pixels before the image, the last ends `overhang` pixels behind it. Only these
    are pooled; zeros are added for those outside.
    """

    def __init__(self, size, window, stride, pad, count):
        self.window, self.stride = window, stride
        self.before = max(0, (pad - window) // stride + 1)
        self.pad = pad - self.before * stride
        self.behind = max(0, count - -(-(size + pad) // stride))
        inside = count - self.before - self.behind
        self.overhang = max(0, (inside - 1) * stride + window - size - self.pad)


def _over(axes, x, pool, include_pad=False):
    """Pool over these windows; 0 for one outside the image."""
    around = [*(a.pad for a in axes), *(a.overhang for a in axes)]
    options = {"include_pad": include_pad} if pool is pd.avg_pool else {}
    y = pool(x, [a.window for a in axes], [a.stride for a in axes], around, **options)
    before, behind = [a.before for a in axes], [a.behind for a in axes]
    return pd.pad(y, [0, 0, *before], [0, 0, *behind]) if any(before + behind) else y


@layer("spp", "spp")
def spp(
    scope, input, name=None, num_channels=None, pool_type=None, pyramid_height=None, layer_attr=None
):
    """Spatial pyramid pooling (He et al. 2014): level l pools 2^l x 2^l bins that tile the image.

    A row is [channels, bins] of each level in turn, whatever the image's size.
    """
    whole("pyramid_height", pyramid_height)
    x, channels = image_of(input, num_channels)
    kind, pool = _pool_kind(scope, pool_type)
    levels = []
    declared = x.dims[2:] if scope.declared is None else _recorded_sizes(scope.declared)
    for level in range(pyramid_height):
        axes = [_bins(n, 2**level, m) for n, m in zip(x.dims[2:], declared, strict=True)]
        levels.append(pd.flatten(_over(axes, x, pool)))
    conf = scope.config.inputs[0].spp_conf
    conf.pool_type, conf.pyramid_height = kind, pyramid_height
    record_image(conf.image_conf, x)
    scope.set_geometry(1, (4**pyramid_height - 1) // 3)
    scope.num_filters = channels
    return pd.concat(levels, axis=1)


def _recorded_sizes(layer):
    conf = layer.config.inputs[0].spp_conf.image_conf
    return conf.img_size_y, conf.img_size


def _bins(size, count, declared):
    """Return `count` windows over an axis: those that tile one of the `declared` size, centred.

    Images of a batch may have another size, but bins stay as they were configured in 2017.
    """
    window = -(-declared // count)
    pad = (window * count - declared + 1) // 2
    found = count if size == declared else _count(size, window, window, pad, True)
    if found != count:
        raise pd.ShapeError(
            f"{size} pixels are {found} bins of {window}, and {count} are needed: bins are those "
            f"of the declared {declared} pixels"
        )
    return _Windows(size, window, window, pad, count)


@layer("roi_pool", "roi_pool", inputs=("input", "rois"))
def roi_pool(
    scope, input, rois, pooled_width, pooled_height, spatial_scale, num_channels=None, name=None
):
    """RoI max pooling (Girshick 2015): a row of pooled_height x pooled_width bins per region.

    A row of `rois` is [sample, x1, y1, x2, y2, ...], corners inclusive; times `spatial_scale` and
    rounded they are pixels of the input.
    """
    x, _ = image_of(input, num_channels)
    if rois.rank != 2 or rois.size < 5:
        raise pd.ShapeError(f"a region is 5 numbers or more, not {rois!r}")
    sizes = [whole("pooled_height", pooled_height), whole("pooled_width", pooled_width)]
    y = pd.roi_max_pool(x, rois, sizes, spatial_scale)
    conf = scope.config.inputs[0].roi_pool_conf
    conf.pooled_width, conf.pooled_height = pooled_width, pooled_height
    conf.spatial_scale = spatial_scale
    set_pixels(scope, y)
    return y


def _pool_kind(scope, pool_type):
    """Return (name in the configuration, op function) of a pooling type."""
    pool_type = pool_type or Max()
    if type(pool_type) in _POOLS:
        return _POOLS[type(pool_type)]
    names = ", ".join(kind.__name__ for kind in _POOLS)
    raise TypeError(f"layer {scope.name!r}: pool_type is one of {names}, not {pool_type!r}")


def _max_pool(x, window, strides, pads):
    """Max pooling in which as in 2017 every element equal to the maximum gets the gradient."""
    return pd.max_pool(x, window, strides, pads, ties="all")


_POOLS = {
    Max: ("max-projection", _max_pool),
    Avg: ("avg-projection", pd.avg_pool),
    MaxWithMask: ("max-pool-with-mask", _max_pool),
    CudnnMax: ("cudnn-max-pool", _max_pool),
    CudnnAvg: ("cudnn-avg-pool", pd.avg_pool),
}
