"""The contract of the passes: what a rule gets, and how rules are applied to a graph."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ... import ops
from ...graph.node import Node, ancestors
from ...graph.rewrite import rewrite
from ...graph.variable import Dim, Variable


@dataclass(frozen=True, eq=False)
class Context:
    """What a rule may know about the program around a node.

    `targets` are the outputs of the program at the start of the walk. `sizes` are run-time sizes
    seen so far: a hint for the choice between equivalent forms, never a promise. `fed` are the
    sizes of the feeds, named ones included. `seed` is the int64 input of a program that
    draws random numbers: a row (session seed, step) for each of the keys `draws`, which may follow
    in a third column. `block` is the number of
    channels in a block of the CPU's convolution kernels, 0 if it has none. `cache` keeps what a
    rule has built in this walk and may use again.
    """

    targets: tuple[Variable, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    fed: frozenset[Dim] = frozenset()
    seed: Variable | None = None
    draws: tuple[int, ...] = ()
    block: int = 0
    cache: dict = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def uses(self) -> Counter:
        """The number of times each variable is read, as a target or by a node outside bodies."""
        uses = Counter(x for node in ancestors(self.targets) for x in node.inputs)
        uses.update(self.targets)
        return uses

    def size(self, dim: Dim, default: int | None = None) -> int | None:
        """Return a size as a number: the known one, or the one last seen at run time."""
        return dim if isinstance(dim, int) else self.sizes.get(dim, default)

    def seed_row(self, key: int) -> Variable:
        """Return the row of the seed that belongs to a random draw."""
        return ops.gather(self.seed, np.int64(self.draws.index(key)))


Rule = Callable[[Node, tuple[Variable | None, ...], Context], Sequence[Variable] | None]
Pass = Callable[[Sequence[Variable], Context], list[Variable]]


def each_node(rule: Rule | Mapping[str, Rule]) -> Pass:
    """Return the pass that applies a rule to every node in one walk.

    A mapping holds a rule for each of several operator types. Nodes that a rule has built are
    not visited in the same walk.
    """

    def run(targets, context):
        context = replace(context, targets=tuple(targets))

        def bound(node, inputs):
            chosen = rule.get(node.op_type) if isinstance(rule, Mapping) else rule
            return None if chosen is None else chosen(node, inputs, context)

        return rewrite(targets, bound)

    return run


def apply_passes(
    targets: Sequence[Variable], passes: Iterable[Pass], context: Context
) -> list[Variable]:
    """Return the targets after the passes, applied in their order."""
    for each in passes:
        targets = each(targets, context)
    return list(targets)
