"""What updates change: the new values of variables, and what they read inside `pd.guard()`."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..graph.errors import GraphError
from ..graph.node import ancestors
from ..graph.update import Assignment, Update
from ..graph.variable import Variable

Changes: TypeAlias = dict[Variable, Variable | None]  # new values, None to draw the initial value


def changes_of(updates: Sequence[Update]) -> Changes:
    """Return {variable: its new value, or None to draw its initial value} of all updates.

    GraphError where two of them change one variable.
    """
    active: list[tuple[Variable, Variable | None]] = [
        (a.variable, a.value) for u in updates for a in u.assignments if not _frozen(a)
    ]
    active += [(v, None) for u in updates for v in u.initialize]
    changes: Changes = {}
    for v, new in active:
        if changes.setdefault(v, new) is not new:
            raise GraphError(f"two updates of {v!r} in one evaluation")
    return changes


def _frozen(assignment: Assignment) -> bool:
    return assignment.owner is not None and not assignment.owner.trainable


def computed_changes(changes: Changes) -> list[tuple[Variable, Variable]]:
    """Return the changes that a program computes: not constants, which are stored as they are."""
    return [(v, new) for v, new in changes.items() if new is not None and new.value is None]


def recorded_values(
    fetches: Sequence[Variable], updates: Sequence[Update], fed: Mapping[Variable, Any]
) -> dict[Variable, np.ndarray]:
    """Return the values of what targets read that was recorded inside `pd.guard()`.

    They are those of their lines, whatever has changed since.
    """
    targets = [*fetches, *(new for _, new in computed_changes(changes_of(updates)))]
    if not any([hasattr(node, "alive") for node in ancestors(targets)]):  # noqa: C419  # faster
        return {}
    order = ancestors(targets, fed)
    read, fed_behind = list(targets), set(fed)
    for node in order:
        inputs = [x for x in node.inputs if x is not None]
        if any(x in fed_behind or x.is_feed for x in inputs):
            fed_behind.update(node.outputs)
        if not hasattr(node, "alive"):
            read += inputs
    return {v: v.numpy() for v in read if v.is_recorded and v not in fed_behind}
