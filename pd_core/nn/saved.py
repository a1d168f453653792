"""What `Module.save` writes: values by name, and a tree of other state with its own tensors.

The tree is JSON in the metadata. A number, string, bool or None stands for itself; anything else
is an object of one entry, which says what it is: a dict, a list, the name of a tensor, or the
state of an optimizer.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..files.tensors import read_tensors
from ..graph.errors import DamagedFile
from ..graph.variable import Variable, describe, format_dims
from ..optimizers.base import Optimizer
from ..run.session import default_session

_KEY = "pd.state"  # of the tree in the metadata


def content(
    variables: Mapping[str, Variable], state: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the tensors and the metadata of the file; TypeError for what cannot be saved."""
    session = default_session()
    tensors = {name: session.get(v) for name, v in variables.items()}
    tree = _Writer(variables, tensors).encoded("state", dict(state))
    return tensors, {_KEY: json.dumps(tree)}


class _Writer:
    """Encodes state as a tree, and puts its arrays among the tensors."""

    def __init__(self, variables, tensors):
        self.names = {v.name: name for name, v in variables.items()}
        self.tensors = tensors

    def encoded(self, path, value):
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Mapping):
            return {"dict": self.entries(path, value)}
        if isinstance(value, list):
            return {"list": [self.encoded(f"{path}/{k}", v) for k, v in enumerate(value)]}
        if isinstance(value, Optimizer):
            state = {self.relative(name): array for name, array in value.state().items()}
            return {"optimizer": self.entries(path, state)}
        if isinstance(value, (np.ndarray, np.generic)):
            return self.tensor(path, np.asarray(value))
        if isinstance(value, Variable):
            return self.tensor(path, value.numpy())
        raise TypeError(
            f"save: {path} is {value!r}; state is dicts and lists of numbers, strings, arrays, "
            "Variables and optimizers"
        )

    def entries(self, path, values):
        for key in values:
            if not isinstance(key, str):
                raise TypeError(f"save: a key of {path} is {key!r}, keys are strings")
        return {key: self.encoded(f"{path}/{key}", value) for key, value in values.items()}

    def tensor(self, path, array):
        if array.dtype.kind not in "fiub":
            raise TypeError(f"save: {path} holds {array.dtype} values, which are no numbers")
        while path in self.tensors:  # keys may contain slashes
            path += "_"
        self.tensors[path] = array
        return {"tensor": path}

    def relative(self, name):
        """The name of an optimizer's slot from the module on, `/` before one of another's."""
        parameter, slash, slot = name.rpartition("/")
        if not slash:
            return name  # a counter
        return f"{self.names[parameter]}/{slot}" if parameter in self.names else f"/{name}"


def read(path: str, variables: Mapping[str, Variable]) -> tuple[dict[str, np.ndarray], Any]:
    """Return the values by name, and the other state, of a file; DamagedFile if it is none."""
    tensors, metadata = read_tensors(path)
    if _KEY not in metadata:
        raise DamagedFile(f"{path} was not written by Module.save: it has no metadata {_KEY!r}")
    reader = _Reader(path, variables, tensors)
    try:
        tree = json.loads(metadata[_KEY])
        state = reader.decoded(tree)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DamagedFile(f"{path}: metadata {_KEY!r} cannot be read: {error}") from None
    if not isinstance(state, dict):
        raise DamagedFile(f"{path}: metadata {_KEY!r} is no dict")
    return {k: v for k, v in tensors.items() if k not in reader.used}, state


class _Reader:
    """Decodes a tree of state."""

    def __init__(self, path, variables, tensors):
        self.path, self.variables, self.tensors = path, variables, tensors
        self.used: set[str] = set()

    def decoded(self, tree):
        if not isinstance(tree, (dict, list)):
            return tree
        match tree:
            case {"dict": dict(entries), **others} if not others:
                return {key: self.decoded(value) for key, value in entries.items()}
            case {"list": list(entries), **others} if not others:
                return [self.decoded(value) for value in entries]
            case {"optimizer": dict(entries), **others} if not others:
                return {self.full(key): self.decoded(value) for key, value in entries.items()}
            case {"tensor": str(name), **others} if not others and name in self.tensors:
                self.used.add(name)
                return self.tensors[name]
        raise DamagedFile(f"{self.path}: metadata {_KEY!r} has an entry {str(tree)[:60]!r}")

    def full(self, name):
        """The name of an optimizer's slot in this module's."""
        if name.startswith("/"):
            return name[1:]
        parameter, _, slot = name.rpartition("/")
        v = self.variables.get(parameter)
        return name if v is None else f"{v.name}/{slot}"


def compared(
    variables: Mapping[str, Variable], values: Mapping[str, np.ndarray]
) -> tuple[list[str], dict[str, str]]:
    """Return the names whose values fit, and {name: why not} of all others."""
    fitting, misfits = [], {}
    for name, v in variables.items():
        array = values.get(name)
        if array is None:
            misfits[name] = f"{name} is not in the file"
        elif array.shape == v.dims and (
            array.dtype == v.dtype or array.dtype.kind == v.dtype.kind == "f"
        ):
            fitting.append(name)
        else:
            stored = f"{array.dtype}{format_dims(array.shape)}"
            misfits[name] = f"{name} is {describe(v)}, in the file {stored}"
    for name in sorted(values.keys() - variables.keys()):
        misfits[name] = f"{name} is only in the file"
    return fitting, misfits
