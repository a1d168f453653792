"""Convolution and pooling, written once over the number of spatial axes."""

import numpy as np

from ..graph.checks import per_axis, whole
from ..graph.errors import GraphError, NoGradient, ShapeError
from ..graph.node import apply, composite, refined
from ..graph.variable import constant
from . import math as m
from .shape import concat, pad, reshape, size_of, slice, transpose


def conv(x, w, bias=None, strides=1, pads=0, dilations=1, group=1):
    """Cross-correlation of images [N, C, *S] with filters [O, C/group, *K].

    `pads` is one number, one per axis, or (before..., after...).
    """
    n = constant(x).rank - 2
    return apply(
        "Conv",
        x,
        w,
        bias,
        strides=per_axis(strides, n),
        pads=_pads(pads, n),
        dilations=per_axis(dilations, n),
        group=int(group),
    )


def conv_transpose(x, w, bias=None, strides=1, pads=0, dilations=1, group=1, output_padding=0):
    """The transpose of `conv` in its image: x [N, O, *S], w [O, C/group, *K] give [N, C, ...]."""
    n = constant(x).rank - 2
    return apply(
        "ConvTranspose",
        x,
        w,
        bias,
        strides=per_axis(strides, n),
        pads=_pads(pads, n),
        dilations=per_axis(dilations, n),
        group=int(group),
        output_padding=per_axis(output_padding, n),
    )


def conv_input_grad(w, dy, x, **attributes):
    """Gradient of conv(x, w) in x, for the gradient dy of its result."""
    if not _known_sizes(x, dy, w):
        return _input_grad(w, dy, x, **attributes)
    return composite("ConvInputGrad", w, dy, x, types=[(x.dims, dy.dtype)], **attributes)


def conv_filter_grad(x, dy, w, **attributes):
    """Gradient of conv(x, w) in w, for the gradient dy of its result."""
    if not _known_sizes(x, dy, w):
        return _filter_grad(x, dy, w, **attributes)
    return composite("ConvFilterGrad", x, dy, w, types=[(w.dims, dy.dtype)], **attributes)


def _input_grad(w, dy, x, strides, pads, dilations, group):
    """The same for sizes that are known only at run time: all that the windows reach, cut."""
    n = x.rank - 2
    full = conv_transpose(dy, w, None, strides, 0, dilations, group)
    starts = np.array(pads[:n], np.int64)
    ends = [size_of(x, 2 + k) + starts[k : k + 1] for k in range(n)]
    missing = [m.maximum(end - size_of(full, 2 + k), 0) for k, end in enumerate(ends)]
    none = constant(np.zeros(2, np.int64))
    full = pad(full, np.zeros(n + 2, np.int64), concat([none, *missing]))
    return refined(slice(full, starts, concat(ends), list(range(2, n + 2))), x.dims)


def _filter_grad(x, dy, w, strides, pads, dilations, group):
    """The same for sizes that are known only at run time: the images are the channels, dy the
    filters, strides and dilations change places.
    """
    n, axes = x.rank - 2, list(range(2, x.rank))
    parts = [size_of(x, 0), constant(np.array([group])), size_of(x, 1) / group, np.array([-1])]
    turned = transpose(reshape(x, concat(parts)), [2, 1, 0, 3])
    sizes = [size_of(x, 0) * group, *(size_of(x, k) for k in axes)]
    turned = reshape(turned, concat([size_of(turned, 0), *sizes]))
    filters = transpose(dy, [1, 0, *axes])
    y = conv(turned, filters, None, dilations, pads, strides, group)
    y = transpose(y, [1, 0, *axes])
    return refined(slice(y, [0] * n, concat([size_of(w, k) for k in axes]), axes), w.dims)


def _known_sizes(*images):
    return all(isinstance(d, int) for x in images for d in x.dims[2:])


def max_pool(x, window, strides=1, pads=0, ceil_mode=False, ties="first"):
    """Largest element of each window of [N, C, *S]; padding never wins.

    With ceil_mode a last window may hang over the end, if it starts within the image or the
    padding before it. Of equal elements the first of a window, row by row, has the gradient, as
    in PyTorch; with ties="all" each of them has the whole of it, where sizes are known.
    """
    x = constant(x)
    y = apply("MaxPool", x, **_windows(x, window, strides, pads, ceil_mode))
    if ties not in ("first", "all"):
        raise GraphError(f"max_pool: ties is 'first' or 'all', not {ties!r}")
    if ties == "first":
        return y
    return composite("TiedMaxPool", x, types=[(y.dims, y.dtype)], ties=ties, **y.node.attributes)


def avg_pool(x, window, strides=1, pads=0, ceil_mode=False, include_pad=False):
    """Mean of each window of [N, C, *S], over the cells inside the image unless include_pad.

    What hangs over the end with ceil_mode is never counted.
    """
    x = constant(x)
    geometry = _windows(x, window, strides, pads, ceil_mode)
    y = apply("AveragePool", x, count_include_pad=int(include_pad), **geometry)
    pads = _pads(pads, x.rank - 2)
    if pads == geometry["pads"] or not include_pad:
        return y
    return y * _uncounted(x, y, geometry, pads)


def _windows(x, window, strides, pads, ceil_mode):
    """The attributes of a pooling. A window that hangs over the end becomes padding: ONNX 21 and
    the runtimes do not agree on how many ceil_mode has.
    """
    n = x.rank - 2
    window, strides, pads = per_axis(window, n), per_axis(strides, n), _pads(pads, n)
    known = all(isinstance(size, int) for size in x.dims[2:])
    if ceil_mode and known and min(strides, default=0) > 0:
        axes = zip(x.dims[2:], window, strides, pads[:n], pads[n:], strict=True)
        pads = pads[:n] + [_behind(*axis) for axis in axes]
    return {
        "kernel_shape": window,
        "strides": strides,
        "pads": pads,
        "ceil_mode": int(ceil_mode and not known),
    }


def _behind(size, window, stride, before, after):
    """The padding that the last window of ceil_mode reaches over."""
    count = -(-(size + before + after - window) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return max(0, (count - 1) * stride + window - size - before)


def _uncounted(x, y, geometry, pads):
    """All cells of each window over those that lie in the image or in `pads`, [*result]."""
    share, n = np.ones(()), x.rank - 2
    for axis, (count, k, s) in enumerate(
        zip(y.dims[2:], geometry["kernel_shape"], geometry["strides"], strict=True)
    ):
        starts = np.arange(count) * s
        ends = np.minimum(starts + k, x.dims[2 + axis] + pads[axis] + pads[axis + n])
        share = np.multiply.outer(share, k / (ends - starts))
    return share


def max_pool_grad(x, y, dy, **attributes):
    """dy of each window at the first element of x that is the window's maximum y, or at all."""
    _check_sizes(x)
    return composite("MaxPoolGrad", x, y, dy, types=[(x.dims, dy.dtype)], **attributes)


def max_pool_pick(x, y, u, **attributes):
    """Sum over each window of u where `max_pool_grad` puts dy: its transpose."""
    _check_sizes(x)
    return composite("MaxPoolPick", x, y, u, types=[(y.dims, u.dtype)], **attributes)


def avg_pool_grad(x, dy, **attributes):
    """dy of each window spread evenly over the cells that it averaged."""
    _check_sizes(x)
    return composite("AveragePoolGrad", x, dy, types=[(x.dims, dy.dtype)], **attributes)


def pool2d(x, pool_size=2, pool_stride=None, pool_type="max", pool_padding=0, ceil_mode=False):
    """Pooling of images [N, C, H, W]; the stride is the window size if not given."""
    kinds = {"max": max_pool, "avg": avg_pool}
    if pool_type not in kinds:
        raise ShapeError(f"pool2d: pool_type is one of {sorted(kinds)}, not {pool_type!r}")
    stride = pool_size if pool_stride is None else pool_stride
    return kinds[pool_type](x, pool_size, stride, pool_padding, ceil_mode)


def _check_sizes(image):
    """The lowerings of these gradients are written for images of known sizes."""
    if not all(isinstance(d, int) for d in image.dims[2:]):
        raise NoGradient(f"only images of known sizes have a gradient, not {image!r}")


def _pads(pads, n):
    values = whole(pads).value.reshape(-1).tolist()
    return values if len(values) == 2 * n else per_axis(values, n) * 2
