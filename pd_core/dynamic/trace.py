"""Traces: what was recorded behind some targets, as the key of its program."""

from collections.abc import Mapping, Sequence
from sys import getrefcount
from typing import Any

from ..graph.errors import GraphError, NotComputed
from ..graph.node import Node
from ..graph.recorded import Recorded, type_key
from ..graph.site import site_text
from ..graph.variable import Variable
from ..run.structure import STATE, Structure


class Trace(Structure):
    """The graph behind targets, up to values that are known.

    With `through`, known values that gradients flow through are computed again. `operands` are
    leaves that the program takes besides. `fetches` are the targets and all Variables of the graph
    that somebody else holds, who may ask for their values; `assigned` are the (persistent variable,
    pending value) pairs that belong to the graph.
    """

    def __init__(
        self,
        targets: Sequence[Variable],
        pending: Mapping[Variable, Any],
        through: bool,
        operands: Sequence[Variable] = (),
    ) -> None:
        self._begin(set(), False)
        self.targets, self.through = list(dict.fromkeys(targets)), through
        order: list[Node] = []
        seen: set[Node] = set()
        self._walk(self.targets, order, seen)
        self.assigned = []
        if pending:
            self.assigned = [(v, p) for v, p in pending.items() if p.node in seen]
            self._walk([p.value for _, p in self.assigned], order, seen)
        self.order = order
        self._uses: dict[Variable, int] = {}
        self._add(order)
        held, self.flows = self._held()
        self.fetches = [*self.targets, *held]
        self.updates = [(v, p.value) for v, p in self.assigned]
        self._finish(self.fetches, self.updates, operands)
        self.states = [v for v in self.leaves if v.fill is not None and v.held is None]

    def _add(self, order):
        """Append nodes to the key as `Structure` does, and count the uses of each Variable."""
        numbers, key, uses = self._numbers, self._key, self._uses
        for node in order:
            if type(node) is not Recorded or node.blocks or node.op_type == "Uniform":
                super()._add((node,))
                for x in node.inputs:
                    if x is not None:
                        uses[x] = uses.get(x, 0) + 1
                continue
            form, inputs = node.form, []
            for x in node.inputs:
                if x is None:
                    inputs.append(-1)
                else:
                    inputs.append(numbers.get(x) or self._number(x))
                    uses[x] = uses.get(x, 0) + 1
            key.append(form.kind)
            key.append(tuple(inputs))
            for k, (dims, dtype) in enumerate(form.types):
                self._count += 1
                reference = node.alive[k]
                y = None if reference is None else reference()
                if y is not None:
                    numbers[y] = self._count
                if form.numbered[k]:
                    key.append(dims)
                else:
                    key.append(self._dims.get(dims) or self._sized(dims))
                if form.domain:
                    key.append(dtype.num)

    def _number(self, v):
        """The number of a Variable; a read of state has that of the state."""
        source = v.source
        if source is None or v.held is not None:
            return super()._number(v)
        number = self._numbers.get(v)
        if number is None:
            number = self._numbers.get(source)
            if number is None:
                self._count += 1
                number = self._numbers[source] = self._count
                self.leaves.append(source)
                self._key.append((STATE, *type_key(source)))
            self._numbers[v] = number
            self.reads[v] = source
        return number

    def _walk(self, targets, order, seen):
        """Append the nodes behind targets, each after those that it needs."""
        through = self.through
        stack: list[Any] = []
        for v in reversed(targets):
            if v.node is not None and (v.held is None or (through and v.tracked)):
                stack.append(v.node)
        while stack:
            node = stack.pop()
            if node is None:  # all inputs of the node below it are in order
                order.append(stack.pop())
            elif node not in seen:
                seen.add(node)
                stack.append(node)
                stack.append(None)
                for x in node.inputs:
                    if (
                        x is not None
                        and x.node is not None
                        and x.node not in seen
                        and (x.held is None or (through and x.tracked))
                    ):
                        stack.append(x.node)

    def _held(self):
        """The Variables that somebody else holds, and for each node whether gradients pass.

        Such a Variable has more references than the inputs of the nodes in this trace, the table
        of numbers and this function. A reference too many costs the output of a value that nobody
        looks at.
        """
        uses = self._uses
        for _, p in self.assigned:
            uses[p.value] = uses.get(p.value, 0) + 1
        targets = set(self.targets)
        # references: itself, the argument, the keys of `uses`, of the numbers, of the reads here,
        # and the table of the state
        self.read_elsewhere = [
            c.source
            for c in self.reads
            if c.row_sparse and getrefcount(c) - uses.get(c, 0) > 5 + (c in uses)
        ]
        held, flows = [], []
        for node in self.order:
            if type(node) is not Recorded:
                continue
            flows.append(node.tracked)
            for reference in node.alive:
                y = None if reference is None else reference()
                if y is None:
                    continue
                if node.tracked and not y.tracked:
                    flows.append(self._numbers[y])
                # y itself, the argument, the keys of `uses` and of the numbers
                if getrefcount(y) - uses.get(y, 0) > 3 + (y in uses) and y not in targets:
                    held.append(y)
        return held, tuple(flows)

    def number(self, v: Variable) -> int:
        """Return the number of a Variable in the key."""
        return self._numbers[v]

    def check(self) -> None:
        """Check that every leaf has a value."""
        for v in self.leaves:
            if v.held is None and not v.is_persistent:
                line = f"\n  created at {site_text(v.site)}" if v.site else ""
                raise NotComputed(f"there is no value for {v!r}, which is not fed{line}")

    def check_history(self) -> None:
        """Check that no gradient would end where an earlier `backward` ended the graph."""
        for v in self.leaves:
            if v.__dict__.get("consumed"):
                raise GraphError(
                    f"the graph behind {v!r} ended with an earlier backward() or minimize()\n"
                    "  hint: retain_graph=True there keeps it, detach() takes the value alone"
                )

    def release(self) -> None:
        """Drop the references to the graph, so that what nobody holds is freed."""
        self.order, self.leaves = [], []
        self._numbers, self.reads, self._uses = {}, {}, {}
        self.assigned, self.updates, self.fetches, self.targets = [], [], [], []
