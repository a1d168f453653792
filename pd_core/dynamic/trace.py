"""Traces: what was recorded behind some targets, as the key of its program."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from sys import getrefcount
from typing import Any, cast

from ..gradients import zeros
from ..graph.errors import GraphError, NotComputed
from ..graph.node import Block, Node
from ..graph.site import site_text
from ..graph.variable import Variable, describe
from ..ops.mode import SEGMENTS
from ..run.structure import FED, STATE, Structure
from .recorded_call import RecordedCall
from .recorded_node import RecordedNode, type_key

_MOST_NOTES = 16
_SERIAL = attrgetter("serial")


def label(v: Variable) -> str:
    """Return name and type of a Variable, without its value."""
    return f"{v.name}: {describe(v)}"


def _state_key(v: Variable) -> tuple:
    """The entry of persistent state in a key."""
    key = v.__dict__["state_key"] = STATE, *type_key(v)
    return key


def is_reached(node: Any, nodes: AbstractSet[Any]) -> bool:
    """Return whether a node is among others; of a call that has made its nodes, one of these."""
    if node in nodes:
        return True
    return type(node) is RecordedCall and node.is_made and not nodes.isdisjoint(node.nodes)


def is_assigned(pending: Any, nodes: AbstractSet[Any]) -> bool:
    """Return whether a pending value is due with nodes, or computed by them."""
    return is_reached(pending.node, nodes) or pending.value.__dict__.get("node") in nodes


def _is_any(references: Iterable[Any], variables: AbstractSet[Variable]) -> bool:
    for reference in references:
        y = None if reference is None else reference()
        if y is not None and y in variables:
            return True
    return False


class Trace(Structure):
    """The graph behind targets, up to values that are known.

    With `through`, known values that gradients flow through are computed again. `operands` are
    leaves that the program takes besides. `fetches` are the targets and all Variables of the graph
    that somebody else holds, who may ask for their values; `assigned` are the (persistent variable,
    pending value) pairs that belong to the graph.
    """

    has_marks = True
    pattern: Any = None  # a Pattern that it fits
    has_sizes_of_pattern = True  # whether this was made for a trace of the same sizes
    places: dict[Variable, int]  # in that, of a trace that a pattern is made of
    values: Sequence[Variable] = ()  # the leaves in that which are no state

    def __init__(
        self,
        targets: Sequence[Variable],
        state: Any,
        through: bool,
        operands: Sequence[Variable] = (),
    ) -> None:
        self._begin(set(), False)
        self._storage, pending = state.storage, state.pending
        self.targets, self.through = list(dict.fromkeys(targets)), through
        self.ends: list[Variable] = []  # leaves where an earlier `backward` ended the graph
        seen: set[Node] = set()
        self._reach(self.targets, seen)
        self.assigned: list[tuple[Variable, Any]] = []
        waiting = list(pending.items())  # a copy, for other threads add to it
        while waiting:  # what a new value needs may be due to assign others
            found = [(v, p) for v, p in waiting if is_assigned(p, seen)]
            if not found:
                break
            self.assigned += found
            waiting = [(v, p) for v, p in waiting if not is_assigned(p, seen)]
            self._reach([p.value for _, p in found], seen)
        self.order: Sequence[Any] = sorted(
            seen, key=_SERIAL
        )  # a node is younger than those that it needs
        self._uses: dict[int, int] = defaultdict(int)  # by number: inputs of nodes in the trace
        self._outputs: list[tuple[Any, Variable, int]] = []  # those that there are
        self._flows: list[int] = []  # of each node what has gradients
        self._add(self.order)
        held = self._held()
        self._outputs, self.flows = [], (*self._flows,)
        self.fetches = [*self.targets, *held]
        self.updates = [(v, p.value) for v, p in self.assigned]
        self._finish(self.fetches, self.updates, operands)
        self.states = [v for v in self.leaves if v.initial is not None and v.eager_value is None]

    def _reach(self, targets: Sequence[Variable], seen: set[Node]) -> None:
        """Add the nodes behind targets."""
        through, stack = self.through, list(targets)
        while stack:
            v = stack.pop()
            node = v.__dict__.get("node")
            if (
                node is None
                or node in seen
                or (v.eager_value is not None and not (through and v.tracked))
            ):
                continue
            seen.add(node)
            stack += [x for x in node.inputs if x is not None and "node" in x.__dict__]

    def _add(self, order: Iterable[Any]) -> None:
        """Append nodes to the key as `Structure` does, and count the uses of each Variable.

        One loop, since it is most of what a step costs besides its program.
        """
        numbers, key, uses, sized = self._numbers, self._key, self._uses, self._dims
        flows, outputs = self._flows, self._outputs
        for node in order:
            kind = type(node)
            if kind is RecordedCall:
                template, sizes = node.template, self._sizes
                inputs = [numbers.get(x) or self._number(x) for x in node.inputs]
                key += (template.kind, tuple(inputs))
                if template.has_blocks:
                    self.has_blocks = True
                if template.sizes:
                    key += [sizes.setdefault(d, len(sizes)) for d in template.sizes]
                if template.draws:
                    draws = self._draws
                    key += [draws.setdefault(d, len(draws)) for d in node.draws]
                flows.append(-1 - node.flow)  # other numbers are 0 or above
            elif kind is not RecordedNode or node.form.blocks or node.form.op_type == "Uniform":
                super()._add((node,))
                for x in node.inputs:
                    if x is not None:
                        uses[numbers[x]] += 1
                if kind is RecordedNode:
                    flows.append(node.tracked)
                    for reference in node.alive:
                        y = None if reference is None else reference()
                        if y is not None and y.__dict__["node"] is None:
                            del numbers[y]  # as below
                        elif y is not None:
                            outputs.append((node, y, numbers[y]))
                continue
            else:
                form = node.form
                inputs = [
                    -1 if x is None else numbers.get(x) or self._number(x) for x in node.inputs
                ]
                key += (form.kind, tuple(inputs))
                for (dims, dtype), numbered in zip(form.types, form.numbered, strict=True):
                    key.append(dims if numbered else sized.get(dims) or self._sized(dims))
                    if form.domain:
                        key.append(dtype.num)
                flows.append(node.tracked)
            for number in inputs:
                uses[number] += 1
            for reference in node.alive:
                self._count += 1
                y = None if reference is None else reference()
                # one that was computed, and ends there, is a leaf where it is read
                if y is not None and y.__dict__["node"] is not None:
                    numbers[y] = self._count
                    outputs.append((node, y, self._count))

    def _add_block(self, name: str, block: Block) -> None:
        """Append the body of a loop, where nothing is held and no gradient is told apart."""
        flows, outputs = self._flows, self._outputs
        self._flows, self._outputs = [], []
        super()._add_block(name, block)
        self._flows, self._outputs = flows, outputs

    def _number(self, v: Variable) -> int:
        """The number of a Variable; a read of state has that of the state."""
        attributes, numbers = v.__dict__, self._numbers
        source, value = attributes.get("source"), attributes.get("eager_value")
        if source is not None and value is None and v.storage is not self._storage:
            state = cast(Any, v.storage.state)()
            if state is None:
                raise NotComputed(
                    f"the session of {label(source)} was dropped before this value was computed\n"
                    "  hint: look at values before pd.reset()"
                )
            state.keep(v)  # a value of another session
            value = v.eager_value
        if value is not None:
            if v.history.ended:
                self.ends.append(v)
            if "value" in attributes or v in numbers:
                return super()._number(v)
            dims = v.dims
            self._key.append((FED, v.dtype.num, self._dims.get(dims) or self._sized(dims)))
            self._count += 1
            self.leaves.append(v)
            numbers[v] = self._count
            return self._count
        if source is None:
            return super()._number(v)
        number = numbers.get(source)
        if number is None:
            self._count += 1
            number = numbers[source] = self._count
            self.leaves.append(source)
            self._key.append(source.__dict__.get("state_key") or _state_key(source))
        numbers[v] = number
        self.reads[v] = source
        return number

    def _held(self) -> list[Variable]:
        """The Variables that somebody else holds; whether gradients pass them is noted too.

        Such a Variable has more references than the inputs of the nodes in this trace, the tables
        of numbers and outputs, and this function. A reference too many costs the output of a value
        that nobody looks at.
        """
        uses, numbers, targets, flows = self._uses, self._numbers, self.targets, self._flows
        for _, p in self.assigned:
            uses[numbers[p.value]] += 1
        # references: itself, the argument, the keys of the numbers and of the reads here, and the
        # table of the state
        self.read_elsewhere = [
            c.source
            for c in self.reads
            if c.options.row_sparse and getrefcount(c) - uses[numbers[c]] > 5
        ]
        held: list[Variable] = []
        for node, y, number in self._outputs:
            if node.tracked and not y.tracked:
                flows.append(number)
            # y itself, the argument, the key of the numbers and the tuple
            if getrefcount(y) - uses[number] > 4 and y not in targets:
                held.append(y)
        return held

    def differentiated(self) -> set[Variable]:
        """Return the Variables that gradients flow to from the targets."""
        reached = {v for v in self.targets if v.tracked}
        for node in reversed(self.order):
            kind: Any = type(node)
            if kind is RecordedNode or kind is RecordedCall:
                if not node.tracked or not _is_any(node.alive, reached):
                    continue
            elif reached.isdisjoint(node.outputs):
                continue
            inputs = node.gradient_inputs if kind is RecordedCall else node.inputs
            reached.update([x for x in inputs if x is not None and x.tracked])
        return reached

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order, with those of each call."""
        nodes: list[Node] = []
        for node in self.order:
            nodes += node.nodes if type(node) is RecordedCall else (node,)
        return nodes

    def arrays(self, leaves: Sequence[int]) -> list[Any]:
        """Return the values of the leaves of these numbers, all of which have one."""
        return [self.leaves[k].eager_value for k in leaves]

    def number(self, v: Variable) -> int:
        """Return the number of a Variable in the key."""
        return self._numbers[v]

    def place(self, v: Variable) -> int:
        """Return the place of a Variable in the pattern."""
        return self.places[v]

    def noted(self, key: tuple) -> Any:
        """Return what was noted of traces of its pattern, None without one."""
        return None if self.pattern is None else self.pattern.notes.get(key)

    def note(self, key: tuple, value: Any) -> None:
        """Note something of traces of its pattern, if it has one."""
        if self.pattern is not None:
            if len(self.pattern.notes) >= _MOST_NOTES:
                self.pattern.notes.clear()
            self.pattern.notes[key] = value

    def check(self) -> None:
        """Check that every leaf has a value."""
        for v in self.leaves:
            if v.eager_value is None and not v.is_persistent:
                line = f"\n  created at {site_text(v.site)}" if v.site else ""
                raise NotComputed(f"there is no value for {v!r}, which is not fed{line}")

    def check_history(self) -> None:
        """Check that no gradient would end where an earlier `backward` ended the graph."""
        stale = self.stale()
        for v in self.targets:
            if v in stale:
                raise GraphError(
                    f"the graph behind {label(stale[v])} ended with an earlier backward() or "
                    "minimize()\n"
                    "  hint: retain_graph=True there keeps it, detach() takes the value alone"
                )

    def stale(self) -> dict[Variable, Variable]:
        """Return the Variables whose gradients would flow to where the graph ended, with that."""
        stale = {v: v for v in self.ends}
        if not stale:
            return stale
        for node in self.nodes:
            # what only the vjp of a custom gradient reads gets none
            inputs = node.inputs[: len(node.inputs) - len(node.captures)]
            inputs = inputs if node.op_type in SEGMENTS else node.inputs
            end = next((stale[x] for x in inputs if x in stale), None)
            if end is None or node.op_type in zeros or getattr(node, "detached", False):
                continue
            for y in node.outputs:
                if y.dtype.kind == "f" and y.__dict__.get("tracked") is not False:
                    stale[y] = end
        return stale

    def release(self) -> None:
        """Drop the references to the graph, so that what nobody holds is freed."""
        self.order, self.leaves = [], []
        self._numbers, self.reads, self.places, self.values = {}, {}, {}, ()
        self.assigned, self.updates, self.fetches, self.targets = [], [], [], []
