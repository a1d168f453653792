"""Parameter groups: settings of an optimizer that some of its parameters have of their own."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.errors import GraphError
from ..graph.variable import Variable

# A regular expression that is searched in names, a predicate, or the parameters themselves.
Selection = str | Callable[[Variable], Any] | Iterable[Variable]
# {"params": Selection, setting: value, ...}, or what became of it
Groups = Sequence["Mapping[str, Any] | Group"]


@dataclass(frozen=True)
class Group:
    """Parameters, as a Selection, and their own (setting, value) pairs."""

    params: str | Callable[[Variable], Any] | tuple[Variable, ...]
    settings: tuple[tuple[str, Any], ...]

    def has(self, w: Variable) -> bool:
        """Return whether a parameter belongs to the group."""
        if isinstance(self.params, str):
            return re.search(self.params, w.name) is not None
        if isinstance(self.params, tuple):
            return any(w is v for v in self.params)
        return bool(self.params(w))

    def __str__(self) -> str:
        if isinstance(self.params, tuple):
            return f"[{', '.join(v.name for v in self.params)}]"
        is_text = isinstance(self.params, str)
        return repr(self.params) if is_text else getattr(self.params, "__name__", "a predicate")


def parameter_groups(who: str, groups: Groups, known: Sequence[str]) -> tuple[Group, ...]:
    """Return the Groups of an optimizer; `known` are the settings that a group may have.

    TypeError for what is no such dict, ValueError for other settings, GraphError for a Variable in
    two groups.
    """
    checked = tuple([_group(who, k, group, known) for k, group in enumerate(groups)])
    seen: dict[Variable, int] = {}
    for k, group in enumerate(checked):
        for v in group.params if isinstance(group.params, tuple) else ():
            if seen.setdefault(v, k) != k:
                raise GraphError(f"{who}: {v!r} is in the groups {seen[v]} and {k}")
    return checked


def _group(who, k, group, known):
    if isinstance(group, Group):  # was checked before
        return group
    if not isinstance(group, Mapping) or "params" not in group:
        raise TypeError(f"{who}: group {k} is a dict with 'params', not {group!r}")
    settings = {name: value for name, value in group.items() if name != "params"}
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ValueError(
            f"{who}: group {k} sets {', '.join(map(repr, unknown))}; a group may set "
            f"{', '.join(known)}"
        )
    if "learning_rate" in settings:
        settings["learning_rate"] = as_rate(f"{who}: group {k}", settings["learning_rate"])
    return Group(_selected(who, k, group["params"]), tuple(settings.items()))


def as_rate(who: str, rate: Any) -> Any:
    """Return a learning rate in one of its forms; TypeError for anything else."""
    if isinstance(rate, (np.ndarray, np.generic)) and rate.ndim == 0:
        rate = rate.item()
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not is_number and not isinstance(rate, Variable) and not callable(rate):
        raise TypeError(
            f"{who}: learning_rate is a number, a scalar Variable or a schedule, not {rate!r}"
        )
    return rate


def _selected(who, k, params):
    if isinstance(params, str):
        try:
            re.compile(params)
        except re.error as error:
            raise ValueError(f"{who}: group {k}: {params!r} is no pattern: {error}") from None
        return params
    params = (params,) if isinstance(params, Variable) else params
    if isinstance(params, Iterable):
        params = tuple(dict.fromkeys(params))
        for v in params:
            if not isinstance(v, Variable) or not v.is_persistent:
                raise TypeError(f"{who}: group {k} has parameters, not {v!r}")
        return params
    if not callable(params):
        raise TypeError(
            f"{who}: params of group {k} are Variables, a pattern or a predicate, not {params!r}"
        )
    return params


def group_of(who: str, groups: Sequence[Group], w: Variable) -> Group | None:
    """Return the group of a parameter, None if it is in none; GraphError if it is in two."""
    own = [group for group in groups if group.has(w)]
    if len(own) > 1:
        raise GraphError(f"{who}: {w!r} is in two groups, {own[0]} and {own[1]}")
    return own[0] if own else None
