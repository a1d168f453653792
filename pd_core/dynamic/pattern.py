"""Patterns: traces that a loop records again and again, recognised without tracing them.

A trace walks through what was recorded, sorts it and builds a key of it. In a loop the next one is
nearly always equal to one before. A pattern is what has to be so for that: the same operators
wired in the same way, on leaves of the same types, with the same values held. To check it takes a
quarter of the time, and what follows from the trace is known from the time before. A chain, in
which each call reads one other, such as a policy on an observation, takes half of that.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, count
from operator import attrgetter, gt, is_
from sys import getrefcount
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from weakref import ref

from ..graph.variable import Variable
from ..ops.mode import SEGMENTS
from ..run.fusion import asked
from .alike import Leaf, named_alike
from .recorded_call import RecordedCall
from .recorded_node import RecordedNode
from .templates import are_fixed
from .trace import Trace, is_assigned

_MOST = 8  # patterns that end with the same operator
_CREDIT = 8  # patterns that are made without one that is met again
_MOST_CREDIT = 64
_TEMPLATE, _FLOW, _INPUTS = map(attrgetter, ("template", "flow", "inputs"))
# references to what only a list holds, as a map over the list counts them
_ALONE = next(map(getrefcount, [object()]))
_ANY = float("inf")


class _Link(NamedTuple):
    """A call of a chain: what it has to be, and which of its inputs is the result of the next."""

    template: Any
    flow: int
    tracked: bool  # whether the result has gradients
    reads: Sequence[tuple[int, Any]]  # (input, reference to what is read)
    leaves: Sequence[tuple[int, Leaf]]  # (input, leaf)
    following: int | None  # None for the last call, which reads no other and may have no inputs


class Pattern:
    """The nodes of a trace of one target with what their inputs are, and its leaves.

    Nodes are in order from that of the target on. The place of a Variable is where it is first in
    the list of all their outputs, then all their inputs; `notes` of whoever evaluates such traces
    refer to it by that.
    """

    def __init__(self, trace: Trace) -> None:
        self.through, self.notes = trace.through, dict[tuple, Any]()
        self.key, self.flows, self.sizes = trace.key, trace.flows, trace.sizes
        # the name, the compiler and a reference to the plan of the last evaluation
        self.plan: tuple[Any, Any, Any] | None = None
        # an `update.Again` each, of the last step of `minimize`, alone and after `backward`
        self.step: Any = None
        self.step_after_backward: Any = None
        self.fetches_gradients = False  # whether somebody reads those of a step: see `Unread`
        self.group: Any = None  # a reference to that of the parameters
        self.draws = bool(trace.draws)  # whether a call draws random numbers
        nodes: list[Any] = trace.order[::-1]  # type: ignore[assignment]
        outputs = [
            (None if r is None else r(), number)
            for number, node in enumerate(nodes)
            for r in node.alive
        ]
        # those that were computed before, and end there, are as good as none
        ended = [v is not None and v.__dict__["node"] is None for v, _ in outputs]
        self.has_ended = any(ended)
        if self.has_ended:
            pairs = zip(outputs, ended, strict=True)
            outputs = [(None if end else v, number) for (v, number), end in pairs]
        inputs = list(chain.from_iterable(map(_INPUTS, nodes)))
        pool = [*[v for v, _ in outputs], *inputs]
        places = _first_places(pool)
        self.templates, self.flow = list(map(_TEMPLATE, nodes)), list(map(_FLOW, nodes))
        self.counts = list(map(len, map(_INPUTS, nodes)))
        self.living = [len(node.alive) for node in nodes]  # entries for outputs
        self.paths = _paths(nodes, [p.value for _, p in trace.assigned])
        self.places = [places[v] for v in pool]
        # of each persistent variable that changes: the number of the node with which it does, and
        # the place of the new value
        self.assigned = [(ref(v), nodes.index(p.node), places[p.value]) for v, p in trace.assigned]
        self.missing = places.pop(None, None)  # an output that is not there, an input left out
        # of all outputs: references that are not exceeded if nobody else holds them, and who is
        # held; nobody asks that of a target
        uses, fetched = Counter(inputs), set(trace.fetches)
        uses.update([p.value for _, p in trace.assigned])  # what waits holds its value
        within = [None if v in trace.targets else v for v, _ in outputs]
        self.most = [_ANY if v is None else uses[v] + _ALONE for v in within]
        self.held = [v in fetched for v in within]
        # of each output its place, the number of its node, and whether it has gradients
        there = {v: number for v, number in outputs if v is not None}
        self.computed = [(places[v], number, v.tracked) for v, number in there.items()]
        leaves = [v for v in places if v not in there]
        self.reads = [(places[v], ref(v.source)) for v in leaves if v in trace.reads]
        self.sources = frozenset([source for _, source in self.reads])
        trace.values = [v for v in leaves if v not in trace.reads]
        self.values = [(places[v], Leaf(v)) for v in trace.values]
        own = {trace.reads.get(v, v): place for v, place in places.items()}
        sources = dict(self.reads)
        # what changes may be a leaf that nothing reads, in no place
        self.leaves = [
            (own[v], sources.get(own[v])) if v in own else (-1, ref(v)) for v in trace.leaves
        ]
        self.fetches = [places[v] for v in trace.fetches]
        # the same in the list of those outputs that there are
        numbered = {v: k for k, v in enumerate(there)}
        self.fetched = [numbered[v] for v in trace.fetches]
        self.numbers = {place: trace.number(v) for v, place in places.items()}
        numbers = {place: k for k, (place, _) in enumerate(self.values)}
        # of each leaf of the trace its number among the values, None for persistent state
        self.owns = [None if source else numbers[place] for place, source in self.leaves]
        self.chain = None if self.assigned else self._chain(nodes, places)
        # the names of sizes, of templates and then of leaves, and where each is there first
        self.names: list[str] = []
        named_alike(self.templates, self.templates, self.names)
        for _, leaf in self.values:
            self.names += leaf.names
        places_of_names = _first_places(self.names)
        self.named = [places_of_names[d] for d in self.names]
        self.is_sized = not self.names  # whether some program of its traces is for its sizes alone
        trace.places = places

    def last_plan(self, name: tuple, session: Any) -> Any:
        """Return the plan of the last evaluation if the next one of this name has it, else None.

        An evaluation that observers take part in has none.
        """
        if self.plan is None or self.plan[0] is not name:
            return None
        _, compiler, plan = self.plan
        compilers = session.compilers
        if compiler is not (compilers.usual if asked.get() is None else compilers.current):
            return None
        return None if session.observers.sees_recorded(session) else plan()

    def _chain(self, nodes: Sequence[Any], places: dict[Any, int]) -> list[_Link] | None:
        """The calls of a chain: each reads the next, once, and no other; None if it is none.

        What is equal to what in such a graph follows from the order of its calls.
        """
        reads, values = dict(self.reads), dict(self.values)
        if not all(type(node) is RecordedCall and node.template.is_single for node in nodes):
            return None
        results: list[Any] = [node.alive[0]() for node in nodes]
        own = [x for node in nodes for x in node.inputs if places[x] in values]
        if len(set(own)) < len(own) or any(x.source is not None for x in own):
            return None
        links: list[_Link] = []
        for node, y, following in zip(nodes, results, [*results[1:], None], strict=True):
            inputs = list(enumerate(node.inputs))
            read = [i for i, x in inputs if places[x] not in reads and places[x] not in values]
            if [node.inputs[i] for i in read] != ([] if following is None else [following]):
                return None
            links.append(
                _Link(
                    node.template,
                    node.flow,
                    y.tracked,
                    [(i, reads[places[x]]) for i, x in inputs if places[x] in reads],
                    [(i, values[places[x]]) for i, x in inputs if places[x] in values],
                    read[0] if read else None,
                )
            )
        return links

    @staticmethod
    def fits(trace: Trace) -> bool:
        """Return whether all that decides about a trace is in its pattern."""
        sources = {*trace.reads.values(), *[v for v, _ in trace.assigned]}
        made = {None if r is None else r() for node in trace.order for r in node.alive}
        return (
            not (trace.constants or trace.ends)
            and bool(trace.order)
            and trace.order[-1] is trace.targets[0].__dict__["node"]
            and all(p.node in trace.order and p.value in made for _, p in trace.assigned)
            and len(trace.draws) == len(_draws(trace.order))
            and len(set(trace.reads.values())) == len(trace.reads)
            and all(v.eager_value is not None or v in sources for v in trace.leaves)
            and not any(v.options.row_sparse for v in sources)
            and all(
                type(node) is RecordedCall
                or (
                    type(node) is RecordedNode
                    and not node.form.effects
                    and (not node.form.blocks or node.op_type in SEGMENTS)
                    and are_fixed(node.form.blocks.values())
                    and node.op_type != "Uniform"
                )
                for node in trace.order
            )
            and all(v.eager_value is None or v.__dict__.get("value") is None for v in trace.leaves)
            and all(
                v.eager_value is None
                or v.__dict__.get("node") is None
                or v in trace.leaves
                or (trace.through and v.tracked)
                for node in trace.order
                for v in node.inputs
                if v is not None
            )
        )

    def match(self, target: Variable, state: Any) -> "Matched | None":
        """Return the trace of the target if it would be equal to that of the pattern, else None.

        Every condition is one that the key of a trace, its flows or its fetches express. Whole
        lists are compared, without a loop over the inputs of nodes: this is done in each step.
        """
        node, waiting = target.__dict__.get("node"), state.pending
        if self.chain is not None and node is not None and node.template is self.templates[0]:
            return self._match_chain(self.chain, target, state)
        names: list[str] | None = None  # of sizes, where some differ
        try:
            pending = [(v(), waiting[v()]) for v, *_ in self.assigned] if self.assigned else ()
            nodes: list[Any] = [node]
            for k, i in self.paths:
                node = (nodes[k].inputs[i] if k >= 0 else pending[i][1].value).__dict__.get("node")
                nodes.append(node)
            if not all(map(is_, map(_TEMPLATE, nodes), self.templates)):
                names = []
                templates = list(map(_TEMPLATE, nodes))
                if self.is_sized or not named_alike(templates, self.templates, names):
                    return None
        except (AttributeError, IndexError, KeyError):  # leaves, fewer inputs, nothing that waits
            return None
        inputs = list(map(_INPUTS, nodes))
        pool: list[Any] = [None if r is None else r() for node in nodes for r in node.alive]
        if self.has_ended:
            pool = [None if v is None or v.__dict__["node"] is None else v for v in pool]
        if (
            list(map(gt, map(getrefcount, pool), self.most)) != self.held
            or list(map(_FLOW, nodes)) != self.flow
            or list(map(len, inputs)) != self.counts
        ):
            return None
        pool += chain.from_iterable(inputs)
        first: dict[int, int] = {}
        if list(map(first.setdefault, map(id, pool), count())) != self.places:
            return None
        if self.missing is not None and pool[self.missing] is not None:
            return None
        if waiting and not self._assigns(nodes, pool, pending, waiting):
            return None
        through = self.through
        for place, number, tracked in self.computed:
            y = pool[place]
            if y is None:  # an output that nobody holds any more, and the only one
                return None
            attributes = y.__dict__
            if (
                attributes.get("node") is not nodes[number]
                or attributes.get("tracked", False) is not tracked
                # a known one is a leaf, unless gradients flow through it: it is computed again
                or (attributes.get("eager_value") is not None and not (through and tracked))
            ):
                return None
        key = state.reads.key
        for place, source in self.reads:
            v = source()
            if v is None or v.__dict__["attached"].get(key) is not pool[place]:
                return None
        for place, leaf in self.values:
            x = pool[place]
            if not leaf.fits(x, x.__dict__, through, names):
                return None
        if names is not None:
            first_names: dict[str, int] = {}
            if list(map(first_names.setdefault, names, count())) != self.named:
                return None
        nodes.reverse()
        if self.draws and not _differ(nodes):
            return None
        values = [pool[place] for place, _ in self.values]
        fetches = [pool[place] for place in self.fetches]
        return Matched(self, nodes, fetches, values, pending, names)

    def _assigns(
        self, nodes: Sequence[Any], pool: Sequence[Any], pending: Sequence[Any], waiting: Any
    ) -> bool:
        """Whether what waits for the nodes is what a trace of them would assign."""
        for (_, number, place), (_, p) in zip(self.assigned, pending, strict=True):
            if p.node is not nodes[number] or p.value is not pool[place]:
                return False
        if len(waiting) == len(pending):
            return True
        reached, others = set(nodes), list(waiting.values())
        return sum(is_assigned(p, reached) for p in others) == len(pending)

    def _match_chain(
        self, chain: Sequence[_Link], target: Variable, state: Any
    ) -> "Matched | None":
        """`match` of a chain, call by call from the target on: half the time."""
        key, through, v = state.reads.key, self.through, target
        results: list[Variable] = []
        values: list[Variable] = []
        for template, flow, tracked, reads, leaves, following in chain:
            attributes = v.__dict__
            node: Any = attributes.get("node")
            if (
                type(node) is not RecordedCall
                or node.template is not template
                or node.flow != flow
                or attributes.get("tracked", False) is not tracked
                or (attributes.get("eager_value") is not None and not (through and tracked))
            ):
                return None
            results.append(v)
            inputs = node.inputs
            try:
                for i, source in reads:
                    if source().attached[key] is not inputs[i]:
                        return None
            except (AttributeError, KeyError):  # a variable that is gone, or has no read
                return None
            for i, leaf in leaves:
                x = inputs[i]
                attributes = x.__dict__
                if "source" in attributes or not leaf.fits(x, attributes, through, None):
                    return None
                values.append(x)
            # in the end no reference more to the last result, which counts as held otherwise
            v = target if following is None else inputs[following]
        if list(map(gt, map(getrefcount, results), self.most)) != self.held:
            return None
        if len(values) > 1 and len(set(values)) < len(values):
            return None
        nodes = [v.__dict__["node"] for v in results[::-1]]
        if state.pending and not self._assigns(nodes, (), (), state.pending):
            return None
        if self.draws and not _differ(nodes):
            return None
        return Matched(self, nodes, [results[k] for k in self.fetched], values)


def _differ(nodes: Sequence[Any]) -> bool:
    """Whether all random draws differ: a session that starts again draws the same."""
    draws = _draws(nodes)
    return len(set(draws)) == len(draws)


def _draws(nodes: Sequence[Any]) -> list[Any]:
    return [d for node in nodes if type(node) is RecordedCall for d in node.draws]


def _first_places(pool: Sequence[Any]) -> dict[Any, int]:
    """Where each is in a list the first time."""
    places: dict[Any, int] = {}
    for k, v in enumerate(pool):
        places.setdefault(v, k)
    return places


def _paths(nodes: Sequence[Any], changed: Sequence[Variable]) -> list[tuple[int, int]]:
    """Where each node but the first is read: the number of a node before it, and of its input.

    -1, and an index in what is changed, where that is the only place.
    """
    numbers = {node: k for k, node in enumerate(nodes)}
    read: dict[int, tuple[int, int]] = {}
    for k, node in enumerate(nodes):
        for i, x in enumerate(node.inputs):
            number = None if x is None else numbers.get(x.__dict__.get("node"))
            if number is not None:
                read.setdefault(number, (k, i))
    for i, v in enumerate(changed):
        read.setdefault(numbers[v.__dict__["node"]], (-1, i))
    return [read[k] for k in range(1, len(nodes))]


class Patterns:
    """The patterns of a session, by the operator of their target."""

    def __init__(self) -> None:
        # those whose target is of an operator, by (through, its kind)
        self.ending: dict[tuple[bool, int], list[Pattern]] = {}
        self._credit: dict[tuple, int] = {}

    def traced(self, targets: Sequence[Variable], state: Any, through: bool) -> Trace:
        """Return the trace of targets."""
        key = None
        if len(targets) == 1:
            node = targets[0].__dict__.get("node")
            if type(node) is RecordedCall:
                key = through, node.template.kind
            elif type(node) is RecordedNode:
                key = through, node.form.kind
        if key is None:
            return Trace(targets, state, through)
        known = self.ending.get(key)
        for pattern in known or ():
            matched = pattern.match(targets[0], state)
            if matched is not None:
                self.met(key)
                return matched
        trace = Trace(targets, state, through)
        credit = self._credit.get(key, _CREDIT)
        if credit and Pattern.fits(trace):
            self._credit[key] = credit - 1
            pattern = trace.pattern = Pattern(trace)
            self.ending[key] = [pattern, *(known or ())][:_MOST]
        return trace

    def met(self, key: tuple[bool, int]) -> None:
        """Note that one of the patterns was met again."""
        if self._credit[key] < _MOST_CREDIT:
            self._credit[key] += 1


class Matched(Trace):
    """A trace that is known by its pattern."""

    assigned: Any = ()
    # there are none of these where a pattern fits
    read_elsewhere: Any = ()
    ends: Any = ()
    constants: Any = MappingProxyType({})

    through, key, flows = (
        property(attrgetter(f"pattern.{name}")) for name in ("through", "key", "flows")
    )
    targets = property(lambda self: self.fetches[:1])
    updates: Any = property(lambda self: [(v, p.value) for v, p in self.assigned])
    draws: Any = property(lambda self: _draws(self.order) if self.pattern.draws else ())

    def __init__(
        self,
        pattern: Pattern,
        nodes: Sequence[Any],
        fetches: list[Variable],
        values: Sequence[Variable],
        assigned: Any = (),
        names: list[str] | None = None,
    ) -> None:
        """`values` are those of the leaves that are no persistent state.

        `names` are those of its sizes where the pattern has others.
        """
        self.pattern, self.order, self.fetches, self.values = pattern, nodes, fetches, values
        self.assigned, self.names = assigned, names
        if names is not None:
            self.has_sizes_of_pattern = False

    @property
    def sizes(self) -> Sequence[str]:  # type: ignore[override]
        """The names of its sizes, in the order of the key."""
        pattern = self.pattern
        if self.names is None:
            return pattern.sizes
        renamed = dict(zip(pattern.names, self.names, strict=True))
        return [renamed.get(d, d) for d in pattern.sizes]

    def arrays(self, leaves: Sequence[int]) -> list[Any]:
        """Return the values of the leaves of these numbers, all of which have one."""
        own, values = self.pattern.owns, self.values
        return [values[cast(int, own[k])].eager_value for k in leaves]

    @cached_property
    def leaves(self) -> list[Variable]:  # type: ignore[override]
        """The leaves, in the order of the key."""
        found = self._found
        return [found[p] if source is None else source() for p, source in self.pattern.leaves]

    @cached_property
    def _found(self) -> list[Any]:
        """The Variables by their places."""
        nodes = self.order[::-1]
        outputs = [None if r is None else r() for node in nodes for r in node.alive]
        return [*outputs, *chain.from_iterable(map(_INPUTS, nodes))]

    @cached_property
    def reads(self) -> dict[Variable, Variable]:  # type: ignore[override]
        """Reads of persistent variables, with what was read."""
        found = self._found
        return {found[place]: found[place].source for place, _ in self.pattern.reads}

    @cached_property
    def states(self) -> list[Variable]:  # type: ignore[override]
        """The persistent variables that are read."""
        return [source() for _, source in self.pattern.leaves if source is not None]

    def number(self, v: Variable) -> int:
        """Return the number of a Variable in the key."""
        return self.pattern.numbers[self.place(v)]

    def place(self, v: Variable) -> int:
        """Return the place of a Variable in the pattern."""
        return next(k for k, x in enumerate(self._found) if x is v)

    def at(self, place: int) -> Variable:
        """Return the Variable in a place of the pattern."""
        return self._found[place]

    def release_again(self) -> None:
        """`release` of one of which nothing was asked but its fetches and values."""
        self.order, self.values, self.fetches, self.assigned = (), (), [], ()

    def release(self) -> None:
        """Drop the references to the graph, so that what nobody holds is freed."""
        self.order, self.leaves, self.reads, self._found = [], [], {}, []
        self.states, self.fetches, self.values, self.assigned = [], [], [], ()
