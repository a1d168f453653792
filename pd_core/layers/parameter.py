"""What layers are told of their parameters, and how they create them."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from .. import ops
from ..graph.errors import GraphError, NameConflict, ShapeError
from ..graph.initializers import Value, initializer, initializers
from ..graph.names import LAYER_HINT, Numbered, current_namespace, names
from ..graph.namespace import get_variable
from ..graph.owned import Owned
from ..graph.variable import Variable
from ..graph.whole import on_failure
from ..run.session import default_session

Activation = str | Callable[[Variable], Variable] | None
# what `W` takes
Parameter = str | Variable | Callable | np.ndarray | dict[str, Any] | Owned | None
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


def dtype_for(*inputs: Any) -> np.dtype | None:
    """Return the dtype of new parameters for inputs: float64 if one of these is, None otherwise.

    None stands for float32: parameters of float16 have no optimizer.
    """
    is_double = any(isinstance(x, Variable) and x.dtype == np.float64 for x in inputs)
    return np.dtype(np.float64) if is_double else None


def parameter(
    spec: Bias, default_name: str, shape: Sequence[int], dtype: np.dtype | None = None
) -> Variable:
    """Create or share the parameter of a layer of your own, by the conventions of `pd.layer`.

    A new one has the dtype, float32 if it is None, unless the spec has another. ShapeError if a
    given Variable has another shape; TypeError if the spec is none of the forms.
    """
    if isinstance(spec, Owned):
        v = spec.built = spec.create(shape)
        return v
    if isinstance(spec, Variable):
        if spec.shape != tuple(shape):
            raise ShapeError(f"parameter {spec.name!r} is {list(spec.shape)}, not {list(shape)}")
        return spec
    if isinstance(spec, str):
        return get_variable(spec, shape, dtype=dtype)
    name = spec.get("name", default_name) if isinstance(spec, dict) else default_name
    there = names().variables.get(f"{current_namespace()}{name}")
    shared = None if there is None else ref(there)  # a conflict collects what is not in use
    del there
    try:
        v = _created(spec, default_name, shape, dtype)
    except NameConflict as error:
        error.hint = LAYER_HINT
        raise
    if shared is None or v is not shared():
        on_failure(_forget_value, v)
    return v


def _forget_value(v):
    """Take back the first value of a parameter, which it gets at once inside `pd.guard()`."""
    session = default_session()
    with session.lock:
        if session.store.recorded is not None:
            session.store.recorded.forget(v)
        if session.has(v):
            session.store.put_back({v: None})


def _created(spec, default_name, shape, dtype):
    if isinstance(spec, dict):
        return get_variable(**{"name": default_name, "shape": shape, "dtype": dtype, **spec})
    if isinstance(spec, np.ndarray):
        spec = Value(spec.copy())
    if isinstance(spec, Value) and spec.array.shape != tuple(shape):
        raise ShapeError(
            f"the initial value of {default_name!r} is {list(spec.array.shape)}, not {list(shape)}"
        )
    if callable(spec):
        return Variable(default_name, shape=shape, dtype=dtype, initializer=spec)
    if spec is None or spec is True:
        return Variable(default_name, shape=shape, dtype=dtype)
    raise TypeError(
        f"parameter {default_name!r} is a name, Variable, initializer, array or dict, not {spec!r}"
    )


def initial(spec: Any, value: np.ndarray | None) -> tuple[Any, bool]:
    """Return what `parameter` takes, with a loaded value as the initial one; whether it is shared.

    A variable that is shared or given is not created here: it keeps its initializer.
    """
    if isinstance(spec, str):
        if spec not in initializers:
            return spec, True
        spec = initializers[spec]
    if isinstance(spec, dict):
        shared = "name" in spec
        spec = spec if shared else {"reuse": False, **spec}
        if "initializer" in spec:
            spec = {**spec, "initializer": initializer(spec["initializer"])}
        if value is not None:
            kept = {k: v for k, v in spec.items() if k != "data"}
            spec = {**kept, "initializer": Value(value)}
        return spec, shared
    if value is None or isinstance(spec, (Variable, Owned)):
        return spec, False
    return Value(value), False


def layer_name(prefix: str, W: Bias = None) -> str:
    """Return the next automatic layer name of the current namespace, without its prefix.

    A name under which variables exist already, such as an imported model's, is skipped. A layer
    object that owns `W` has its own name: none is used up.
    """
    if isinstance(W, Owned):
        return ""
    return free_name(prefix).rpartition("/")[2]


def free_name(prefix: str, namespace: str | None = None, thing: Numbered | None = None) -> str:
    """Return the next automatic full name below which there is no variable.

    `thing` is what gets it; it may have had one in a training that is resumed.
    """
    registry = names()

    def following():
        if thing is None:
            return registry.next(prefix, namespace)
        return registry.next_of(thing, prefix, namespace)

    name = following()
    while registry.variables.has_layer(name):
        name = following()
    return name
