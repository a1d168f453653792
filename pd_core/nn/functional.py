"""Layers as functions: they create their parameters, with shapes inferred from the input.

`W` and `B` choose the weight and the bias: a name (the parameter is shared with every layer that
gives the same name), a Variable, an initializer, a dict of arguments of `Variable`, or None for a
new parameter. `B=False` is no bias.
"""

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..graph.checks import per_axis
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.names import names
from ..graph.namespace import get_variable
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant

Activation = str | Callable[[Variable], Variable] | None
Parameter = str | Variable | Callable | dict[str, Any] | None  # what `W` takes
Bias = Parameter | bool  # what `B` takes
Sizes = int | Sequence[int]

activations: dict[str, Callable[[Variable], Variable]] = {
    "exp": ops.exp,
    "leaky_relu": ops.leaky_relu,
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "softmax": ops.softmax,
    "softplus": ops.softplus,
    "square": ops.square,
    "tanh": ops.tanh,
}


@op
def fc(
    x: Operand, size: int, act: Activation = None, W: Parameter = None, B: Bias = None
) -> Variable:
    """Fully connected layer, act(x W + b), over the last axis of x [..., n]: [..., size]."""
    x, activation = constant(x), _activation(act)
    if not x.rank or not isinstance(x.dims[-1], int):
        raise ShapeError(f"takes rows whose width is known when the layer is built, not {x!r}")
    name = _layer_name("fc_")
    y = ops.matmul(x, parameter(W, f"{name}.W", [x.dims[-1], size]))
    if B is not False:
        y = y + parameter(B, f"{name}.B", [size])
    return activation(y)


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
    x, activation = constant(x), _activation(act)
    if x.rank != 4 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes images [N, C, H, W] with known C, not {x!r}")
    if x.dims[1] % groups:
        raise ShapeError(f"{x.dims[1]} channels do not split into {groups} groups")
    name = _layer_name("conv2d_")
    window = per_axis(filter_size, 2)
    w = parameter(W, f"{name}.W", [num_filters, x.dims[1] // groups, *window])
    b = None if B is False else parameter(B, f"{name}.B", [num_filters])
    return activation(ops.conv(x, w, b, stride, padding, dilation, groups))


@op
def embedding(x: Operand, size: tuple[int, int], W: Parameter = None) -> Variable:
    """Look up integer ids [...] or [..., 1] in a table of `size` (words, width): [..., width]."""
    x = constant(x)
    if x.dtype.kind != "i":
        raise DTypeError(f"takes integer ids, not {x!r}")
    words, width = size
    table = parameter(W, f"{_layer_name('embedding_')}.W", [words, width])
    if x.rank > 1 and x.dims[-1] == 1:
        x = ops.squeeze(x, [x.rank - 1])
    return ops.gather(table, x)


def _activation(act: Activation) -> Callable[[Variable], Variable]:
    """Return an activation function by its name; a function as it is; None is the identity."""
    if act is None:
        return lambda y: y
    if callable(act):
        return act
    if act not in activations:
        raise GraphError(f"there is no activation {act!r}; there is {', '.join(activations)}")
    return activations[act]


def parameter(spec: Bias, default_name: str, shape: Sequence[int]) -> Variable:
    """Create or share the parameter of a layer of your own, by the conventions of this module.

    ShapeError if a given Variable has another shape; TypeError if the spec is none of the forms.
    """
    if isinstance(spec, Variable):
        if spec.shape != tuple(shape):
            raise ShapeError(f"parameter {default_name!r} has shape {list(shape)}, not {spec!r}")
        return spec
    if isinstance(spec, str):
        return get_variable(spec, shape)
    if isinstance(spec, dict):
        return get_variable(**{"name": default_name, "shape": shape, **spec})
    if callable(spec):
        return Variable(default_name, shape=shape, initializer=spec)
    if spec is None or spec is True:
        return Variable(default_name, shape=shape)
    raise TypeError(
        f"parameter {default_name!r} is a name, Variable, initializer or dict, not {spec!r}"
    )


def _layer_name(prefix):
    """Return the next automatic layer name of the current namespace, without its prefix.

    A name under which variables exist already, such as an imported model's, is skipped.
    """
    registry = names()
    name = registry.next(prefix)
    while registry.variables.has_layer(name):
        name = registry.next(prefix)
    return name.rpartition("/")[2]
