"""Fused groups of a program for a CPU: the last change of a model before a session opens it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, NodeProto, helper

from . import operators
from .alike import Operators
from .branches import inline
from .clusters import circle, clusters, needed, ordered, reads
from .groups import DOMAIN, NO_STATES, Library
from .in_place import Nodes, Places, last
from .iterations import Group, iterated
from .parts import Source
from .sizes import Dim, Dims, Kind, Values, estimate, product
from .steps import Reduce, Step, Unfit, is_cheap, read_by, steps

_SMALL = 1 << 14  # elements of a value, up to which groups that share nothing are one
_FEW = 1 << 12  # elements of what a node reads and writes that take no time beside the call
_PRODUCTS = {"MatMul", "Gemm", "FusedMatMul"}
NO_PLACES = Places()


@dataclass
class Statistics:
    """Counts of the groups of a program, of its other operators, and of distinct groups.

    `members` has the values that the operators inside of each group make, by the group's name.
    `written` are the results of the group `writer` that may have the memory of their states.
    """

    groups: int = 0
    others: int = 0
    different: int = 0
    functions: int = 0
    members: dict[str, list[str]] = field(default_factory=dict)
    writer: str = ""
    written: list[str] = field(default_factory=list)


def fuse(
    model: ModelProto,
    kinds: Mapping[str, Kind],
    equal: Iterable[tuple[Dim, Dim]] = (),
    places: Places = NO_PLACES,
) -> tuple[Source | None, Statistics]:
    """Replace groups of a model's operators, in place, by operators of the domain `pd.fused`.

    `kinds` has the type of each value, by its name, those in bodies included: ONNX's number of its
    elements, and sizes or their names; `equal` are pairs of sizes that are equal at run time.
    New values of `places` are in a group that may write them there, if it comes last.
    Returns (the C source of the operators, or None if there are none, counts of them).
    """
    values, library, statistics = Values(model, kinds, equal), Library(), Statistics()
    fuser = _Fuser(values, library, statistics)
    for v in model.graph.input:
        if v.name in values:
            fuser.sources |= {
                d[1][0]: v.name for d in values.dims(v.name) if len(d[1]) == d[0] == 1
            }
    inline(model.graph, values, fuser.steps)
    fuser.graph(model.graph, places)
    used = set(_operators(model.graph))
    library.groups = {text: name for text, name in library.groups.items() if name in used}
    if not library.groups:
        return None, statistics
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    statistics.different, statistics.functions = len(library.groups), len(library.functions)
    _count(model.graph, statistics)
    return library.source(), statistics


def _operators(graph: GraphProto) -> Iterator[str]:
    """The operators that are groups, in bodies too."""
    for node in graph.node:
        if node.domain == DOMAIN:
            yield node.op_type
        for a in node.attribute:
            if a.type == a.GRAPH:
                yield from _operators(a.g)


def _count(graph: GraphProto, statistics: Statistics) -> None:
    """Count the groups, and the operators that remain beside them."""
    for node in graph.node:
        if node.domain == DOMAIN:
            statistics.groups += 1
        else:
            statistics.others += 1
        for a in node.attribute:
            if a.type == a.GRAPH:
                _count(a.g, statistics)


class _Fuser:
    def __init__(self, values: Values, library: Library, statistics: Statistics):
        self.values, self.library, self.statistics = values, library, statistics
        self.sources: dict[str, str] = {}  # inputs by the names of their sizes
        self.operators = Operators(values, library, self.sources)
        self.made: dict[str, Group] = {}  # groups by their first outputs

    def graph(self, graph: GraphProto, places: Places = NO_PLACES) -> None:
        """Replace the groups of a graph, those of its bodies first."""
        for node in graph.node:
            for a in node.attribute:
                if a.type == a.GRAPH:
                    self.graph(a.g)
            self._iterate(node)
        self._measure_inputs(graph)
        outside = [v.name for v in graph.output]
        nodes, known, copies = self._with_copies(list(graph.node), set(outside))
        rejected: set[int] = set()
        kept = self.library.kept()
        every = nodes, known, set(outside), rejected, places
        while (replaced := self._replaced(*every)) is None:
            self.library.put_back(kept)
        if replaced or copies:  # whose readers have been changed
            rest = [n for k, node in enumerate(nodes) for n in replaced.get(k, [node])]
            rest = _without_copies(rest, copies)
            del graph.node[:]
            graph.node.extend(ordered(rest, outside))
            self._declare(graph)

    def _declare(self, graph):
        """Declare the vectors of numbers that groups make.

        Of a Cast of one that has no shape, the runtime takes it that it is an empty one.
        """
        outside = {v.name for v in graph.output}
        for y in (y for node in graph.node if node.domain == DOMAIN for y in node.output):
            if y in self.values and y not in outside:
                dims = self.values.dims(y)
                if len(dims) == 1 and not dims[0][1]:
                    kind = self.values.kind(y)
                    graph.value_info.append(helper.make_tensor_value_info(y, kind, [dims[0][0]]))

    def _iterate(self, node):
        """Replace a Scan whose body is one group."""
        if node.op_type != "Scan" or node.domain:
            return
        made = iterated(node, self.made, self.values, self.library, self.sources)
        if made is not None:
            body = next(n for a in node.attribute for n in a.g.node if n.domain == DOMAIN)
            members = self.statistics.members
            members[made.name] = [*members.pop(body.name), *node.output]
            node.CopyFrom(made)

    def _replaced(self, nodes, known, outside, rejected, places):
        """The nodes in place of those of groups, by index.

        None if nodes are rejected that would read what no other node needs, or what is only inside
        of a group: once more without.
        """
        found = {k: s for k, s in enumerate(known) if s is not None and k not in rejected}
        needs = [_read(found[k]) if k in found else reads(node) for k, node in enumerate(nodes)]
        alive = needed(nodes, needs, outside)
        for k in range(len(nodes)):
            if k not in alive:  # shapes that groups need not read
                needs[k] = []
                found.pop(k, None)
        used = defaultdict(set)
        for k, names in enumerate(needs):
            for x in names:
                used[x].add(k)
        attempt = _Attempt(self, nodes, found, needs, used, outside, places)
        lost = {y for k, node in enumerate(nodes) if k not in alive for y in node.output}
        for members, result in attempt.groups():
            if result is not None:
                made = {y for k in members for y in nodes[k].output}
                lost |= made - {y for node in result for y in node.output}
            elif any(set(reads(nodes[k])) - set(needs[k]) and k in alive for k in members):
                rejected.update(members)
        left = [k for k in found if k not in attempt.replaced]
        again = [k for k in left if not lost.isdisjoint(reads(nodes[k]))]
        again += self._unreadable(nodes, alive, outside, attempt.replaced)
        rejected.update(again)
        return None if again else attempt.replaced

    def _unreadable(self, nodes, alive, outside, replaced):
        """Views beside groups, by index, whose shapes can be read no more or depend on them."""
        kept = {id(node) for result in replaced.values() for node in result}
        views = [k for k, node in enumerate(nodes) if id(node) in kept]
        if not views:
            return []
        made = {y for result in replaced.values() for node in result for y in node.output}
        gone: set[str] = set()
        for k, node in enumerate(nodes):
            if k in replaced or (k not in alive and not gone.isdisjoint(reads(node))):
                gone.update(y for y in node.output if y not in made)
        found = [k for k in views if not gone.isdisjoint(reads(nodes[k]))]
        if not found:
            rest = [n for k, node in enumerate(nodes) for n in replaced.get(k, [node])]
            ring = {id(node) for node in circle(rest, outside)}
            found = [k for k in views if id(nodes[k]) in ring]
        return found

    def _measure_inputs(self, graph):
        """Let shapes be those of inputs, where these have the same: then nothing waits for more."""
        same: dict[Dims, str] = {}
        for v in graph.input:
            if v.name in self.values:
                same.setdefault(self.values.dims(v.name), v.name)
        for node in graph.node:
            if node.op_type in ("Shape", "Size") and node.input[0] in self.values:
                node.input[0] = same.get(self.values.dims(node.input[0]), node.input[0])

    def steps(self, node: NodeProto) -> list[Step] | None:
        """Return the steps of a node; None if it fits in no group."""
        try:
            return steps(node, self.values)
        except Unfit:
            return None

    def _with_copies(self, nodes, outside):
        """The nodes with a copy of each view for each of its readers, which costs nothing inside.

        Returns them with their steps, None for those that fit in no group, and {output of a copy:
        output of the original}.
        """
        known = {id(node): self.steps(node) for node in nodes}
        readers = defaultdict(list)
        for node in nodes:
            for x in reads(node):
                readers[x].append(node)
        result: list[NodeProto] = []
        copies: dict[str, str] = {}
        for node in reversed(nodes):
            own = []
            is_view = node.op_type in operators.VIEWS and len(node.output) == 1
            if is_view and known[id(node)] is not None and len(readers[node.output[0]]) > 1:
                y = node.output[0]
                for j, reader in enumerate(readers[y]):
                    if y in reader.input and known[id(reader)] is not None and (j or y in outside):
                        copy = self._copy(node, f"for{len(copies)}")
                        copies[copy.output[0]] = y
                        for k, x in enumerate(reader.input):
                            if x == y:
                                reader.input[k] = copy.output[0]
                        known[id(reader)], known[id(copy)] = self.steps(reader), self.steps(copy)
                        own.append(copy)
                        readers[copy.output[0]] = [reader]
                        for x in reads(copy):
                            readers[x].append(copy)
            result += [*own, node]
        return result[::-1], [known[id(node)] for node in result[::-1]], copies

    def _copy(self, node, what):
        copy = NodeProto()
        copy.CopyFrom(node)
        y = node.output[0]
        copy.output[0], copy.name = f"{y}/{what}", f"{node.name}/{what}"
        self.values.add(copy.output[0], self.values.kind(y), self.values.dims(y))
        if y in self.values.fills:
            self.values.fills[copy.output[0]] = self.values.fills[y]
        return copy


class _Attempt:
    """Groups of the nodes that have steps; `used` has the indices of the readers of values."""

    def __init__(self, fuser: _Fuser, nodes, found, needs, used, outside, places):
        self.fuser, self.values = fuser, fuser.values
        self.nodes, self.found, self.needs, self.used = nodes, found, needs, used
        self.outside, self.places = outside, places
        self.replaced: dict[int, list[NodeProto]] = {}
        self.small = [k in found and self._is_small(node) for k, node in enumerate(nodes)]
        self.sums = {k for k, read in found.items() if self._is_sum(read)}
        self.early = self._early()

    def groups(self):
        """Yield (members, the nodes that replace them or None)."""
        last = set()
        if self.places.states:
            result, last = self._last()
            if last:
                yield last, result
        last = set(last)
        fits = [k in self.found and k not in last for k in range(len(self.nodes))]
        needs = [() if k in last else names for k, names in enumerate(self.needs)]
        pending = clusters(self.nodes, needs, fits, self.small, self.early)
        while pending:
            whole = pending.pop()
            members = self._trimmed(whole)
            if len(members) < len(whole):
                yield [k for k in whole if k not in members], None
                if not members:
                    continue
            try:
                result = self._group(members)
            except Unfit:
                if len(members) > 2:  # one of them is why: try smaller groups
                    pending += self._halves(members)
                    continue
                result = None
            if result is not None:
                for k in members:
                    self.replaced[k] = []
                self.replaced[members[-1]] = result
            yield members, result

    def _last(self):
        """The group that writes new values into the memory of states, as nodes, and its members.

        None and no members if there is none.
        """
        statistics = self.fuser.statistics
        statistics.writer, statistics.written = "", []  # those of an attempt before
        every = self.nodes, self.found, self.needs, self.early, self.used, self.outside
        members, states = last(Nodes(self.values, *every), self.places)
        if not states:
            return None, []
        try:
            result = self._group(members, states)
        except Unfit:
            return None, []
        if result is None:
            return None, []
        for k in members:
            self.replaced[k] = []
        self.replaced[members[-1]] = result
        return result, members

    def _is_sum(self, found):
        """Whether the steps of a node are a reduction of a large value."""
        if len(found) != 1 or not isinstance(found[0], Reduce):
            return False
        x, y = (self.values.dims(v) for v in (found[0].x, found[0].y))
        return estimate(product(*x)) > max(_FEW, 4 * estimate(product(*y)))

    def _early(self):
        """Whether each node is a sum, or leads to sums alone."""
        early = [False] * len(self.nodes)
        for k in reversed(range(len(self.nodes))):
            outputs = [y for y in self.nodes[k].output if y]
            readers = set().union(*(self.used[y] for y in outputs))
            early[k] = k in self.sums or (
                k in self.found
                and bool(readers)
                and self.outside.isdisjoint(outputs)
                and all(early[j] for j in readers)
            )
        return early

    def _trimmed(self, members):
        """The members without sums of what is in memory, which the runtime makes as fast."""
        made: set[str] = set()  # by an operator that is more than a view
        views: dict[str, str] = {}
        kept = []
        for k in members:
            node = self.nodes[k]
            if node.op_type in operators.VIEWS:
                views |= dict.fromkeys(node.output, node.input[0])
        read = defaultdict(set)
        for k in members:
            if k not in self.sums and self.nodes[k].op_type not in operators.VIEWS:
                for x in self.needs[k]:
                    read[_root(x, views)].add(k)
        for k in members:
            node = self.nodes[k]
            if k in self.sums:
                x = _root(self.found[k][0].x, views)
                if x not in made and not read[x]:
                    continue
            if node.op_type not in operators.VIEWS or _root(node.output[0], views) in made:
                made.update(node.output)
            kept.append(k)
        return kept

    def _is_small(self, node, most=_SMALL):
        names = [y for y in node.output if y]
        names += [x for x in node.input[:1] if most == _FEW and x in self.values]
        return all(estimate(product(*self.values.dims(y))) <= most for y in names)

    def _halves(self, members):
        """The first and the second half of a group, as smaller ones."""
        result = []
        for part in (set(members[: len(members) // 2]), set(members[len(members) // 2 :])):
            own = [k in part for k in range(len(self.nodes))]
            result += clusters(self.nodes, self.needs, own, self.small, self.early)
        return result

    def _group(self, members, states=NO_STATES):
        """A group as nodes: its operator, and the views of its results that others read.

        With `states` it is one that may write its results into the memory of these, or None.
        """
        inside, nodes = set(members), self.nodes
        made = {y for k in members for y in nodes[k].output if y}
        wanted = {y for y in made if y in self.outside or self.used[y] - inside}
        kept: list[NodeProto] = []
        for k in reversed(members):
            node = nodes[k]
            own = wanted & set(node.output)
            if own and node.op_type in operators.RESHAPES | {"Split", "Slice", "Transpose"}:
                kept.append(node)
                wanted -= own
                if node.input[0] in made:
                    wanted.add(node.input[0])
        members = self._members(members, wanted)
        if not states and not self._is_worth(members):
            return None
        every = [step for k in members for step in self.found[k]]
        operator = self.fuser.operators.made(every, wanted, states)
        group = operator.node(nodes[members[-1]].name, operator.outputs, every)
        if states:
            if not operator.written:
                return None
            statistics = self.fuser.statistics
            statistics.writer, statistics.written = group.name, operator.written
        self.fuser.made[operator.outputs[0]] = Group(every, wanted)
        results = [y for k in members for y in nodes[k].output if y]
        self.fuser.statistics.members[group.name] = results
        return [group, *reversed(kept)]

    def _is_worth(self, members):
        """Whether a group is faster than what the runtime does.

        It is as fast with one operator, or with reductions of what is there; it computes the bias
        and the positive part together with a product.
        """
        inside = [self.nodes[k] for k in members if not is_cheap(self.nodes[k])]
        ops = [node.op_type for node in inside]
        if len(ops) < 2 or (ops == ["Add", "Relu"] and self._adds_bias(inside[0])):
            return False
        large = [node for node in inside if not self._is_small(node, _FEW)]
        return not large or any(node.op_type not in operators.REDUCTIONS for node in large)

    def _adds_bias(self, node):
        """Whether a node adds a row to a product of the runtime."""
        products = {y for n in self.nodes if n.op_type in _PRODUCTS for y in n.output}
        return not products.isdisjoint(node.input) and not all(y in products for y in node.input)

    def _members(self, members, wanted):
        """The members that wanted values need."""
        known, result = set(wanted), []
        for k in reversed(members):
            if known.intersection(self.nodes[k].output):
                result.append(k)
                known.update(self.needs[k])
        return result[::-1]


def _root(x, views):
    """The value behind a chain of views."""
    while x in views:
        x = views[x]
    return x


def _read(found: list[Step]) -> list[str]:
    """The values that steps read from outside of them: no shapes, which are known."""
    made = {step.y for step in found}
    return [x for step in found for x in read_by(step) if x not in made]


def _without_copies(nodes, copies):
    """The nodes without the copies that are in no group, but for one if there is no original."""
    made = {y for node in nodes for y in node.output}
    chosen: dict[str, str] = {}  # by the original
    again = {}
    result = []
    for node in nodes:
        y = node.output[0] if node.domain != DOMAIN and len(node.output) == 1 else ""
        if y in copies:
            original = copies[y]
            while original in copies:
                original = copies[original]
            if original in made or original in chosen:
                again[y] = chosen.get(original, original)
                continue
            chosen[original] = y
        result.append(node)
    for node in result:
        for k, x in enumerate(node.input):
            if x in again:
                node.input[k] = again[x]
    return result
