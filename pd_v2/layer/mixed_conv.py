"""Convolutions inside mixed layers: with learned filters, and with filters of a layer."""

import math

import numpy as np

import pd_core as pd

from ..config_base import Layer
from ..formats.proto import ConvConfig
from .image import image_of, per_axis, record_axes
from .image_conv import filter_attribute
from .mixed import Operator, Projection


def conv_projection(
    input,
    filter_size,
    num_filters,
    num_channels=None,
    stride=1,
    padding=0,
    filter_size_y=None,
    stride_y=None,
    padding_y=None,
    groups=1,
    param_attr=None,
    trans=False,
):
    """Convolve an image with `num_filters` learned filters, as `img_conv` does.

    A mixed layer whose first item is a convolution has a bias per filter.
    """
    x = _image("conv_projection", input, num_channels)
    window, strides, pads = _geometry(
        filter_size, stride, padding, filter_size_y, stride_y, padding_y
    )
    channels = x.dims[1]
    if channels % groups or num_filters % groups:
        raise pd.ShapeError(
            f"conv_projection: {channels} channels and {num_filters} filters do not split into "
            f"{groups} groups"
        )
    outer, inner = (channels, num_filters) if trans else (num_filters, channels)
    shape = [outer, inner // groups, *window]
    out = _output(x, num_filters, window, strides, pads, trans)
    convolve = pd.conv_transpose if trans else pd.conv

    def compute(_, w, size):
        return pd.flatten(convolve(x, w, None, strides, pads, 1, groups))

    return Projection(
        kind="convt" if trans else "conv",
        input=input,
        size=math.prod(out),
        compute=compute,
        dims=lambda n, m: shape,
        attr=filter_attribute(param_attr, window[1], channels),
        record={
            "num_filters": num_filters,
            "conv_conf": _record(x, out, window, strides, pads, groups, trans),
        },
        recorded_dims=[],
    )


def conv_operator(
    img,
    filter,
    filter_size,
    num_filters,
    num_channels=None,
    stride=1,
    padding=0,
    filter_size_y=None,
    stride_y=None,
    padding_y=None,
    trans=False,
):
    """Convolve each image with filters of its own, those in its row of `filter`.

    A row is [filters, channels, height, width], with `trans` [channels, filters, ...].
    """
    x = _image("conv_operator", img, num_channels)
    window, strides, pads = _geometry(
        filter_size, stride, padding, filter_size_y, stride_y, padding_y
    )
    if not isinstance(filter, Layer):
        raise TypeError(f"conv_operator: filter is a layer, not {filter!r}")
    channels, taps = x.dims[1], math.prod(window)
    if filter.size != num_filters * channels * taps:
        raise pd.ShapeError(
            f"conv_operator: {filter.name!r} is {filter.size} wide, the filters have "
            f"{num_filters} x {channels} x {window[0]} x {window[1]} numbers"
        )
    out = _output(x, num_filters, window, strides, pads, trans)
    indices = _tap_indices(x.dims[2:], out[1:], window, strides, pads, trans)

    def compute(_, filters):
        # im2col, then a batched product: ONNX's Conv has the same filters for all images
        pixels = pd.pad(pd.reshape(x, [-1, channels, math.prod(x.dims[2:])]), [0] * 3, [0, 0, 1])
        columns = pd.gather(pixels, indices.reshape(-1), axis=2)
        columns = pd.reshape(columns, [-1, channels, *indices.shape])
        columns = pd.transpose(columns, [0, 1, 3, 2])
        columns = pd.reshape(columns, [-1, channels * taps, indices.shape[0]])
        order = [channels, num_filters] if trans else [num_filters, channels]
        w = pd.reshape(filters, [-1, *order, taps])
        w = pd.transpose(w, [0, 2, 1, 3]) if trans else w
        return pd.flatten(pd.matmul(pd.reshape(w, [-1, num_filters, channels * taps]), columns))

    conf = _record(x, out, window, strides, pads, 1, trans)
    kind = "convt" if trans else "conv"
    record = {"num_filters": num_filters, "conv_conf": conf}
    return Operator(kind, (img, filter), math.prod(out), compute, record)


def _image(who, input, num_channels):
    if not isinstance(input, Layer):
        raise TypeError(f"{who}: the image is a layer, not {input!r}")
    return image_of(input, num_channels)[0]


def _geometry(filter_size, stride, padding, filter_size_y, stride_y, padding_y):
    """Return [y, x] of the window, the strides and the pads."""
    return (
        per_axis("filter_size", filter_size, filter_size_y),
        per_axis("stride", stride, stride_y),
        per_axis("padding", padding, padding_y, least=0),
    )


def _output(x, num_filters, window, strides, pads, trans):
    """Return [filters, height, width] of the result."""
    sizes = []
    for size, k, step, pad in zip(x.dims[2:], window, strides, pads, strict=True):
        sizes.append((size - 1) * step + k - 2 * pad if trans else 1 + (2 * pad + size - k) // step)
        if sizes[-1] < 1:
            raise pd.ShapeError(f"the window is {k} wide, the padded image {size + 2 * pad}")
    return [num_filters, *sizes]


def _record(x, out, window, strides, pads, groups, trans):
    """Return the ConvConfig; of a transposed convolution that of the plain one."""
    image, result = (out, x.dims[1:]) if trans else (x.dims[1:], out)
    conf = ConvConfig(channels=x.dims[1], groups=groups, caffe_mode=True)
    conf.filter_channels = image[0] // groups
    record_axes(conf, filter_size=window, stride=strides, padding=pads)
    record_axes(conf, img_size=image[1:], output=result[1:])
    return conf


def _tap_indices(image, result, window, strides, pads, trans):
    """Return [result pixels, taps]: the image pixel under each tap, the pixel count if none is."""
    axes = []
    for size, count, k, step, pad in zip(image, result, window, strides, pads, strict=True):
        pixel, tap = np.ogrid[:count, :k]
        index = pixel + pad - tap if trans else pixel * step + tap - pad
        index, remainder = np.divmod(index, step) if trans else (index, 0)
        inside = (remainder == 0) & (index >= 0) & (index < size)
        axes.append(np.where(inside, index, -1))
    rows, columns = axes[0][:, None, :, None], axes[1][None, :, None, :]
    outside = (rows < 0) | (columns < 0)
    indices = np.where(outside, math.prod(image), rows * image[1] + columns)
    return indices.reshape(math.prod(result), math.prod(window))
