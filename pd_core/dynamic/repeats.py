"""Calls of layers that add one call of an op: which op, and on what, by the type of the input.

A layer that is made of nothing but parameters and settings adds the same for equal types, until one
of its attributes is assigned.
"""

from typing import Any

from ..graph.variable import Variable
from .placeholder import Placeholder
from .recorded_node import type_key
from .templates import Template

_MOST = 64  # types of inputs of a layer
# Types of attributes that may be changed without an assignment.
_MUTABLE = list, dict, set, bytearray

# The template, and the Variables that it is replayed on: None for the input.
Repeat = tuple[Template, tuple[Variable | None, ...]]


def may_repeat(layer: Any) -> bool:
    """Return whether what a layer adds follows from its attributes, and these from assignments."""
    return (
        layer._is_ours
        and layer._is_called
        and not layer._layers
        and not layer._is_strict
        and not any(
            isinstance(value, _MUTABLE) for name, value in vars(layer).items() if name[0] != "_"
        )
    )


def note_repeat(
    repeats: dict[tuple, Repeat], template: Template, variables: Any, x: Variable
) -> None:
    """Keep what a call with the input x adds, if it reads nothing but that and parameters."""
    if all(v is x or v.initial is not None for v in variables) and _is_input(x):
        if len(repeats) >= _MOST:
            repeats.clear()
        wiring = tuple([None if v is x else v for v in variables])
        repeats[type_key(x), x.literal] = template, wiring


def find_repeat(repeats: dict[tuple, Repeat], x: Any) -> Repeat | None:
    """Return what a call with the input x adds, None if there was no such call."""
    if not isinstance(x, Variable) or not _is_input(x):
        return None
    return repeats.get((x.__dict__.get("type_key") or type_key(x), x.literal))


def _is_input(x: Variable) -> bool:
    return x.initial is None and x.value is None and type(x) is not Placeholder
