"""New values of states that a group writes into the memory of the old ones, which it reads once.

The group is the last operator of its program: it has all other results as more inputs (`writes`).
So nothing outside reads an old value once it has begun, and whatever may fail has not. What it has
inside of it cannot fail either, once the sizes of its inputs are checked. There each new value is
written where its old one is not read any more, see `safe`.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import NodeProto

from .operators import RESHAPES, VIEWS
from .segments import Segment, pattern
from .sizes import ZERO, Values, product
from .steps import Map, Step

# Operators of the runtime whose result may be the memory of an input, those included that its
# optimizers leave out where they change nothing.
_SEEN_THROUGH = RESHAPES | VIEWS | {"Identity", "Cast", "Dropout", "Pad", "Sum", "Max", "Min"}
_SEEN_THROUGH |= {"Add", "Sub", "Mul", "Div", "Pow", "Concat"}


@dataclass(frozen=True)
class Places:
    """The memory that a program may write new values into: `states` are inputs by outputs.

    Of `tables` other operators, which may fail, write rows; they come before.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    tables: Collection[str] = ()


@dataclass(frozen=True)
class Nodes:
    """The operators of a graph in order, with what is known of them by their indices.

    `found` has the steps of those that fit in a group, `needs` what each reads, `early` those that
    are better beside what they read. `used` are the readers of values, and `outside` the values
    that leave the graph.
    """

    values: Values
    nodes: Sequence[NodeProto]
    found: Mapping[int, Sequence[Step]]
    needs: Sequence[Iterable[str]]
    early: Sequence[bool]
    used: Mapping[str, Collection[int]]
    outside: Container[str]


def last(graph: Nodes, places: Places) -> tuple[list[int], dict[str, str]]:
    """Return the operators that may come last, in a group, and the states of their results.

    They cannot fail, and lead to new values of states alone.
    """
    members: set[int] = set()
    for k in reversed(range(len(graph.nodes))):
        if k in graph.found and not graph.early[k] and not _may_fail(graph.found[k]):
            results = [y for y in graph.nodes[k].output if y]
            stored = [y for y in results if y in graph.outside]
            is_view = graph.nodes[k].op_type in VIEWS | RESHAPES
            readers = {j for y in results for j in graph.used.get(y, ())}
            leads = readers <= members and (readers or stored) and not (stored and is_view)
            if leads and all(y in places.states for y in stored):
                members.add(k)
    order = sorted(members)
    made = {y for k in order for y in graph.nodes[k].output}
    states = {y: x for y, x in places.states.items() if y in made}
    roots = _roots(graph, order)
    if any(not own.keys().isdisjoint(places.tables) for own in roots.values()):
        return [], {}
    hidden = {root for x, found in roots.items() for root in found if root != x}
    return order, {y: x for y, x in states.items() if x not in hidden}


def _may_fail(found: Sequence[Step]) -> bool:
    """Whether an index may be outside."""
    return any(isinstance(step, Map) and step.is_plain for step in found)


def _roots(graph: Nodes, members: Iterable[int]) -> dict[str, dict[str, None]]:
    """The values whose memory each value may have that is made outside and read by members."""
    makers = {y: node for node in graph.nodes for y in node.output if y}
    inside = {y for k in members for y in graph.nodes[k].output}
    found: dict[str, dict[str, None]] = {}
    for x in dict.fromkeys(x for k in members for x in graph.needs[k]):
        if x in inside:
            continue
        found[x] = {x: None}
        pending = [x]
        while pending:
            y = pending.pop()
            node = makers.get(y)
            if node is None or node.domain or node.op_type not in _SEEN_THROUGH:
                continue
            more = [v for v in node.input if v not in found[x] and _as_many(v, y, graph.values)]
            pending += more
            found[x].update(dict.fromkeys(more))
    return found


def _as_many(x: str, y: str, values: Values) -> bool:
    """Whether two values have as many elements, as far as is known."""
    if x not in values or y not in values:
        return True
    return product(*values.dims(x)) == product(*values.dims(y))


def safe(parts: Sequence[Segment], states: Mapping[str, str], values: Values) -> dict[str, str]:
    """Return those of the new values, with their states, that may be written over these.

    That is where nothing of a state is read later than its new value is written.
    """
    writers: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    readers: defaultdict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for p, segment in enumerate(parts if states else ()):
        for q, (loop, _) in enumerate(segment.loops):
            for k, s in enumerate(loop.statements):
                writers[s.written.buffer].append((p, q, k))
                for number, read in enumerate(s.reads):
                    if read is not None:
                        readers[read[0].buffer].append((p, q, k, number))
    return {
        y: x
        for y, x in states.items()
        if values.kind(x) == values.kind(y)
        and values.dims(x) == values.dims(y)
        and len(writers[y]) == 1
        and _is_safe(parts, writers[y][0], readers[x])
    }


def _is_safe(parts, writer, readers):
    """Whether no reader of a state comes too late; all are places of statements, in order."""
    p, q, k = writer
    loop, axes = parts[p].loops[q]
    written = loop.statements[k]
    if written.how != "map":
        return False
    place = pattern(written.written, written.along, loop, axes)
    first = None  # the first statement of the loop that reads the state
    for at_p, at_q, at_k, number in readers:
        if at_p < p:
            continue
        other, own = parts[at_p].loops[at_q]
        s = other.statements[at_k]
        view, along = s.reads[number]
        if at_p > p or at_q > q or (s.at is not None and number != 1):
            return False
        if at_q == q:  # the same element, which is in a register from then on
            if view.offset != written.written.offset or along != written.along:
                return False
            first = at_k if first is None else first
            continue
        offset, stride, rest = pattern(view, along, other, own)
        same_row = offset == place[0] and stride == place[1] and ZERO not in stride
        if not same_row or any(pair not in place[2] for pair in rest):
            return False
    return first is None or first <= k


__all__ = ["Nodes", "Places", "last", "safe"]
