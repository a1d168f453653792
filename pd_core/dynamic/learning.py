"""Templates of ops, learned in their first call, by which the next calls are recorded at once."""

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.nested import variables_in
from ..graph.owned import Owned
from ..graph.variable import Variable
from ..ops.mode import in_body
from ..ops.ranks import batch_norm_is_synchronized
from .recorded_call import RecordedCall
from .state import Assigned, State
from .templates import Template, keep, key_of, make, read_besides, without_bodies


class Watched(list[tuple | None]):
    """The calls of templates in a running call of a layer, with None for anything else recorded.

    `assigned` are its assignments to persistent variables.
    """

    __slots__ = ("assigned",)

    def __init__(self) -> None:
        self.assigned: list[Assigned] = []


def drawn_by(calls: Sequence[tuple]) -> list[tuple[int, int, int]] | None:
    """Return the identities of the draws of replayed calls; None if some is computed already."""
    draws: list[tuple[int, int, int]] = []
    for template, _, result, _ in calls:
        if template.draws:
            node = result.__dict__.get("node")
            if type(node) is not RecordedCall:
                return None
            draws += node.draws
    return draws


def may_replay(template: Template, variables: Sequence[Variable | None]) -> bool:
    """Whether what a template changes is as it was where it was made."""
    return not template.effects or (
        not in_body()
        and not batch_norm_is_synchronized()
        and all(getattr(variables[i], "initial", None) is not None for i, _ in template.effects)
    )


class Learning:
    """The nodes, prefixes of random draws and assignments that the running op has added so far."""

    __slots__ = ("added", "assigned", "named")

    def __init__(self) -> None:
        self.added: list[Any] = []
        self.named: list[str] = []
        self.assigned: list[Assigned] = []

    @property
    def has_blocks(self) -> bool:
        """Whether there are loops or branches."""
        return any(node.form.blocks for node in self.added)

    def may_be_kept(self, gradients: bool) -> bool:
        """Return whether a template of these nodes is that of all equal calls.

        Bodies of loops that are recorded without gradients have none anywhere; what is assigned in
        a body is assigned by its loop.
        """
        if in_body() and any(node.form.effects for node in self.added):
            return False
        return gradients or not self.has_blocks

    def template(
        self,
        state: State,
        function: Callable,
        args: Sequence,
        kwargs: dict,
        result: Any,
        in_layer: bool,
    ) -> tuple[Template, Sequence[Variable]] | None:
        """Return the template of the call, and its Variables; None if it has none.

        With one, what was assigned is taken back: a call of the template assigns it. Parameters
        that the call has built stand in their places. `in_layer` is whether it is that of a layer
        of ours, which knows what else it reads.
        """
        args = [_built(a) for a in args]
        kwargs = {k: _built(a) for k, a in kwargs.items()}
        key, variables = key_of(function, args, kwargs)
        if key is None or not state.take_back(self.assigned):
            return None
        added, assigned = self.added, self.assigned
        if self.has_blocks:
            targets = [*variables_in(result), *[a.pending.value for a in assigned]]
            added = self.added = without_bodies(added, targets, variables)
        implicit = None
        if in_layer:
            implicit = read_besides(added, variables, [a.variable for a in assigned])
        if implicit is not None:
            variables = implicit
        inputs = [v if v.initial is None else state.read(v) for v in variables]
        effects = _effects(assigned, added, variables)
        template = None
        if effects is not None:
            template = make(key, inputs, added, result, self.named, effects)
            if implicit is None:  # otherwise it is of this layer alone
                keep(key, template)
        if template is not None:
            return template, variables
        for a in assigned:
            state.assign(a.pending.node, [(a.variable, a.pending.value)])
        return None


def _effects(
    assigned: Sequence[Assigned], added: Sequence[Any], variables: Sequence[Variable]
) -> list[tuple[int, Variable]] | None:
    """The index and the new value of each variable of an op that changes.

    None if it changes others, or with other nodes than its own.
    """
    if not assigned:
        return []
    latest = {a.variable: a.pending.value for a in assigned}
    if batch_norm_is_synchronized() or any(a.pending.node not in added for a in assigned):
        return None
    if any(v not in variables for v in latest):
        return None
    return [(variables.index(v), value) for v, value in latest.items()]


def _built(a: Any) -> Any:
    return a.built if type(a) is Owned and a.built is not None else a
