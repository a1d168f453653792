"""Convolutional layers as functions; sizes are one number, or one for each spatial axis.

The padding of a convolution may also be "same" or "valid", see `pd.conv`.
"""

from collections.abc import Callable
from inspect import signature
from typing import Concatenate, ParamSpec

from .. import ops
from ..graph.checks import per_axis
from ..graph.errors import GraphError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from ..graph.whole import whole
from ..ops.conv import Padding, explicit_pads
from .parameter import (
    Activation,
    Bias,
    Parameter,
    Sizes,
    activation,
    dtype_for,
    layer_name,
    parameter,
)

# What an input with this number of spatial axes is called.
INPUTS = {1: "sequences [N, C, L]", 2: "images [N, C, H, W]", 3: "volumes [N, C, D, H, W]"}

PADDING_MODES = "zeros", "reflect", "edge", "wrap"  # "zeros", or those of `pd.pad`

_Arguments = ParamSpec("_Arguments")


def _conv(
    n: int,
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
    padding_mode: str = "zeros",
) -> Variable:
    """Convolutional layer, act(conv(x, W) + b), of {inputs}.

    The padding is of zeros, or with a `padding_mode` what `pd.pad` has in this mode.
    """
    check_padding_mode(padding_mode)
    x, function = constant(x), activation(act)
    channels = _channels(x, n, num_filters, groups)
    name = layer_name(f"conv{n}d_", W)
    shape, dtype = [num_filters, channels // groups, *per_axis(filter_size, n)], dtype_for(x)
    w = parameter(W, f"{name}.W", shape, dtype)
    b = None if B is False else parameter(B, f"{name}.B", [num_filters], dtype)
    if padding_mode != "zeros":
        steps, apart = per_axis(stride, n), per_axis(dilation, n)
        pads = explicit_pads(padding, x, w.dims[2:], steps, apart)
        x, padding = ops.pad(x, [0, 0, *pads[:n]], [0, 0, *pads[n:]], mode=padding_mode), 0
    return function(ops.conv(x, w, b, stride, padding, dilation, groups))


def check_padding_mode(mode: str) -> None:
    """Refuse what is no mode of padding, with our words for PyTorch's."""
    if mode not in PADDING_MODES:
        other = {"replicate": "edge", "circular": "wrap", "constant": "zeros"}.get(mode)
        raise GraphError(
            f"padding_mode is one of {', '.join(PADDING_MODES)}, not {mode!r}"
            + (f"; here it is {other!r}" if other else "")
        )


def _conv_transpose(
    n: int,
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
    """Transposed convolutional layer of {inputs}; W is [C, num_filters / groups, *filter_size].

    `padding` crops the result, and `output_padding` lengthens it at the end of each axis.
    """
    x, function = constant(x), activation(act)
    channels = _channels(x, n, num_filters, groups)
    if num_filters % groups:
        raise ShapeError(f"{num_filters} filters do not split into {groups} groups")
    name = layer_name(f"conv_transpose{n}d_", W)
    shape, dtype = [channels, num_filters // groups, *per_axis(filter_size, n)], dtype_for(x)
    w = parameter(W, f"{name}.W", shape, dtype)
    b = None if B is False else parameter(B, f"{name}.B", [num_filters], dtype)
    geometry = (stride, padding, dilation, groups, output_padding)
    return function(ops.conv_transpose(x, w, b, *geometry))


def _channels(x, n, num_filters, groups):
    """Return the number of channels of an input with n spatial axes."""
    if num_filters < 1 or groups < 1:
        raise ShapeError(f"takes one filter and one group or more, not {num_filters} and {groups}")
    if x.rank != n + 2 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes {INPUTS[n]} with known C, not {x!r}")
    if x.dims[1] % groups:
        raise ShapeError(f"{x.dims[1]} channels do not split into {groups} groups")
    return x.dims[1]


def _of_rank(
    n: int, function: Callable[Concatenate[int, _Arguments], Variable]
) -> Callable[_Arguments, Variable]:
    """Return a layer over n spatial axes."""

    def layer(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Variable:
        try:
            return function(n, *args, **kwargs)
        except TypeError:
            try:
                shown.bind(*args, **kwargs)
            except TypeError as error:  # about the arguments of this layer
                raise TypeError(f"{layer.__name__}: {error}") from None
            raise

    layer.__name__ = layer.__qualname__ = f"{function.__name__[1:]}{n}d"
    layer.__doc__ = str(function.__doc__).format(inputs=INPUTS[n])
    own = signature(function)
    shown = own.replace(parameters=[*own.parameters.values()][1:])
    vars(layer)["__signature__"] = shown
    return op(whole(layer))


conv1d, conv2d, conv3d = _of_rank(1, _conv), _of_rank(2, _conv), _of_rank(3, _conv)
conv_transpose1d = _of_rank(1, _conv_transpose)
conv_transpose2d = _of_rank(2, _conv_transpose)
conv_transpose3d = _of_rank(3, _conv_transpose)
