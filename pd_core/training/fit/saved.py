"""What `Module.save` writes: values by name, and a tree of other state with its own tensors.

The tree is JSON in the metadata, see `pd_core.storage.tree`.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...graph.errors import DamagedFile
from ...graph.variable import Variable
from ...optimizers.base import Optimizer
from ...run.session import default_session
from ...storage.tensors import read_tensors
from ...storage.tree import TreeReader, TreeWriter

_KEY = "pd.state"  # of the tree in the metadata


def content(
    variables: Mapping[str, Variable], state: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the tensors and the metadata of the file; TypeError for what cannot be saved."""
    session = default_session()
    tensors = {name: session.get(v) for name, v in variables.items()}
    tree = _Writer(variables, tensors).encoded("state", dict(state))
    return tensors, {_KEY: json.dumps(tree)}


class _Writer(TreeWriter):
    """Encodes an optimizer, too: its state, with names from the module on."""

    def __init__(self, variables, tensors):
        super().__init__("save", tensors)
        self.names = {v.name: name for name, v in variables.items()}

    def encoded(self, path, value):
        if not isinstance(value, Optimizer):
            return super().encoded(path, value)
        state = {self.relative(name): array for name, array in value.state().items()}
        return {"optimizer": self.entries(path, state)}

    def what_fits(self):
        return f"{super().what_fits()}, and optimizers"

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


class _Reader(TreeReader):
    """Decodes the state of an optimizer, too."""

    def __init__(self, path, variables, tensors):
        super().__init__(path, tensors)
        self.variables = variables

    def decoded(self, tree):
        match tree:
            case {"optimizer": dict(entries), **others} if not others:
                return {self.full(key): self.decoded(value) for key, value in entries.items()}
        return super().decoded(tree)

    def full(self, name):
        """The name of an optimizer's slot in this module's."""
        if name.startswith("/"):
            return name[1:]
        parameter, _, slot = name.rpartition("/")
        v = self.variables.get(parameter)
        return name if v is None else f"{v.name}/{slot}"
