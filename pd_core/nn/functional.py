"""Layers as functions: they create their parameters, with shapes inferred from the input.

`W` and `B` choose the weight and the bias: a name (the parameter is shared with every layer that
gives the same name), a Variable, an initializer, a dict of arguments of `Variable`, or None for a
new parameter. `B=False` is no bias.
"""

from .. import ops
from ..graph.checks import per_axis
from ..graph.errors import DTypeError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from .functional_recurrent import gru as gru
from .functional_recurrent import lstm as lstm
from .functional_recurrent import simple_rnn as simple_rnn
from .parameter import Activation, Bias, Parameter, Sizes, activation, layer_name, parameter


@op
def fc(
    x: Operand, size: int, act: Activation = None, W: Parameter = None, B: Bias = None
) -> Variable:
    """Fully connected layer, act(x W + b), over the last axis of x [..., n]: [..., size]."""
    x, function = constant(x), activation(act)
    if not x.rank or not isinstance(x.dims[-1], int):
        raise ShapeError(f"takes rows whose width is known when the layer is built, not {x!r}")
    name = layer_name("fc_", W)
    y = ops.matmul(x, parameter(W, f"{name}.W", [x.dims[-1], size]))
    if B is not False:
        y = y + parameter(B, f"{name}.B", [size])
    return function(y)


@op
def softmax(
    x: Operand, size: int | None = None, axis: int = -1, W: Parameter = None, B: Bias = None
) -> Variable:
    """Softmax along an axis; with `size`, of a fully connected layer."""
    return ops.softmax(x if size is None else fc(x, size, W=W, B=B), axis)


@op
def conv2d(
    x: Operand,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: Activation = None,
    W: Parameter = None,
    B: Bias = None,
) -> Variable:
    """Convolutional layer, act(conv(x, W) + b), of images [N, C, H, W].

    Sizes are one number or (height, width).
    """
    x, function = constant(x), activation(act)
    if x.rank != 4 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes images [N, C, H, W] with known C, not {x!r}")
    if x.dims[1] % groups:
        raise ShapeError(f"{x.dims[1]} channels do not split into {groups} groups")
    name = layer_name("conv2d_", W)
    window = per_axis(filter_size, 2)
    w = parameter(W, f"{name}.W", [num_filters, x.dims[1] // groups, *window])
    b = None if B is False else parameter(B, f"{name}.B", [num_filters])
    return function(ops.conv(x, w, b, stride, padding, dilation, groups))


@op
def embedding(x: Operand, size: tuple[int, int], W: Parameter = None) -> Variable:
    """Look up integer ids [...] or [..., 1] in a table of `size` (words, width): [..., width]."""
    x = constant(x)
    if x.dtype.kind != "i":
        raise DTypeError(f"takes integer ids, not {x!r}")
    words, width = size
    table = parameter(W, f"{layer_name('embedding_', W)}.W", [words, width])
    if x.rank > 1 and x.dims[-1] == 1:
        x = ops.squeeze(x, [x.rank - 1])
    return ops.gather(table, x)
