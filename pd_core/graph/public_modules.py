"""Names that a public module lacks: an AttributeError says where they are, or our word for them."""

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from .other_words import MissingName, function_here


def place_names(module: str, who: str, asked_for: Sequence[str] = ()) -> None:
    """Let a module, `who` to its users, tell our words, and names that other public modules have.

    It gets a `__getattr__`, which type checkers do not see: to them nothing else is there. Modules
    that are `asked_for` are imported when they are.
    """
    face: Any = sys.modules[module]

    def absent(name: str) -> Any:
        if name in asked_for:
            return import_module(f"{module}.{name}")
        if name.startswith("__"):
            raise MissingName(who, name, None)
        here, own = function_here(name), _public(face)
        if here is None and name.lower() not in map(str.lower, own):
            here = _elsewhere(name)
        raise MissingName(who, name, here, own)

    face.__getattr__ = absent


def place_names_in(module: str, who: str, asked_for: Sequence[str] = ()) -> None:
    """Do so for a package and for the public modules among its names."""
    place_names(module, who, asked_for)
    for name, face in _modules(sys.modules[module]):
        place_names(face.__name__, f"{who}.{name}")
    _roots.append((who, sys.modules[module]))


_roots: list[tuple[str, ModuleType]] = []


def _elsewhere(name: str) -> str | None:
    """Where a public module has a name, such as pd.nn.FC; None if none has."""
    for who, root in _roots:
        if name in _public(root):
            return f"{who}.{name}"
        for k, face in _modules(root):
            if name in _public(face):
                return f"{who}.{k}.{name}"
    return None


def _modules(package: ModuleType) -> list[tuple[str, ModuleType]]:
    found = [(name, vars(package)[name]) for name in _public(package) if name in vars(package)]
    return [(name, x) for name, x in found if isinstance(x, ModuleType)]


def _public(module: ModuleType) -> Sequence[str]:
    """The public names of a module, its own classes and functions if it does not list them."""
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return listed
    own = {n for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__}
    return sorted(n for n in own if not n.startswith("_"))
