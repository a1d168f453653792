"""Patterns: traces that a loop records again and again, recognised without tracing them.

A trace walks through what was recorded, sorts it and builds a key of it. In a loop the next one is
nearly always equal to one before. A pattern is what has to be so for that: the same operators
wired in the same way, on leaves of the same types, with the same values held. To check it takes a
quarter of the time, and what follows from the trace is known from the time before.
"""

from collections.abc import Sequence
from sys import getrefcount
from typing import Any
from weakref import ref

from ..graph.variable import Variable
from .recorded_call import RecordedCall
from .recorded_node import RecordedNode, type_key
from .trace import Trace

_MOST = 4  # patterns that end with the same operator
_CREDIT = 8  # patterns that are made without one that is met again
_MOST_CREDIT = 64


class _Leaf:
    """A leaf of a pattern: a read of persistent state, a constant, or a value of a certain type."""

    __slots__ = ("constant", "source", "type")

    def __init__(self, x: Variable) -> None:
        self.constant, self.source, self.type = x if x.value is not None else None, None, None
        if x.eager_value is not None:
            self.type = type_key(x)
        elif x.source is not None:
            self.source = ref(x.source)

    def fits(self, x: Variable, attributes: dict[str, Any], through: bool) -> bool:
        """Return whether a Variable may take the place of the leaf, which is no state."""
        if self.constant is not None:
            return x.value is not None and x.content == self.constant.content
        value = attributes.get("eager_value")
        if value is None or x.value is not None or x.history.ended:
            return False
        if through and x.tracked and attributes.get("node") is not None:
            return False  # it is computed again
        return (attributes.get("type_key") or type_key(x)) == self.type


class Pattern:
    """The nodes of a trace with what their inputs are, and its leaves.

    Variables have places, by which `notes` of whoever evaluates such traces refer to them.
    """

    def __init__(self, trace: Trace) -> None:
        self.through, self.notes = trace.through, dict[tuple, Any]()
        self.key, self.flows, self.sizes = trace.key, trace.flows, trace.sizes
        # the name, the compiler and a reference to the plan of the last evaluation
        self.plan: tuple[Any, Any, Any] | None = None
        places: dict[Variable, int] = {}
        self.nodes: list[tuple] = []
        for node in trace.order:
            inputs = [-1 if x is None else places.setdefault(x, len(places)) for x in node.inputs]
            living = [None if r is None else r() for r in node.alive]
            outputs = [-1 if y is None else places.setdefault(y, len(places)) for y in living]
            is_call = type(node) is RecordedCall
            what, flow = (node.template, node.flow) if is_call else (node.form, node.tracked)
            tracked = [y is not None and y.tracked for y in living]
            self.nodes.append((type(node), what, flow, inputs, outputs, tracked))
        # of each place the node that computes it, or a leaf
        self.origins: list[Any] = [None] * len(places)
        for number, (*_, outputs, _) in enumerate(self.nodes):
            for place in outputs:
                if place >= 0:
                    self.origins[place] = number
        self.uses = [0] * len(places)
        for _, _, _, inputs, _, _ in self.nodes:
            for place in inputs:
                if place >= 0:
                    self.uses[place] += 1
        for v, place in places.items():
            if self.origins[place] is None:
                self.origins[place] = _Leaf(v)
        targets = {places[v] for v in trace.targets}
        # from the last node on: its number and kind, its template or form, its flow, the places
        # of inputs, and of outputs the place, the number of references that is not exceeded if
        # nobody else holds it (-1 for a target), and whether they have gradients
        self.backwards: list[tuple] = []
        for number, (kind, what, flow, inputs, outputs, tracked) in enumerate(self.nodes):
            more = [
                (place, -1 if place in targets else self.uses[place] + 3, is_tracked)
                for place, is_tracked in zip(outputs, tracked, strict=True)
            ]
            self.backwards.insert(0, (number, kind, what, flow, inputs, more))
        fetched = set(trace.fetches[len(trace.targets) :])
        self.held = [v in fetched for v in places]
        self.targets = [places[v] for v in trace.targets]
        self.fetches = [places[v] for v in trace.fetches]
        own = {v.source if v in trace.reads else v: place for v, place in places.items()}
        self.leaves = [own[v] for v in trace.leaves]
        self.numbers = [trace.number(v) for v in places]
        trace.places = places

    @staticmethod
    def fits(trace: Trace) -> bool:
        """Return whether all that decides about a trace is in its pattern."""
        sources = trace.reads.values()
        return (
            not (trace.assigned or trace.draws or trace.constants or trace.ends)
            and len(set(sources)) == len(sources)
            and all(v.eager_value is not None or v in sources for v in trace.leaves)
            and not any(v.options.row_sparse for v in sources)
            and all(
                type(node) is RecordedCall
                or (type(node) is RecordedNode and not node.form.blocks and not node.form.effects)
                for node in trace.order
            )
            and all(v.eager_value is None or v.__dict__.get("value") is None for v in trace.leaves)
            and all(
                v.eager_value is None or v.node is None or v in trace.leaves
                for node in trace.order
                for v in node.inputs
                if v is not None
            )
        )

    def match(self, targets: Sequence[Variable], state: Any) -> "Matched | None":
        """Return the trace of the targets if it would be equal to that of the pattern, else None.

        Every condition is one that the key of a trace, its flows or its fetches express.
        """
        found: list[Any] = [None] * len(self.origins)
        nodes: list[Any] = [None] * len(self.nodes)
        origins, storage, held = self.origins, state.storage, self.held
        for v, place in zip(targets, self.targets, strict=True):
            attributes = v.__dict__
            found[place], nodes[origins[place]] = v, attributes.get("node")
            if attributes.get("eager_value") is not None:
                return None
        for number, kind, what, flow, inputs, outputs in self.backwards:
            node = nodes[number]
            if type(node) is not kind:
                return None
            if kind is RecordedCall:
                if node.template is not what or node.flow != flow:
                    return None
            elif node.form is not what or node.tracked is not flow:
                return None
            x = None  # references count here
            attributes = {}
            for reference, (place, uses, is_tracked) in zip(node.alive, outputs, strict=True):
                y = None if reference is None else reference()
                if y is None or place < 0:
                    if y is not None or place >= 0:
                        return None
                    continue
                if found[place] is None:
                    found[place] = y
                elif found[place] is not y:
                    return None
                # references: itself, the list and the argument
                if y.tracked is not is_tracked or (
                    uses >= 0 and (getrefcount(y) > uses) is not held[place]
                ):
                    return None
            given = node.inputs
            if len(given) != len(inputs):
                return None
            for x, place in zip(given, inputs):  # noqa: B905  # of one length
                if x is None:
                    if place >= 0:
                        return None
                    continue
                before = found[place]
                if before is x:
                    continue
                if before is not None or place < 0:
                    return None
                found[place] = x
                origin, attributes = origins[place], x.__dict__
                if type(origin) is int:
                    if attributes.get("eager_value") is not None:
                        return None
                    other = nodes[origin]
                    if other is None:
                        nodes[origin] = attributes.get("node")
                    elif attributes.get("node") is not other:
                        return None
                elif origin.source is None:
                    if not origin.fits(x, attributes, self.through):
                        return None
                elif (
                    attributes.get("source") is not origin.source()
                    or attributes.get("eager_value") is not None
                    or attributes.get("storage") is not storage
                ):
                    return None
        if len(set(map(id, found))) != len(found):
            return None
        return Matched(self, nodes, found)


class Patterns:
    """The patterns of a session, by the operator of their target."""

    def __init__(self) -> None:
        self._patterns: dict[tuple, list[Pattern]] = {}
        self._credit: dict[tuple, int] = {}

    def traced(self, targets: Sequence[Variable], state: Any, through: bool) -> Trace:
        """Return the trace of targets."""
        key = None
        if len(targets) == 1 and not state.pending:
            node = targets[0].__dict__.get("node")
            if type(node) is RecordedCall:
                key = through, node.template.kind
            elif type(node) is RecordedNode:
                key = through, node.form.kind
        if key is None:
            return Trace(targets, state, through)
        known = self._patterns.get(key)
        for pattern in known or ():
            matched = pattern.match(targets, state)
            if matched is not None:
                self._credit[key] = min(self._credit[key] + 1, _MOST_CREDIT)
                return matched
        trace = Trace(targets, state, through)
        credit = self._credit.get(key, _CREDIT)
        if credit and Pattern.fits(trace):
            self._credit[key] = credit - 1
            pattern = trace.pattern = Pattern(trace)
            self._patterns[key] = [pattern, *(known or ())][:_MOST]
        return trace


class Matched(Trace):
    """A trace that is known by its pattern."""

    def __init__(self, pattern: Pattern, nodes: Sequence[Any], found: Sequence[Any]) -> None:
        self.pattern, self.through = pattern, pattern.through
        self.order, self._found = nodes, found
        self.key, self.flows, self.sizes = pattern.key, pattern.flows, pattern.sizes
        self.targets = [found[place] for place in pattern.targets]
        self.fetches = [found[place] for place in pattern.fetches]
        self.leaves, self.states, self.reads = [], [], {}
        origins = pattern.origins
        for place in pattern.leaves:
            v = found[place]
            if origins[place].source is None:
                self.leaves.append(v)
            else:
                source = self.reads[v] = v.source
                self.leaves.append(source)
                self.states.append(source)
        self.assigned, self.updates, self.draws, self.read_elsewhere = [], [], [], []
        self.constants, self.ends = {}, []

    def number(self, v: Variable) -> int:
        """Return the number of a Variable in the key."""
        return self.pattern.numbers[self.place(v)]

    def place(self, v: Variable) -> int:
        """Return the place of a Variable in the pattern."""
        return next(k for k, x in enumerate(self._found) if x is v)

    def at(self, place: int) -> Variable:
        """Return the Variable in a place of the pattern."""
        return self._found[place]

    def release(self) -> None:
        """Drop the references to the graph, so that what nobody holds is freed."""
        self.order, self.leaves, self.reads, self._found = [], [], {}, []
        self.states, self.fetches, self.targets = [], [], []
