"""Variables in pickles of layers: their values and settings, and names that may be taken."""

import copy
import gc
import re
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..graph.errors import GraphError
from ..graph.initializers import Value
from ..graph.names import close_prefix, names, open_prefix
from ..graph.pickled import PickledName, check_picklable, pickled_name
from ..graph.variable import Variable, static
from ..run.entered import sessions_elsewhere
from ..run.session import default_session
from .held import is_stored
from .parameter import free_name


class Root:
    """The name of the outermost layer, the same object for all layers below it in a pickle.

    Where it is unpickled the first one to ask takes this name, or another if it is taken.
    """

    def __init__(self, name: str) -> None:
        self.name, self._new = name, ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Root, (self.name,)

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

    def __init__(self, name: PickledName, root: Root | None, content: dict[str, Any]) -> None:
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
        self.variable, self.root = ref(v), cast(Root | None, None)

    def __reduce__(self) -> tuple[Any, ...]:
        v = self.variable()
        assert v is not None  # its layer is pickled
        if v.is_shard:
            raise GraphError(
                f"{v.name} is sharded, each process has other rows: it is not pickled\n"
                "  hint: its own save() writes the table"
            )
        # a thread that sends to other processes, as joblib's does, has entered no session
        elsewhere = sessions_elsewhere(v)
        session = elsewhere[0] if len(elsewhere) == 1 else default_session()
        content = {
            "value": np.asarray(session.val(v), v.dtype).reshape(static(v.dims)),
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


_roots: WeakKeyDictionary[Any, Root] = WeakKeyDictionary()  # by the outermost layer
_storing: WeakKeyDictionary[Variable, _Storing] = WeakKeyDictionary()


def root_of(layer: Any, name: str) -> Root:
    """Return what stands in pickles for an outermost layer, which has this name now."""
    root = _roots.setdefault(layer, Root(name))
    root.name = name
    return root


def stored(where: str, value: Any, root: Root | None) -> Any:
    """Return what is pickled of an attribute: variables as they are stored, nested ones too.

    TypeError for what cannot be pickled; `where` says of which layer it is.
    """
    if is_stored(value):
        storing = _storing.setdefault(value, _Storing(value))
        below = root is not None and value.name.startswith(f"{root.name}/")
        storing.root = root if below else None
        return storing
    if isinstance(value, (list, tuple, dict)) and _has_variables(value, ()):
        return _mapped(value, lambda x: stored(where, x, root))
    check_picklable(where, value)
    return value


def restored(value: Any) -> Any:
    """Return an attribute for what was pickled of it."""
    if isinstance(value, _Stored):
        return value.variable()
    if isinstance(value, (list, tuple, dict)) and _has_variables(value, ()):
        return _mapped(value, restored)
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
        is_named = hasattr(value, "_fields")
        return type(value)(*parts) if is_named else tuple(parts)
    twin = copy.copy(value)
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        twin[key] = function(value[key])
    return twin
