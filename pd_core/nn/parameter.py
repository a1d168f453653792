"""What layers are told of their parameters, and how they create them."""

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..graph.errors import GraphError, ShapeError
from ..graph.names import names
from ..graph.namespace import get_variable
from ..graph.variable import Variable


class Owned:
    """A parameter of a layer object: `create(shape)` returns it, built if it is not yet."""

    __slots__ = ("create",)

    def __init__(self, create: Callable[[Sequence[int]], Variable]) -> None:
        self.create = create


Activation = str | Callable[[Variable], Variable] | None
Parameter = str | Variable | Callable | dict[str, Any] | Owned | None  # what `W` takes
Bias = Parameter | bool  # what `B` takes
Sizes = int | Sequence[int]

activations: dict[str, Callable[[Variable], Variable]] = {
    "celu": ops.celu,
    "elu": ops.elu,
    "exp": ops.exp,
    "gelu": ops.gelu,
    "hard_sigmoid": ops.hard_sigmoid,
    "hard_swish": ops.hard_swish,
    "hard_tanh": ops.hard_tanh,
    "leaky_relu": ops.leaky_relu,
    "mish": ops.mish,
    "relu": ops.relu,
    "relu6": ops.relu6,
    "selu": ops.selu,
    "sigmoid": ops.sigmoid,
    "silu": ops.silu,
    "softmax": ops.softmax,
    "softplus": ops.softplus,
    "softsign": ops.softsign,
    "square": ops.square,
    "tanhshrink": ops.tanhshrink,
    "tanh": ops.tanh,
}


def activation(act: Activation) -> Callable[[Variable], Variable]:
    """Return an activation function by its name; a function as it is; None is the identity."""
    if act is None:
        return _identity
    if callable(act):
        return act
    if act not in activations:
        raise GraphError(f"there is no activation {act!r}; there is {', '.join(activations)}")
    return activations[act]


def _identity(y):
    return y


def parameter(spec: Bias, default_name: str, shape: Sequence[int]) -> Variable:
    """Create or share the parameter of a layer of your own, by the conventions of `pd.layer`.

    ShapeError if a given Variable has another shape; TypeError if the spec is none of the forms.
    """
    if isinstance(spec, Owned):
        return spec.create(shape)
    if isinstance(spec, Variable):
        if spec.shape != tuple(shape):
            raise ShapeError(f"parameter {spec.name!r} is {list(spec.shape)}, not {list(shape)}")
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


def layer_name(prefix: str, W: Bias = None) -> str:
    """Return the next automatic layer name of the current namespace, without its prefix.

    A name under which variables exist already, such as an imported model's, is skipped. A layer
    object that owns `W` has its own name: none is used up.
    """
    if isinstance(W, Owned):
        return ""
    return free_name(prefix).rpartition("/")[2]


def free_name(prefix: str, namespace: str | None = None) -> str:
    """Return the next automatic full name below which there is no variable."""
    registry = names()
    name = registry.next(prefix, namespace)
    while registry.variables.has_layer(name):
        name = registry.next(prefix, namespace)
    return name
