"""Nested targets of evaluations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..graph.update import Update
from ..graph.variable import Variable

# What `eval` takes; its result has the same nesting, with an array for each Variable and None for
# each Update.
Targets: TypeAlias = Variable | Update | Sequence["Targets"] | Mapping[Any, "Targets"]


def computed_variables(targets: Sequence[Variable | Update]) -> list[Variable]:
    """Return the Variables among targets, and the new values of the Updates."""
    updates = [t for t in targets if isinstance(t, Update)]
    new = [a.value for u in updates for a in u.assignments]
    return [t for t in targets if isinstance(t, Variable)] + new


def flatten(targets: Targets, out: list[Variable | Update]) -> None:
    """Append the Variables and Updates of nested targets to a list."""
    if isinstance(targets, (Variable, Update)):
        out.append(targets)
    elif isinstance(targets, (list, tuple)):
        for t in targets:
            flatten(t, out)
    elif isinstance(targets, dict):
        for t in targets.values():
            flatten(t, out)
    else:
        raise TypeError(f"a target is a Variable or an Update, not {targets!r}")


def restructure(targets: Targets, values: Iterator[Any]) -> Any:
    """Return values, in the order of the Variables and Updates, in the nesting of the targets."""
    if isinstance(targets, (Variable, Update)):
        return next(values)
    if isinstance(targets, dict):
        return {k: restructure(t, values) for k, t in targets.items()}
    kind: Any = type(targets)
    if kind is list:
        return [restructure(t, values) for t in targets]
    make = getattr(kind, "_make", kind)  # a named tuple takes its fields as separate arguments
    return make([restructure(t, values) for t in targets])
