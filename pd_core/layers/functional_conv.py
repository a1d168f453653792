"""Convolutional layers as functions; sizes are one number, or one for each spatial axis.

The padding of a convolution may also be "same" or "valid", see `pd.conv`.
"""

from .. import ops
from ..graph.checks import per_axis
from ..graph.errors import ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from ..graph.whole import whole
from ..ops.conv import Padding
from .parameter import Activation, Bias, Parameter, Sizes, activation, layer_name, parameter

# What an input with this number of spatial axes is called.
INPUTS = {1: "sequences [N, C, L]", 2: "images [N, C, H, W]", 3: "volumes [N, C, D, H, W]"}


@op
@whole
def conv1d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Convolutional layer, act(conv(x, W) + b), of sequences [N, C, L]."""
    geometry = (stride, padding, dilation, groups)
    return _conv(1, x, num_filters, filter_size, geometry, act, W, B)


@op
@whole
def conv2d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Convolutional layer, act(conv(x, W) + b), of images [N, C, H, W]."""
    geometry = (stride, padding, dilation, groups)
    return _conv(2, x, num_filters, filter_size, geometry, act, W, B)


@op
@whole
def conv3d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Convolutional layer, act(conv(x, W) + b), of volumes [N, C, D, H, W]."""
    geometry = (stride, padding, dilation, groups)
    return _conv(3, x, num_filters, filter_size, geometry, act, W, B)


@op
@whole
def conv_transpose1d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Transposed convolutional layer of sequences [N, C, L]; W is [C, num_filters/groups, K].

    The other arguments are those of `conv_transpose2d`.
    """
    geometry = (stride, padding, dilation, groups, output_padding)
    return _conv_transpose(1, x, num_filters, filter_size, geometry, act, W, B)


@op
@whole
def conv_transpose2d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Transposed convolutional layer of images [N, C, H, W]; W is [C, num_filters/groups, K, K].

    `padding` crops the result, and `output_padding` lengthens it at the end of each axis.
    """
    geometry = (stride, padding, dilation, groups, output_padding)
    return _conv_transpose(2, x, num_filters, filter_size, geometry, act, W, B)


@op
@whole
def conv_transpose3d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Transposed convolutional layer of volumes [N, C, D, H, W]; W is [C, num_filters/groups, *K].

    The other arguments are those of `conv_transpose2d`.
    """
    geometry = (stride, padding, dilation, groups, output_padding)
    return _conv_transpose(3, x, num_filters, filter_size, geometry, act, W, B)


def _conv_transpose(n, x, num_filters, filter_size, geometry, act, W, B):
    """Convolve over n spatial axes; `geometry` is that of `ops.conv_transpose`."""
    x, function, groups = constant(x), activation(act), geometry[3]
    channels = _channels(x, n, num_filters, groups)
    if num_filters % groups:
        raise ShapeError(f"{num_filters} filters do not split into {groups} groups")
    name = layer_name(f"conv_transpose{n}d_", W)
    window = per_axis(filter_size, n)
    w = parameter(W, f"{name}.W", [channels, num_filters // groups, *window])
    b = None if B is False else parameter(B, f"{name}.B", [num_filters])
    return function(ops.conv_transpose(x, w, b, *geometry))


def _conv(n, x, num_filters, filter_size, geometry, act, W, B):
    """Convolve over n spatial axes; `geometry` is stride, padding, dilation and groups."""
    x, function, groups = constant(x), activation(act), geometry[3]
    channels = _channels(x, n, num_filters, groups)
    name = layer_name(f"conv{n}d_", W)
    window = per_axis(filter_size, n)
    w = parameter(W, f"{name}.W", [num_filters, channels // groups, *window])
    b = None if B is False else parameter(B, f"{name}.B", [num_filters])
    return function(ops.conv(x, w, b, *geometry))


def _channels(x, n, num_filters, groups):
    """Return the number of channels of an input with n spatial axes."""
    if num_filters < 1 or groups < 1:
        raise ShapeError(f"takes one filter and one group or more, not {num_filters} and {groups}")
    if x.rank != n + 2 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes {INPUTS[n]} with known C, not {x!r}")
    if x.dims[1] % groups:
        raise ShapeError(f"{x.dims[1]} channels do not split into {groups} groups")
    return x.dims[1]
