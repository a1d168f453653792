"""Images [channels, (depth,) height, width] as rows, and layers that rearrange them."""

import math
import operator

import numpy as np

import pd_core as pd

from ..activation import Linear
from .base import layer


def image_of(x, num_channels=None, n=2):
    """Return a layer's output as [N, C, *S] with n spatial axes, and C.

    As in 2017 the number of channels is the argument or the input's `num_filters`, and the spatial
    sizes are those that the input records.
    """
    channels = num_channels or x.num_filters
    if not channels:
        raise pd.ShapeError(
            f"the number of channels of {x.name!r} is not known\n  hint: give num_channels"
        )
    if x.image is not None and x.image.rank == n + 2 and x.image.dims[1] == channels:
        return x.image, channels
    sizes = _spatial(x, x.size // channels, n)
    if channels * math.prod(sizes) != x.size:
        pixels = " x ".join(map(str, sizes))
        raise pd.ShapeError(
            f"{x.name!r} is {x.size} wide, which is not {channels} channels of {pixels} pixels"
        )
    if x.data_type is not None and n == 2 and not x.height:
        x.read_as.add(tuple(sizes))
    return pd.reshape(x, [-1, channels, *sizes]), channels


def _spatial(x, pixels, n):
    """Return (depth,) height and width; an image of two axes without a record is a square."""
    if n == 3:
        return [x.depth, x.height, x.width]
    width = x.width or math.isqrt(pixels)
    return [x.height or (pixels // width if width else 0), width]


def whole(name, value, least=1):
    """Return an argument as an int; GraphError if it is not a whole number >= `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise pd.GraphError(f"{name} is a whole number of at least {least}, not {value!r}")
    return number


def per_axis(name, value, y=None, z=None, n=2, least=1):
    """Return [(z,) y, x] of a number or (x, y(, z)); a list overrides the separate y and z."""
    if isinstance(value, (list, tuple)):
        if len(value) != n:
            expected = "a pair (x, y)" if n == 2 else "three (x, y, z)"
            raise pd.GraphError(f"{name} is one number or {expected}, not {value!r}")
        return [whole(name, v, least) for v in reversed(value)]
    others = [value if v is None else v for v in (z, y)][-(n - 1) :]
    return [whole(name, v, least) for v in (*others, value)]


def record_axes(conf, last="", **sizes):
    """Set field, field_y(, field_z) of a message from [(z,) y, x]; `last` is the suffix of x."""
    for field, values in sizes.items():
        own = "_x" if field == "output" else last
        suffixes = ("_z", "_y", own)[-len(values) :]
        for suffix, value in zip(suffixes, values, strict=True):
            setattr(conf, field + suffix, value)


def record_image(conf, x):
    """Record the channels and sizes of an image in an ImageConfig."""
    conf.channels = x.dims[1]
    record_axes(conf, img_size=x.dims[2:])


def set_pixels(scope, y):
    """Record the spatial sizes of an output image."""
    *depth, height, width = y.dims[2:]
    scope.set_geometry(height, width, *depth)


@layer("maxout", "maxout_layer")
def maxout(scope, input, groups, num_channels=None, name=None, layer_attr=None):
    """Maxout: the largest of each `groups` consecutive channels (Goodfellow et al. 2013)."""
    x, channels = image_of(input, num_channels)
    if channels % whole("groups", groups, 2):
        raise pd.ShapeError(f"{channels} channels do not split into groups of {groups}")
    conf = scope.config.inputs[0].maxout_conf
    conf.groups = groups
    record_image(conf.image_conf, x)
    set_pixels(scope, x)
    grouped = pd.reshape(x, [-1, channels // groups, groups, math.prod(x.dims[2:])])
    # of equal channels the first has the gradient, as in 2017, which kept the argmax
    largest = pd.max_pool(grouped, [groups, 1])
    return pd.reshape(largest, [-1, channels // groups, *x.dims[2:]])


@layer("pad", "pad")
def pad(scope, input, pad_c=None, pad_h=None, pad_w=None, name=None, layer_attr=None):
    """Pad an image with zeros: each of pad_c, pad_h and pad_w is [before, after], or None."""
    x, channels = image_of(input)
    conf = scope.config.inputs[0].pad_conf
    record_image(conf.image_conf, x)
    widths = [[0, 0]]
    for field, width in (("pad_c", pad_c), ("pad_h", pad_h), ("pad_w", pad_w)):
        width = [0, 0] if width is None else width
        if not isinstance(width, (list, tuple)) or len(width) != 2:
            raise pd.GraphError(f"{field} is two widths [before, after], not {width!r}")
        width = [whole(field, v, 0) for v in width]
        getattr(conf, field).extend(width)
        widths.append(width)
    y = pd.pad(x, *zip(*widths, strict=True))
    scope.num_filters = channels + sum(widths[1])
    set_pixels(scope, y)
    return y


@layer("crop", "crop_layer", inputs=("input",), several=True)
def _crop(scope, input, offset, axis, shape, name, layer_attr):
    x, _ = image_of(input[0])
    if axis not in (1, 2, 3):
        raise pd.GraphError(f"axis is 1, 2 or 3 (channel, height, width), not {axis!r}")
    offset = offset if isinstance(offset, (list, tuple)) else [offset]
    offset = [whole("offset", v, 0) for v in offset]
    starts = offset * (4 - axis) if len(offset) == 1 else offset
    sizes = _cropped_sizes(input, axis, shape)
    if len(starts) != 4 - axis:
        raise pd.GraphError(f"an offset for each of the axes {axis} to 3, or one, not {offset}")
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end > x.dims[axis + k]:
            raise pd.ShapeError(
                f"{start} to {end} on axis {axis + k} is not within {x.dims[axis + k]}"
            )
    scope.config.axis = axis
    scope.config.offset.extend(offset)
    scope.config.shape.extend(shape or [])
    record_image(scope.config.inputs[0].image_conf, x)
    y = pd.slice(x, starts, ends, list(range(axis, 4)))
    set_pixels(scope, y)
    return y


def _cropped_sizes(inputs, axis, shape):
    """Return the sizes of the cropped axes: of `shape`, or of the second layer."""
    if (len(inputs) == 1) == (shape is None) or len(inputs) > 2:
        raise pd.GraphError("takes one layer and a shape, or two layers")
    if shape is None:
        reference = inputs[1]
        sizes = [None, reference.num_filters, reference.height, reference.width]
    else:
        sizes = list(shape)
    if len(sizes) != 4 or not all(sizes[axis:]):
        raise pd.ShapeError(f"the result has four sizes, known from axis {axis} on, not {sizes}")
    return [whole("shape", v) for v in sizes[axis:]]


def crop(input, offset, axis=2, shape=None, name=None, layer_attr=None):
    """Crop an image to `shape` (batch first) from `offset` on, along `axis` and later axes.

    With two layers the result is as large as the second one. `offset` has a number for each
    cropped axis, or one for all.
    """
    out = _crop(
        input=input, offset=offset, axis=axis, shape=shape, name=name, layer_attr=layer_attr
    )
    # 2017 recorded the size of `shape`, including the axes that are not cropped
    out.config.size = out.parents[-1].size if shape is None else math.prod(shape[1:])
    return out


@layer("bilinear_interp", "bilinear_interp_layer")
def bilinear_interp(scope, input, out_size_x=None, out_size_y=None, name=None, layer_attr=None):
    """Resize an image by bilinear interpolation, with aligned corners."""
    x, channels = image_of(input)
    sizes = [whole("out_size_y", out_size_y), whole("out_size_x", out_size_x)]
    conf = scope.config.inputs[0].bilinear_interp_conf
    conf.out_size_x, conf.out_size_y = out_size_x, out_size_y
    record_image(conf.image_conf, x)
    y = pd.interpolate(x, sizes)
    scope.num_filters = channels
    set_pixels(scope, y)
    return y


@layer("switch_order", "switch_order", Linear)
def switch_order(scope, input, name=None, reshape_axis=None, act=None, layer_attr=None):
    """Transpose an image to [N, H, W, C], then act.

    The axes before `reshape_axis` become the rows, the others the columns: 3 gives a row of
    channels per pixel. None is 1, a row per sample.
    """
    x, _ = image_of(input)
    axis = 1 if reshape_axis is None else reshape_axis
    if axis not in (1, 2, 3):
        raise pd.GraphError(f"reshape_axis is 1, 2 or 3 (height, width, channel), not {axis!r}")
    if axis > 1:
        scope.levels = ()
    scope.config.reshape_conf.height_axis.extend(range(axis))
    scope.config.reshape_conf.width_axis.extend(range(axis, 4))
    channels_last = pd.transpose(x, [0, 2, 3, 1])
    return pd.reshape(channels_last, [-1, math.prod(channels_last.dims[axis:])])


@layer("scale_sub_region", "scale_sub_region", inputs=("input", "indices"))
def scale_sub_region(scope, input, indices, value, name=None):
    """Multiply a box of each image by `value`.

    A row of `indices` is the box of a sample, [c1, c2, h1, h2, w1, w2]: from 1, inclusive.
    """
    x, channels = image_of(input)
    if indices.rank != 2 or indices.size != 6:
        raise pd.ShapeError(f"a box is 6 numbers, not {indices!r}")
    conf = scope.config.inputs[0].scale_sub_region_conf
    conf.value = value
    record_image(conf.image_conf, x)
    scope.num_filters = channels
    set_pixels(scope, x)
    return pd.where(_inside(indices, x), x * float(value), x)


def _inside(boxes, image):
    """Return a mask [N, C, H, W] of the elements in the box of their sample."""
    inside = None
    for axis in (1, 2, 3):
        indices = np.arange(1, image.dims[axis] + 1, dtype=np.float32)
        indices = indices.reshape([-1 if k == axis else 1 for k in range(4)])
        first, last = (
            pd.reshape(pd.slice(boxes, [k], [k + 1], [1]), [-1, 1, 1, 1])
            for k in (2 * axis - 2, 2 * axis - 1)
        )
        within = pd.logical_and(first <= indices, last >= indices)
        inside = within if inside is None else pd.logical_and(inside, within)
    return inside
