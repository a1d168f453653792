"""Gradients of steps that nobody has read: computed on demand.

`backward()` and `minimize()` are one program. Most loops clear the gradients before anybody reads
them, and to fetch them costs a step of small layers a tenth. So a step that has a pattern fetches
none. Whoever reads one before it is cleared, or changes what it depends on, has them computed: by
the same calls on the same values, with parameters as they were before the step. Steps of such a
pattern fetch them from then on.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any
from weakref import ref

import numpy as np

from ..graph.recording import not_recording
from ..graph.variable import Variable
from .gradient import Gradient, as_host
from .pattern import Pattern
from .recorded_node import RecordedNode
from .templates import Template

Ref = Any  # a weak reference to a Variable


class Unread:
    """The gradients of one step that are not computed, by whose they are.

    `tracked` are the places in the pattern of all that has one, `owners` those by references to the
    Variables that have it, without those that were cleared. `values` are those of the leaves,
    `templates` and `draws`, the identities of random draws, those of each call, `updated` what the
    step has changed, and `replaced` are values before it that went to reads in use.
    `compute(state, it)` computes them. A result that has one of them holds it, and with it the
    group.
    """

    __slots__ = (
        *("compute", "draws", "group", "owners", "pattern", "replaced", "tracked", "updated"),
        *("templates", "values"),
    )

    def __init__(
        self,
        compute: Callable[[Any, "Unread"], None],
        pattern: Pattern,
        group: "Group",
        templates: Sequence[Any],
        values: Sequence[Variable],
        draws: Sequence[Sequence[tuple]],
        owners: Iterable[Ref],
        tracked: Sequence[int],
        updated: Iterable[Ref],
        replaced: Mapping[Ref, Any],
    ) -> None:
        self.compute, self.pattern, self.values, self.tracked = compute, pattern, values, tracked
        self.owners, self.draws = dict(zip(owners, tracked, strict=True)), draws
        self.templates = templates
        self.updated, self.replaced = updated, replaced
        self.group: Group | None = group

    def end(self) -> None:
        """Let go of all: its gradients are computed, or nobody wants them."""
        self.group, self.values, self.replaced = None, (), {}

    def is_only_of_cost(self, gradients: MutableMapping[Variable, Any]) -> bool:
        """Return whether no gradient is left but that of the cost itself, and add that.

        It is one, and nobody clears it.
        """
        cost = None
        for reference, place in self.owners.items():
            v = reference()
            if v is not None and place != self.pattern.fetches[0]:
                return False
            cost = cost if v is None else v
        if cost is not None:
            shape, dtype = as_host(cost.eager_value).shape, cost.dtype
            gradients[cost] = Gradient(np.ones(shape, dtype) if shape else _one(dtype))
        return True

    def replayed(self, state: Any) -> tuple[Variable, dict[Variable, Variable]]:
        """Return the cost of the step, recorded again, and whose gradients are those of what.

        Nothing here refers to a result in between which nobody held: it would get a gradient.
        """
        pattern, places = self.pattern, {place: r() for r, place in self.owners.items()}
        pool: dict[int, Any] = {}
        for (place, leaf), x in zip(pattern.values, self.values, strict=True):
            pool[place] = x if leaf.constant is not None else _with_value(x, x.eager_value)
        for place, source in pattern.reads:
            v: Any = source()
            read = _with_value(v, self._before(state, v, source))
            read.__dict__.update(source=v, tracked=place in self.tracked, storage=state.storage)
            pool[place] = read
        _replay(pattern, pool, self.templates, self.draws)
        of = {pool[place]: v for place, v in places.items() if v is not None}
        # a read has the gradient of its parameter without being told
        return pool[pattern.fetches[0]], {x: v for x, v in of.items() if x.source is None}

    def _before(self, state: Any, v: Variable, reference: Ref) -> Any:
        if reference in self.replaced:
            return self.replaced[reference]
        store = state.session.store
        return store.before(v) if reference in set(self.updated) else store.current(v)


@cache
def _one(dtype: np.dtype) -> np.ndarray:
    """A scalar 1, which is only read."""
    return np.ones((), dtype)


class Group:
    """The parameters of a step, each of which holds it, so that all are there while one is.

    `unread` are the gradients of the last step that are not computed.
    """

    __slots__ = ("__weakref__", "members", "unread")

    def __init__(self, members: Sequence[Variable]) -> None:
        self.members = members
        self.unread: Unread | None = None


def group_of(state: Any, pattern: Pattern) -> Group:
    """Return the group of the parameters that a pattern reads."""
    group = None if pattern.group is None else pattern.group()
    if group is None:
        members: list[Any] = [source() for _, source in pattern.reads]
        known = state.groups.get(members[0]) or {}
        group = known.get(pattern.sources)
        if group is None:
            group = Group(members)
            for v in members:
                state.groups[v] = {**(state.groups.get(v) or {}), pattern.sources: group}
        pattern.group = ref(group)
    return group


def _with_value(v: Variable, value: Any) -> Variable:
    return Variable.of(v.dims, v.dtype, v.name, eager_value=value)


def _replay(
    pattern: Pattern,
    pool: dict[int, Any],
    templates: Sequence[Any],
    draws: Sequence[Sequence[tuple]],
) -> None:
    """Record the calls of a pattern again on leaves by place, and add their results by place.

    They draw the same numbers.
    """
    ends = [0]
    for count in [*pattern.living, *pattern.counts]:
        ends.append(ends[-1] + count)
    calls = len(pattern.templates)
    tracked = {place: is_tracked for place, _, is_tracked in pattern.computed}
    with not_recording():
        for k in range(calls - 1, -1, -1):
            first, end = ends[calls + k : calls + k + 2]
            inputs: Any = tuple([pool.get(place) for place in pattern.places[first:end]])
            template, detached = templates[calls - 1 - k], not pattern.flow[k]
            if isinstance(template, Template):
                made = template.replay(inputs, detached)
                if draws:
                    made[1].draws = draws[calls - 1 - k]
                results: list[Any] = [r() for r in made[1].alive]
            else:
                node = RecordedNode(template, inputs, detached)
                results = [node.output(i) for i in range(len(node.alive))]
            first, end = ends[k : k + 2]
            for place, y in zip(pattern.places[first:end], results, strict=True):
                if place != pattern.missing:
                    pool[place] = y
                    if not tracked[place]:  # a new value of a variable
                        y.__dict__["tracked"] = False
