"""Assignments to persistent variables in bodies of loops and branches, such as moving statistics.

A loop carries the value as a state from step to step, and stores that after the last one.
"""

from collections.abc import Callable, Iterable, Sequence

from ..graph.node import Node, ancestors
from ..graph.recording import recorder
from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .mode import in_body, mode_switch, stop_gradient


class Carried:
    """The assignments of a body, in their order: pairs of a persistent variable and its value."""

    def __init__(self, pairs: Sequence[tuple[Variable, Variable]]) -> None:
        self.pairs = pairs
        self.variables = list(dict.fromkeys(v for v, _ in pairs))

    @property
    def count(self) -> int:
        """The number of states that a loop has for them."""
        return len(self.variables)

    def joined(
        self, states: list[Variable], block_inputs: list[Variable], new: list[Variable]
    ) -> tuple[list[Variable], list[Variable], list[Variable]]:
        """Return initial states, their block inputs and new values, with those of the variables."""
        held = [Variable.of(v.dims, v.dtype, v.name) for v in self.variables]
        after = self.after(self.variables, held)
        return [*states, *self.variables], [*block_inputs, *held], [*new, *after]

    def after(self, variables: Sequence[Variable], before: Sequence[Variable]) -> list[Variable]:
        """Return what variables are after a step, from what they are before it.

        In inference they stay what they are.
        """
        values = dict(zip(variables, before, strict=True))
        for v, value in self.pairs:
            values[v] = stop_gradient(_reading(value, v, values[v]))
        changed = set(self.variables)
        return [
            mode_switch(values[v], b) if v in changed else b
            for v, b in zip(variables, before, strict=True)
        ]

    def assigned(self, out: tuple[Variable, ...], states: int) -> tuple[Variable, ...]:
        """Return the results of a loop without the last states, which are assigned with them."""
        if not self.pairs:
            return out
        first = states - self.count
        return assigning((*out[:first], *out[states:]), self.variables, out[first:states])


def carried(
    outputs: Iterable[Variable],
    block_inputs: Iterable[Variable],
    inside: Callable[[Node], bool] | None = None,
) -> Carried:
    """Return what the nodes of a body assign: those that need its inputs, or that are `inside`."""
    reached = set(block_inputs)
    order = ancestors(outputs, stop=set(reached))
    pairs = []
    if any(node.effects for node in order):
        for node in order:
            if (inside is not None and inside(node)) or not reached.isdisjoint(node.inputs):
                reached.update(node.outputs)
                pairs += [(a.variable, a.value) for a in node.effects]
    return Carried(list(dict.fromkeys(pairs)))  # those of a loop are with each of its results


def assigning(
    results: tuple[Variable, ...], variables: Sequence[Variable], values: Sequence[Variable]
) -> tuple[Variable, ...]:
    """Return results with which variables take values, in a training step."""
    if not variables:
        return results
    effects = list(zip(variables, values, strict=True))
    if recorder() is not None and not in_body():
        return (mode_switch(results[0], results[0], effects), *results[1:])
    return tuple([mode_switch(y, y, effects) for y in results])


def _reading(value: Variable, v: Variable, current: Variable) -> Variable:
    """Return a value that reads `current` wherever it reads the variable v."""
    read = [x for node in ancestors([value]) for x in node.inputs if x is not None]
    own = {x: current for x in (*read, value) if x is v or x.source is v}
    return substitute([value], own)[0] if own else value
