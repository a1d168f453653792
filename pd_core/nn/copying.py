"""Copies of layers: the same structure with new variables, which have the same values."""

import copy
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..graph.initializers import Value
from ..graph.names import close_prefix, open_prefix
from ..graph.variable import Variable
from ..run.session import default_session
from .held import held

if TYPE_CHECKING:
    from .layer import Layer

Memo = dict[int, Any]


def copied(root: "Layer", new: Any, memo: Memo) -> "Layer":
    """Return a copy of a layer with all below it; `new(layer)` makes an empty layer of its class.

    Structure comes first, since a variable is named after its place, and containers come last:
    they may have variables.
    """
    twin = _structure(root, new, memo)
    layers = [layer for _, layer in root._walk()]
    for layer in layers:
        _copy_variables(layer, memo[id(layer)], memo)
    for layer in layers:
        _copy_containers(layer, memo[id(layer)], memo)
    return twin


def _structure(layer, new, memo):
    """Copy everything but variables and containers."""
    if id(layer) in memo:
        return memo[id(layer)]
    twin = memo[id(layer)] = new(layer)
    tables = {*vars(twin), *layer._variables, *layer._layers, *layer._held}
    for name in vars(layer):
        vars(twin).setdefault(name, None)  # attributes keep their order
    for path, child in layer._parts()[0].items():
        other = _structure(child, new, memo)
        if path in layer._layers:
            setattr(twin, path, other)
        elif child._parent_is(layer):
            other._parent, other._attribute = ref(twin), path
        if other._parent_is(twin):
            other._given_name = child._given_name
    for name in ("_loaded", "_pre_hooks", "_hooks", *_FLAGS):
        object.__setattr__(twin, name, copy.deepcopy(getattr(layer, name), memo))
    for name, value in vars(layer).items():
        if name not in tables:
            is_graph = isinstance(value, Variable)  # a result: it belongs to both
            object.__setattr__(twin, name, value if is_graph else copy.deepcopy(value, memo))
    return twin


_FLAGS = ("_frozen", "training", "_is_called", "_is_strict", "_lacking")


def _copy_variables(layer, twin, memo):
    for name, v in layer._variables.items():
        twin._add_variable(name, _variable(v, name, twin, memo), name in layer._buffers)
        object.__setattr__(twin, name, memo[id(v)])


def _copy_containers(layer, twin, memo):
    for name in layer._held:
        value = vars(layer)[name]
        for path, part in held(name, value).items():
            if isinstance(part, Variable):
                if part.is_persistent:
                    _variable(part, path, twin, memo)
                else:
                    memo.setdefault(id(part), part)
        object.__setattr__(twin, name, copy.deepcopy(value, memo))
        twin._held.add(name)


def _variable(v, name, twin, memo):
    if id(v) not in memo:
        open_prefix(f"{twin.full_name()}/")
        try:
            memo[id(v)] = Variable(
                name.replace(".", "/") if "." in name else name,
                shape=v.dims,
                dtype=v.dtype,
                initializer=Value(default_session().val(v)),
                trainable=v.trainable,
                learning_rate=v.learning_rate,
                regularizer=v.regularizer,
                clip=v.clip,
                row_sparse=v.row_sparse,
            )
        finally:
            close_prefix()
    return memo[id(v)]
