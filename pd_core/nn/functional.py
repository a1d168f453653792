"""Layers: op-like functions that also create their parameters, with shapes taken from the input.

`W` and `B` say which parameter: a name (shared with whatever else has it), a Variable, an
initializer, a dict of `Variable` arguments, or None for one of their own; `B=False` is no bias.
"""

from .. import ops
from ..graph.checks import per_axis
from ..graph.errors import DTypeError, ShapeError
from ..graph.names import names
from ..graph.namespace import get_variable
from ..graph.variable import Variable, constant

activations = {
    "exp": ops.exp,
    "leaky_relu": ops.leaky_relu,
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "softmax": ops.softmax,
    "softplus": ops.softplus,
    "square": ops.square,
    "tanh": ops.tanh,
}


def fc(x, size, act=None, W=None, B=None):
    """act(x W + b): the last axis of x, of any rank, becomes `size` wide."""
    x, act = constant(x), _activation(act)
    if not x.rank or not isinstance(x.dims[-1], int):
        raise ShapeError(f"fc: takes rows whose width is known when the layer is built, not {x!r}")
    name = _layer_name("fc_")
    y = ops.matmul(x, _parameter(W, f"{name}.W", [x.dims[-1], size]))
    if B is not False:
        y = y + _parameter(B, f"{name}.B", [size])
    return act(y)


def softmax(x, size=None, axis=-1, W=None, B=None):
    """e^x over its sum along an axis; with `size` a fully connected layer comes before it."""
    return ops.softmax(x if size is None else fc(x, size, W=W, B=B), axis)


def conv2d(
    x, num_filters, filter_size, stride=1, padding=0, dilation=1, groups=1, act=None, W=None, B=None
):
    """act(conv(x, W) + b) of images [N, C, H, W]; sizes are one number or (height, width)."""
    x, act = constant(x), _activation(act)
    if x.rank != 4 or not isinstance(x.dims[1], int):
        raise ShapeError(f"conv2d: takes images [N, C, H, W] with known C, not {x!r}")
    if x.dims[1] % groups:
        raise ShapeError(f"conv2d: {x.dims[1]} channels do not split into {groups} groups")
    name = _layer_name("conv2d_")
    window = per_axis(filter_size, 2)
    w = _parameter(W, f"{name}.W", [num_filters, x.dims[1] // groups, *window])
    b = None if B is False else _parameter(B, f"{name}.B", [num_filters])
    return act(ops.conv(x, w, b, stride, padding, dilation, groups))


def embedding(x, size, W=None):
    """Rows of a table [words, width] for integer ids [N] or [N, 1]: [N, width]."""
    x = constant(x)
    if x.dtype.kind != "i":
        raise DTypeError(f"embedding: takes integer ids, not {x!r}")
    words, width = size
    table = _parameter(W, f"{_layer_name('embedding_')}.W", [words, width])
    if x.rank > 1 and x.dims[-1] == 1:
        x = ops.squeeze(x, [x.rank - 1])
    return ops.gather(table, x)


def _activation(act):
    """The function of an activation's name, or any function of a Variable; None is the identity."""
    if act is None:
        return lambda y: y
    if callable(act):
        return act
    if act not in activations:
        known = ", ".join(activations)
        raise ValueError(f"there is no activation {act!r}; there is {known}")
    return activations[act]


def parameter(spec, default_name, shape):
    """The parameter that a layer of yours asks for, by the conventions above."""
    return _parameter(spec, default_name, shape)


def _parameter(spec, default_name, shape):
    """The parameter that a layer argument asks for."""
    if isinstance(spec, Variable):
        if spec.shape != tuple(shape):
            raise ShapeError(f"{spec!r} is given where {list(shape)} is needed")
        return spec
    if isinstance(spec, str):
        return get_variable(spec, shape)
    if isinstance(spec, dict):
        return get_variable(**{"name": default_name, "shape": shape, **spec})
    if callable(spec):
        return Variable(default_name, shape=shape, initializer=spec)
    if spec is None or spec is True:
        return Variable(default_name, shape=shape)
    raise TypeError(f"a parameter is a name, Variable, initializer or dict, not {spec!r}")


def _layer_name(prefix):
    """The next automatic layer name within the current namespace, without its prefix.

    One that variables have already, such as those of an imported model, is passed over.
    """
    known = names()
    name = known.next(prefix)
    while any(taken.startswith(f"{name}.") for taken in known.variables):
        name = known.next(prefix)
    return name.rpartition("/")[2]
