"""Pickles of layers: the values, names and settings of what is below one."""

import copy
import gc
import re
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..graph.errors import GraphError
from ..graph.initializers import Value
from ..graph.names import close_prefix, names, open_prefix
from ..graph.pickled import PickledName, check_picklable, pickled_name
from ..graph.variable import Variable, static
from ..run.session import default_session
from .held import is_stored
from .parameter import free_name

_LEFT_OUT = ("_parent", "_names", "_prefix")  # what the place of a layer decides
_ROOT, _NAME, _CHILDREN = "(root)", "(name)", "(children)"  # more than attributes, in a state


class _Root:
    """The name of the outermost layer, the same object for all layers below it in a pickle.

    Where it is unpickled the first one to ask takes this name, or another if it is taken.
    """

    def __init__(self, name: str) -> None:
        self.name, self._new = name, ""

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_new": ""}

    def renamed(self, name: str) -> str:
        """Return the name that something below has now."""
        if not self._new:
            self._new = _free(self.name)
        return self._new + name.removeprefix(self.name)


def _free(name: str) -> str:
    """Return the name of a layer, or one that is free if variables have it."""
    if names().variables.has_layer(name):
        gc.collect()  # graphs are cycles
        if any(key.startswith((f"{name}/", f"{name}.")) for key in names().variables):
            return free_name(re.sub(r"_\d+$", "", name) + "_", "")
    return name


class _Stored:
    """A variable in a pickle, one object for all layers that have it."""

    def __init__(self, name: PickledName, root: _Root | None, content: dict[str, Any]) -> None:
        self.name, self.root, self.content = name, root, content
        self._variable: Variable | None = None

    def variable(self) -> Variable:
        """Return the variable, made when it is first asked for."""
        if self._variable is None:
            value = np.asarray(self.content.pop("value"))
            self.name.name = self._new_name()
            open_prefix("")
            try:
                self._variable = Variable(
                    self.name.name, shape=value.shape, initializer=Value(value), **self.content
                )
            finally:
                close_prefix()
        return self._variable

    def _new_name(self):
        name = self.name.name
        if self.root is not None:
            return self.root.renamed(name)
        taken = names().variables
        if name in taken:
            gc.collect()
        number = 0
        new = name
        while new in taken:
            number += 1
            new = f"{name}_{number}"
        return new


class _Storing:
    """A `_Stored` of a variable that is there: its value is read when it is pickled."""

    def __init__(self, v: Variable) -> None:
        self.variable, self.root = ref(v), None

    def __reduce__(self) -> tuple[Any, ...]:
        v = self.variable()
        assert v is not None  # its layer is pickled
        if v.is_shard:
            raise GraphError(
                f"{v.name} is sharded, each process has other rows: it is not pickled\n"
                "  hint: its own save() writes the table"
            )
        content = {
            "value": np.asarray(default_session().val(v), v.dtype).reshape(static(v.dims)),
            "dtype": v.dtype,
            "trainable": v.trainable,
            "learning_rate": v.learning_rate,
            "regularizer": v.regularizer,
            "clip": v.clip,
            "row_sparse": v.row_sparse,
        }
        for name in ("regularizer", "clip"):
            check_picklable(f"{v.name}: {name}", content[name])
        return _Stored, (pickled_name(v), self.root, content)


_roots: WeakKeyDictionary[Any, _Root] = WeakKeyDictionary()  # by the outermost layer
_storing: WeakKeyDictionary[Variable, _Storing] = WeakKeyDictionary()


def state_of(layer: Any) -> dict[str, Any]:
    """Return what is pickled of a layer: its attributes, with its variables as they are stored.

    TypeError for an attribute that cannot be pickled, which it names.
    """
    root = layer
    while root._placed_in() is not None:
        root = root._placed_in()
    own = vars(layer)
    is_built = root._prefix is not None and any(True for _ in root._named_variables())
    token = _roots.setdefault(root, _Root("")) if is_built else None
    if token is not None:
        token.name = root._full_name()
    who = type(layer).__name__ if layer._prefix is None else layer._prefix[:-1]
    state: dict[str, Any] = {}
    for name, value in own.items():
        if name not in _LEFT_OUT:
            state[name] = _stored(f"{who}: {name}", value, token)
    for hook in (*own["_pre_hooks"].values(), *own["_hooks"].values()):
        check_picklable(f"{who}: a hook", hook)
    for name, function in layer._functions.items():
        check_picklable(f"{who}: the function of {name}", function)
    state[_ROOT] = token
    state[_NAME] = layer._prefix[:-1] if is_built and layer._prefix is not None else None
    state[_CHILDREN] = [
        (path, child) for path, child in layer._parts()[0].items() if child._parent_is(layer)
    ]
    return state


def set_state(layer: Any, state: dict[str, Any]) -> None:
    """Make an empty layer what `state_of` has described."""
    state = dict(state)
    root, name, children = (state.pop(key) for key in (_ROOT, _NAME, _CHILDREN))
    own = vars(layer)
    own.setdefault("_parent", None)  # the layer around it may have set it
    own.update({key: _restored(value) for key, value in state.items()}, _names={}, _prefix=None)
    if root is not None and name is not None:
        layer._set_prefix(root.renamed(name))
    for path, child in children:
        vars(child).update(_parent=ref(layer))
        full = None if root is None or name is None else f"{name}/{path.replace('.', '/')}"
        if full is not None:
            own["_names"][root.renamed(full)] = ref(child)


def _stored(where, value, token):
    """Return a value with `_Storing` in the places of variables, in lists, tuples and dicts too."""
    if isinstance(value, Variable) and is_stored(value):
        v = value
        storing = _storing.setdefault(v, _Storing(v))
        below = token is not None and v.name.startswith(f"{token.name}/")
        storing.root = token if below else None
        return storing
    if isinstance(value, (list, tuple, dict)) and _has_variables(value, ()):
        return _mapped(value, lambda x: _stored(where, x, token))
    check_picklable(where, value)
    return value


def _restored(value):
    if isinstance(value, _Stored):
        return value.variable()
    if isinstance(value, (list, tuple, dict)) and _has_variables(value, ()):
        return _mapped(value, _restored)
    return value


def _has_variables(value, inside):
    """Whether there are variables in a container, nested ones included."""
    if any(value is outer for outer in inside):
        return False
    parts = value.values() if isinstance(value, dict) else value
    for x in list(parts):
        if isinstance(x, (Variable, _Stored)):
            return True
        if isinstance(x, (list, tuple, dict)) and _has_variables(x, (*inside, value)):
            return True
    return False


def _mapped(value, function):
    """Return a container of the same kind with a function of each of its parts."""
    if isinstance(value, tuple):
        parts = [function(x) for x in value]
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    twin = copy.copy(value)
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        twin[key] = function(value[key])
    return twin
