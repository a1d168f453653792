"""The settings of an optimizer as lines of text, for errors that tell two of them apart."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..graph.variable import Variable
from .groups import Group

_DEEPEST = 3  # settings within settings, such as the limit of a clip
# settings of a parameter, and what they are by default
_OWN = {"learning_rate": 1.0, "regularizer": None, "clip": None, "row_sparse": False}


def described_settings(optimizer: Any, parameters: Sequence[Variable]) -> list[str]:
    """Return a line for each setting of an optimizer, of its groups and of its parameters."""
    who = type(optimizer).__name__
    lines = [f"{who}: {name}={_text(value)}" for name, value in _public(optimizer).items()]
    for group in getattr(optimizer, "groups", ()):
        if isinstance(group, Group):
            lines += [f"{who}: {name}={_text(value)} of {group}" for name, value in group.settings]
    for w in parameters:
        own = {name: getattr(w, name) for name in _OWN}
        changed = {name: value for name, value in own.items() if value != _OWN[name]}
        lines += [f"{w.name}: {name}={_text(value)}" for name, value in changed.items()]
    return lines


def _public(value):
    return {name: v for name, v in vars(value).items() if not name.startswith("_")}


def _text(value, depth=0):
    """A value without what differs from process to process, such as addresses."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    if isinstance(value, (np.number, np.bool_)):
        return repr(value.item())
    if isinstance(value, Variable):
        return f"the variable {value.name}"
    if isinstance(value, (list, tuple)) and depth < _DEEPEST:
        return f"[{', '.join([_text(v, depth + 1) for v in value])}]"
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    kind = type(value).__name__
    if depth == _DEEPEST or isinstance(value, Mapping) or not hasattr(value, "__dict__"):
        return kind
    names = [f.name for f in fields(value)] if is_dataclass(value) else _public(value)
    inside = [f"{name}={_text(getattr(value, name), depth + 1)}" for name in names]
    return f"{kind}({', '.join(inside)})"
