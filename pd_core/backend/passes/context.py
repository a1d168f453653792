"""The contract of the passes: what a rule gets, and how rules are applied to a graph."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np

from ... import ops
from ...graph.node import Node, ancestors
from ...graph.rewrite import is_output_of, rewrite
from ...graph.size_reads import at_most, read_sizes
from ...graph.variable import Dim, Inputs, MaybeNone, Variable
from ..base import Length


@dataclass(frozen=True, eq=False)
class Context:
    """Facts about the program around a node that a rule may use.

    `targets` are the outputs of the program at the start of the walk. `sizes` are run-time sizes
    seen so far: a hint for the choice between equivalent forms, never a promise. `fed` are the
    sizes of the feeds, named ones included. `seed` is the int64 input of a program that
    draws random numbers: a row (session seed, step) for each of the keys `draws`, which may follow
    in a third column. `block` is the number of
    channels in a block of the CPU's convolution kernels, 0 if it has none. `contributed` are the
    operators outside ONNX that the runtime has. `lengths` are what rules have taken for short, see
    `is_short`. `cache` keeps what a rule has built in this walk and may use again.
    """

    targets: tuple[Variable, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    fed: frozenset[Dim] = frozenset()
    seed: Variable | MaybeNone = None
    draws: tuple[int, ...] = ()
    block: int = 0
    contributed: frozenset[str] = frozenset()
    lengths: list[Length] = field(default_factory=list)
    cache: dict = field(default_factory=dict, init=False, repr=False)

    def before(self, targets: Sequence[Variable]) -> "Context":
        """Return the facts for a walk over these targets; some are known if they are the same."""
        targets = tuple(targets)
        facts = {**vars(self), "targets": targets, "cache": {}}
        if targets != self.targets:
            for name in _OF_TARGETS:
                facts.pop(name, None)
        context = object.__new__(Context)  # `replace` takes 10 µs, for each of forty walks
        vars(context).update(facts)
        return context

    @cached_property
    def order(self) -> Sequence[Node]:
        """The nodes behind the targets, each after those that it needs."""
        return ancestors(self.targets)

    @cached_property
    def op_types(self) -> set[str]:
        """The operator types behind the targets, bodies included."""
        return _op_types(self.order)

    @cached_property
    def uses(self) -> Counter:
        """The number of times each variable is read, as a target or by a node outside bodies."""
        uses = Counter(chain.from_iterable([node.inputs for node in self.order]))
        uses.update(self.targets)
        return uses

    @cached_property
    def readers(self) -> Mapping[Variable, Sequence[Node]]:
        """The nodes outside bodies that read each variable, once for each time that they do."""
        readers = defaultdict(list)
        for node in self.order:
            for x in node.inputs:
                readers[x].append(node)
        return readers

    def size(self, dim: Dim, default: int | None = None) -> int | None:
        """Return a size as a number: the known one, or the one last seen at run time."""
        return dim if isinstance(dim, int) else self.sizes.get(dim, default)

    def elements(self, x: Variable) -> int | None:
        """Return how many elements x has, or had when the program ran last; None if unknown."""
        sizes = [n for d in x.dims if (n := self.size(d)) is not None]
        if len(sizes) == x.rank:
            return prod(sizes)
        return self.elements(x.node.inputs[0]) if is_output_of(x, "Reshape") else None

    def has_fewer(self, x: Variable, count: int) -> bool:
        """Return whether x is known to have, or had when the program ran last, fewer elements."""
        dims = x.symbolic_dims
        hints = [self.sizes.get(d) for d in dims if isinstance(d, str)]
        sizes = [n for n in hints if n is not None]
        if len(sizes) == len(hints):
            return at_most(dims, count - 1, prod(sizes))
        return is_output_of(x, "Reshape") and self.has_fewer(x.node.inputs[0], count)

    def is_short(self, dims: Sequence[Dim], most: int) -> bool:
        """Return whether axes have so many elements at most, by their sizes or the hints.

        Where it is a hint, the program is compiled anew for feeds for which it does not hold.
        """
        unknown = tuple(d for d in dims if isinstance(d, str))
        sizes = [n for d in unknown if (n := self.size(d)) is not None]
        if len(sizes) < len(unknown) or not at_most(dims, most, prod(sizes)):
            return False
        if unknown:
            read_sizes(dims)
            self.lengths.append((prod(d for d in dims if isinstance(d, int)), unknown, most))
        return True

    def cached(self, key: Hashable, make: Callable[[], Variable]) -> Variable:
        """Return what `make` has returned for this key in this walk; call it the first time."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def seed_row(self, key: int) -> Variable:
        """Return the row of the seed that belongs to a random draw."""
        return ops.gather(self.seed, np.int64(self.draws.index(key)))


_OF_TARGETS = {"order", "op_types", "uses", "readers"}

Outputs = Sequence[Variable] | None  # what a rule returns
Rule = Callable[[Node, Inputs, Context], Outputs]
Pass = Callable[[Sequence[Variable], Context], list[Variable]]


@dataclass(frozen=True, eq=False)
class each_node:
    """The pass that applies a rule, or rules by operator type, to every node in one walk.

    Nodes that a rule has built are not visited in the same walk. `beside` are operator types one
    of which the graph must have for any rule to apply: a walk that cannot find anything is left
    out.
    """

    rules: Rule | Mapping[str, Rule]
    beside: frozenset[str] = frozenset()

    def __call__(self, targets: Sequence[Variable], context: Context) -> list[Variable]:
        context = context.before(targets)

        rules = self.rules
        if not isinstance(rules, Mapping):
            return rewrite(
                targets, lambda node, inputs: rules(node, inputs, context), order=context.order
            )

        def chosen(node, inputs):
            return rules[node.op_type](node, inputs, context)

        return rewrite(targets, chosen, only=rules.keys(), order=context.order)

    def applies(self, op_types: set[str]) -> bool:
        """Whether a graph of these operators can have a node that a rule replaces."""
        if self.beside and op_types.isdisjoint(self.beside):
            return False
        return not isinstance(self.rules, Mapping) or not op_types.isdisjoint(self.rules)


def apply_passes(
    targets: Sequence[Variable], passes: Iterable[Pass], context: Context
) -> list[Variable]:
    """Return the targets after the passes, applied in their order."""
    targets, context = list(targets), context.before(targets)
    for each in passes:
        if isinstance(each, each_node) and not each.applies(context.op_types):
            continue
        after = each(targets, context)
        if after != targets:
            targets, context = after, context.before(after)
    return targets


def _op_types(order) -> set[str]:
    """The operator types of nodes, bodies included."""
    op_types = {node.op_type for node in order}
    for blocks in [node.blocks for node in order if node.blocks]:
        for block in blocks.values():
            op_types |= _op_types(ancestors(block.outputs, set(block.inputs)))
    return op_types
