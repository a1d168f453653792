"""Trees of state as JSON and tensors: nested dicts and lists of numbers, strings and arrays.

A number, string, bool or None stands for itself; anything else is an object of one entry, which
says what it is: a dict, a list, or the name of a tensor.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.errors import DamagedFile
from ..graph.variable import Variable
from .small_floats import is_small_float


def copied(tree: Any) -> Any:
    """Return a tree with copies of its arrays, and arrays in the place of Variables."""
    if isinstance(tree, Mapping):
        return {key: copied(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [copied(value) for value in tree]
    if isinstance(tree, Variable):
        return tree.numpy()
    return tree.copy() if isinstance(tree, np.ndarray) else tree


class TreeWriter:
    """Encodes trees as JSON, and collects their arrays in `tensors`.

    A subclass may encode more kinds of values. `who` is the beginning of errors.
    """

    def __init__(self, who: str, tensors: dict[str, np.ndarray]):
        self.who, self.tensors = who, tensors

    def encoded(self, path: str, value: Any) -> Any:
        """Return the JSON of a value; `path` is where in the tree it is, for names and errors."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Mapping):
            return {"dict": self.entries(path, value)}
        if isinstance(value, list):
            return {"list": [self.encoded(f"{path}/{k}", v) for k, v in enumerate(value)]}
        if isinstance(value, (np.ndarray, np.generic)):
            return self.tensor(path, np.asarray(value))
        if isinstance(value, Variable):
            return self.tensor(path, value.numpy())
        raise TypeError(f"{self.who}: {path} is {value!r}; {self.what_fits()}")

    def what_fits(self) -> str:
        """Return what a tree may contain, for errors."""
        return "state is dicts and lists of numbers, strings, arrays and Variables"

    def entries(self, path: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON of a dict's values."""
        for key in values:
            if not isinstance(key, str):
                raise TypeError(f"{self.who}: a key of {path} is {key!r}, keys are strings")
        return {key: self.encoded(f"{path}/{key}", value) for key, value in values.items()}

    def tensor(self, path: str, array: np.ndarray) -> dict[str, str]:
        """Add an array to the tensors; return the JSON that stands for it."""
        if array.dtype.kind not in "fiub" and not is_small_float(array.dtype):
            raise TypeError(f"{self.who}: {path} holds {array.dtype} values, which are no numbers")
        while path in self.tensors:  # keys may contain slashes
            path += "_"
        self.tensors[path] = array
        return {"tensor": path}


class TreeReader:
    """Decodes what a TreeWriter encoded; DamagedFile for anything else.

    `used` are the names of the tensors that the trees contain.
    """

    def __init__(self, file: str, tensors: Mapping[str, np.ndarray]):
        self.file, self.tensors = file, tensors
        self.used: set[str] = set()

    def decoded(self, tree: Any) -> Any:
        """Return the value that some JSON stands for."""
        if not isinstance(tree, (dict, list)):
            return tree
        match tree:
            case {"dict": dict(entries), **others} if not others:
                return {key: self.decoded(value) for key, value in entries.items()}
            case {"list": list(entries), **others} if not others:
                return [self.decoded(value) for value in entries]
            case {"tensor": str(name), **others} if not others and name in self.tensors:
                self.used.add(name)
                return self.tensors[name]
        raise DamagedFile(f"{self.file} has an entry {str(tree)[:60]!r}")
