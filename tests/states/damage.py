"""Damaged states: at each key of a tree something is missing, renamed, or of another kind."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

Path = tuple[Any, ...]


def paths(tree: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every entry of nested dicts and lists."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(pairs):
        yield (*path, key)
        if isinstance(value, (dict, list, tuple)):
            yield from paths(value, (*path, key))


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (what is done, another value) that cannot be in the place of a value."""
    if value is not None:
        yield "None", None
    yield "an object", object()
    yield "text", "text" if not isinstance(value, str) else 3
    if isinstance(value, np.ndarray):
        yield "another shape", np.zeros((*value.shape, 2), value.dtype)
        yield "complex numbers", value.astype(complex)
    if isinstance(value, (dict, list)):
        yield "another container", [value] if isinstance(value, dict) else {"0": value}


def damaged(tree: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (what was done where, a function that returns a damaged copy of a tree)."""
    yield "no state", lambda: None
    yield "a list", lambda: [mutable(tree)]
    for path in paths(tree):
        where = "/".join(map(str, path))
        if isinstance(_at(tree, path[:-1]), dict):
            yield f"{where} is deleted", partial(_changed, tree, path, delete=True)
            yield f"{where} is renamed", partial(_changed, tree, path, rename=True)
        for what, value in others(_at(tree, path)):
            yield f"{where} is {what}", partial(_changed, tree, path, value)


def _at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def _changed(tree, path, value=None, delete=False, rename=False):
    tree = mutable(tree)
    parent = _at(tree, path[:-1])
    if delete or rename:
        old = parent.pop(path[-1])
        if rename:
            parent[f"{path[-1]}?"] = old
    else:
        parent[path[-1]] = value
    return tree


def mutable(tree: Any) -> Any:
    """Return a copy of a tree with dicts and lists."""
    if isinstance(tree, dict) or hasattr(tree, "keys"):
        return {key: mutable(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [mutable(value) for value in tree]
    return copy.deepcopy(tree)


def same(one: Any, other: Any) -> bool:
    """Return whether two trees are equal bit for bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return type(one) is type(other) and (one == other or one != one)
