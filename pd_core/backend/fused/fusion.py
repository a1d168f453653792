"""Fused groups of a program for a CPU: the last change of a model before a session opens it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, helper

from . import operators
from .clusters import clusters, ordered, reads
from .groups import DOMAIN, Library, make
from .sizes import Dim, Kind, Values, estimate, product
from .steps import Step, Unfit, is_cheap, steps

_SMALL = 1 << 14  # elements of a value, up to which groups that share nothing are one
_PRODUCTS = {"MatMul", "Gemm", "FusedMatMul"}


@dataclass
class Statistics:
    """How many groups a program has, of how many operators, and how many of them differ."""

    groups: int = 0
    operators: int = 0
    different: int = 0
    functions: int = 0


def fuse(
    model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[Dim, Dim]] = ()
) -> tuple[str | None, Statistics]:
    """Replace groups of a model's operators, in place, by operators of the domain `pd.fused`.

    `kinds` has the type of each value, by its name, those in bodies included: ONNX's number of its
    elements, and sizes or their names; `equal` are pairs of sizes that are equal at run time.
    Returns (the C source of the operators, or None if there are none, counts of them).
    """
    values, library, statistics = Values(model, kinds, equal), Library(), Statistics()
    fuser = _Fuser(values, library, statistics)
    for v in model.graph.input:
        if v.name in values:
            fuser.sources |= {d[1][0]: v.name for d in values.dims(v.name) if len(d[1]) == d[0] == 1}
    fuser.graph(model.graph)
    if not library.groups:
        return None, statistics
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    statistics.different, statistics.functions = len(library.groups), len(library.functions)
    return library.source(_prelude()), statistics


@cache
def _prelude() -> str:
    folder = Path(__file__).parent
    names = ("prelude.c", "kernels.c")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


class _Fuser:
    def __init__(self, values: Values, library: Library, statistics: Statistics):
        self.values, self.library, self.statistics = values, library, statistics
        self.sources: dict[str, str] = {}  # inputs by the names of their sizes

    def graph(self, graph: GraphProto) -> None:
        """Replace the groups of a graph, those of its bodies first."""
        for node in graph.node:
            for a in node.attribute:
                if a.type == a.GRAPH:
                    self.graph(a.g)
        self._measure_inputs(graph)
        outside = [v.name for v in graph.output]
        originals = list(graph.node)
        known: dict[int, list[Step] | None] = {}
        nodes, copies = self._with_copies(originals, set(outside), known)
        found: dict[int, list[Step]] = {
            k: s for k, node in enumerate(nodes) if (s := self._steps(node, known)) is not None
        }
        fits = [k in found for k in range(len(nodes))]
        small = [fits[k] and self._is_small(node) for k, node in enumerate(nodes)]
        used = defaultdict(set)
        for k, node in enumerate(nodes):
            for x in reads(node):
                used[x].add(k)
        replaced: dict[int, list[NodeProto]] = {}
        pending = clusters(nodes, fits, small)
        while pending:
            members = pending.pop()
            try:
                result = self._group(nodes, members, found, used, set(outside))
            except Unfit:
                if len(members) > 2:  # one of them is why: try smaller groups
                    half = self._halves(nodes, members, fits, small)
                    pending += half
                continue
            if result is not None:
                for k in members:
                    replaced[k] = []
                replaced[members[-1]] = result
        if not replaced:
            return
        rest = [n for k, node in enumerate(nodes) for n in replaced.get(k, [node])]
        rest = _without_copies(rest, copies)
        del graph.node[:]
        graph.node.extend(ordered(rest, outside))

    def _measure_inputs(self, graph):
        """Let shapes be those of inputs, where these have the same: then nothing waits for more."""
        same = {}
        for v in graph.input:
            if v.name in self.values:
                same.setdefault(self.values.dims(v.name), v.name)
        for node in graph.node:
            if node.op_type in ("Shape", "Size") and node.input[0] in self.values:
                node.input[0] = same.get(self.values.dims(node.input[0]), node.input[0])

    def _steps(self, node, known):
        if id(node) not in known:
            try:
                known[id(node)] = steps(node, self.values)
            except Unfit:
                known[id(node)] = None
        return known[id(node)]

    def _is_small(self, node):
        return all(
            estimate(product(*self.values.dims(y))) <= _SMALL for y in node.output if y
        )

    def _halves(self, nodes, members, fits, small):
        """The group without what is at its end, as smaller ones."""
        inside = members[: len(members) // 2], members[len(members) // 2 :]
        result = []
        for part in inside:
            own = [fits[k] and k in set(part) for k in range(len(nodes))]
            result += [c for c in clusters(nodes, own, small) if len(c) > 1]
        return result

    def _with_copies(self, nodes, outside, known):
        """The nodes with a copy of each view for each of its readers, which costs nothing inside.

        Returns them with {output of a copy: output of the original}.
        """
        readers = defaultdict(list)
        for node in nodes:
            for x in reads(node):
                readers[x].append(node)
        result, copies = [], {}
        for node in reversed(nodes):
            own = []
            is_view = node.op_type in operators.VIEWS and len(node.output) == 1
            if is_view and len(readers[node.output[0]]) > 1 and self._steps(node, known) is not None:
                y = node.output[0]
                for j, reader in enumerate(readers[y]):
                    explicit = y in reader.input and self._steps(reader, known) is not None
                    if explicit and (j or y in outside):
                        copy = NodeProto()
                        copy.CopyFrom(node)
                        copy.output[0] = f"{y}/for{len(copies)}"
                        copy.name = f"{node.name}/for{len(copies)}"
                        self.values.add(copy.output[0], self.values.kind(y), self.values.dims(y))
                        copies[copy.output[0]] = y
                        known.pop(id(reader), None)
                        for k, x in enumerate(reader.input):
                            if x == y:
                                reader.input[k] = copy.output[0]
                        own.append(copy)
                        readers[copy.output[0]] = [reader]
                        for x in reads(copy):
                            readers[x].append(copy)
            result += [*own, node]
        return result[::-1], copies

    def _group(self, nodes, members, found, used, outside):
        """A group as nodes: its operator, and the views of its results that others read."""
        inside = set(members)
        made = {y for k in members for y in nodes[k].output if y}
        wanted = {y for y in made if y in outside or used[y] - inside}
        kept: list[NodeProto] = []
        for k in reversed(members):
            node = nodes[k]
            own = wanted & set(node.output)
            if own and node.op_type in operators.RESHAPES | {"Split", "Slice", "Transpose"}:
                kept.append(node)
                wanted -= own
                if node.input[0] in made:
                    wanted.add(node.input[0])
        needed = self._needed(nodes, members, wanted)
        if not self._is_worth(nodes, needed, used):
            return None
        every = [step for k in needed for step in found[k]]
        operator = make(every, wanted, self.values, self.library, self.sources)
        self.statistics.groups += 1
        self.statistics.operators += len(needed)
        name = nodes[needed[-1]].name
        return [operator.node(name, operator.outputs), *reversed(kept)]

    def _needed(self, nodes, members, wanted):
        """The members that wanted values need."""
        needed, result = set(wanted), []
        for k in reversed(members):
            if needed.intersection(nodes[k].output):
                result.append(k)
                needed.update(nodes[k].input)
        return result[::-1]

    def _is_worth(self, nodes, members, used):
        """Whether a group is faster than its operators: not for one, nor where the runtime fuses."""
        ops = [nodes[k].op_type for k in members if not is_cheap(nodes[k])]
        return len(ops) > 1


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
