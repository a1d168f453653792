"""Repeated calls of layers: which ops with templates they call, by the type of the input.

A layer of pd_core that is made of parameters, settings and such layers adds the same for equal
types, until one of its attributes is assigned, or one of a layer below it.
"""

from collections.abc import Sequence
from typing import Any

from ..graph.variable import Variable
from .placeholder import Placeholder
from .recorded_call import RecordedVariable
from .recorded_node import type_key
from .templates import Template, joined

_MOST = 64  # types of inputs of a layer

# The template, and the Variables that it is replayed on: None for the input.
Repeat = tuple[Template, tuple[Variable | None, ...]]


class Repeats(dict[tuple, Repeat]):
    """A cache of the calls that a layer adds, by the type of its input.

    It is valid for as long as no layer below it changes.

    A change of a layer replaces its own; `below` are those of the layers below.
    """

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.below = [(vars(layer), vars(layer)["_repeats"]) for layer in layers]


def note_repeat(
    layer: Any, calls: Sequence[Any] | None, x: Any, output: Any
) -> tuple[Template, Sequence[Variable]] | None:
    """Return the template of all that a call with the input x has added, and its Variables.

    None if it has added something else than calls of ops with templates, or if it may add other
    ones next time. `calls` are (template, Variables, result, namespace).
    """
    if not calls or None in calls or not _is_input(x) or calls[-1][2] is not output:
        return None
    below = list(vars(layer)["_layers"].values())
    if not all(isinstance(vars(each)["_repeats"], Repeats) for each in below):
        return None
    own = vars(layer)["_prefix"]
    # a call of a layer below draws by the name of that layer
    is_own = calls[0][3] == own or not calls[0][0].draws
    if len(calls) == 1 and is_own:
        template, variables = calls[0][:2]
    elif all(call[0].is_one for call in calls) and not _reads_changes(calls):
        template, variables = joined([c[:3] for c in calls], [c[3] for c in calls], own)
    else:
        return None
    if any(v is not x and v.initial is None for v in variables):
        return None
    repeats = vars(layer)["_repeats"]
    if not isinstance(repeats, Repeats) or not _is_valid(repeats):
        repeats = layer.__dict__["_repeats"] = Repeats(below)
    if len(repeats) >= _MOST:
        repeats.clear()
    wiring = tuple([None if v is x else v for v in variables])
    repeats[type_key(x), x.literal] = template, wiring
    return template, variables


def _reads_changes(calls: Sequence[Any]) -> bool:
    """Whether a call reads a persistent variable that one before it changes."""
    changed: set[Variable] = set()
    for template, variables, *_ in calls:
        if not changed.isdisjoint(variables):
            return True
        changed.update([variables[i] for i, _ in template.effects])
    return False


def find_repeat(layer: Any, x: Any) -> Repeat | None:
    """Return what a call with the input x adds, None if there was no such call."""
    repeats = layer.__dict__["_repeats"]
    if type(x) is not RecordedVariable and not _is_input(x):
        return None
    if repeats.below and not _is_valid(repeats):
        return None
    return repeats.get((x.__dict__.get("type_key") or type_key(x), x.literal))


def _is_valid(repeats: Repeats) -> bool:
    for attributes, before in repeats.below:
        if attributes["_repeats"] is not before or (before.below and not _is_valid(before)):
            return False
    return True


def _is_input(x: Any) -> bool:
    return (
        isinstance(x, Variable)
        and x.initial is None
        and x.value is None
        and type(x) is not Placeholder
    )
