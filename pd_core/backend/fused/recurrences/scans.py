"""Scans of a model as operators of their own: which of them, and what they take in from around."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, helper

from ...passes.forms import LOOP_BYTES
from ..operators import ELEMENTWISE, attributes, expression
from ..parts import Source, named, source
from ..sizes import Kind, Values
from .body import Recurrence, Unfit, recurrence
from .code import code, inputs, types

DOMAIN = "pd.recurrence"


@dataclass
class Found:
    """Counts of the Scans that have become operators, and of the operators around them."""

    loops: int = 0
    taken_in: int = 0
    kinds: int = 0  # of operators: equal loops share their code


def fuse(
    model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[int | str, int | str]]
) -> tuple[Source | None, Found]:
    """Replace the Scans of a model that are recurrences of rows; return their C and what was found.

    `kinds` are the types of all values, `equal` pairs of sizes that are equal at run time.
    """
    return _Fuser(model, kinds, equal).run()


@dataclass
class _Loop:
    """A Scan, and the node of its outputs: itself, or the If that runs it if there are steps."""

    scan: NodeProto
    node: NodeProto
    body: GraphProto
    states: int
    backward: list[bool]
    out_backward: list[bool]

    @property
    def init(self) -> Sequence[str]:
        return self.scan.input[: self.states]

    @property
    def steps(self) -> Sequence[str]:
        return self.scan.input[self.states :]


class _Fuser:
    def __init__(self, model, kinds, equal):
        self.model, self.found = model, Found()
        self.values = Values(model, kinds, equal)
        self.codes: dict[str, str] = {}  # C with a place for the name -> the name
        self.types: dict[str, tuple[int, list[int]]] = {}  # name -> inputs, element types

    def run(self):
        self._graph(self.model.graph)
        self.found.kinds = len(self.codes)
        if not self.codes:
            return None, self.found
        self.model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return self._source(), self.found

    def _source(self):
        functions, rows, table = [], [], []
        for text, name in self.codes.items():
            functions.append(text.replace("@", named("R", text)))
            function = f"{named('R', text)}_run"
            count, kinds = self.types[name]
            numbers = ", ".join(map(str, kinds))
            table.append(f"Status *{function}(void *state, Context *context);")
            table.append(f"static const unsigned char {name}_types[] = {{{numbers}}};")
            sizes = f"{count}, {len(kinds) - count}"
            rows.append(f'  {{"{name}", {sizes}, {name}_types, {function}, 0}},')
        table += ["static const Row rows[] = {", *rows, "};", f'REGISTER("{DOMAIN}")', ""]
        loops = (Path(__file__).parent / "products.c").read_text("utf-8")
        return source("\n".join(table), functions, loops=loops)

    def _graph(self, graph):
        nodes = list(graph.node)
        makers = {y: k for k, node in enumerate(nodes) for y in node.output if y}
        readers = defaultdict(set)
        for k, node in enumerate(nodes):
            for x in _reads(node):
                readers[x].add(k)
        for v in graph.output:
            readers[v.name].add(-1)
        replaced, taken = {}, set()
        for k, node in enumerate(nodes):
            loop = _loop_of(node, nodes, makers, self.values)
            made = None if loop is None else self._replace(k, loop, nodes, makers, readers)
            if made is not None:
                replaced[k], inside = made
                taken |= inside
                continue
            for a in node.attribute:
                if a.type == a.GRAPH:
                    self._graph(a.g)
        if replaced:
            rest = [replaced.get(k, n) for k, n in enumerate(nodes) if k not in taken]
            rest = [NodeProto.FromString(n.SerializeToString()) for n in rest]
            del graph.node[:]
            graph.node.extend(rest)

    def _replace(self, k, loop, nodes, makers, readers):
        """The operator of a loop and the nodes that it takes in; None if it has none."""
        inside = self._taken_in(k, loop, nodes, makers, readers)
        for before in [inside, []] if inside else [[]]:
            try:
                node = self._operator(loop, [nodes[j] for j in before])
            except Unfit:
                continue
            self.found.loops += 1
            self.found.taken_in += len(before)
            return node, set(before)
        return None

    def _operator(self, loop, before):
        values, body = self.values, loop.body
        if not loop.states or "" in (*loop.init, *loop.steps, *loop.node.output):
            raise Unfit("no states")
        outer = set(loop.steps)
        made = {y for node in before for y in node.output}
        block = [v.name for v in body.input]
        states, slices = block[: loop.states], block[loop.states :]
        steps = {x: s for x, s in zip(slices, loop.steps, strict=True) if s not in made}
        steps |= {
            x: x
            for node in before
            for x in node.input
            if self._has_steps(x, loop) and x not in made
        }
        renamed = [
            helper.make_node("Identity", [s], [x])
            for x, s in zip(slices, loop.steps, strict=True)
            if s in made
        ]
        way = dict(zip(loop.steps, loop.backward, strict=True))
        if len(set(loop.backward)) > 1 and (before or len(outer) < len(loop.steps)):
            raise Unfit("one value is read in both directions")
        if loop.init[0] not in values or not values.dims(loop.init[0]):
            raise Unfit("a state has no rows")
        batch = values.dims(loop.init[0])[0]
        nodes = [*before, *renamed, *body.node]
        found = recurrence(nodes, states, steps, [v.name for v in body.output], values, batch)
        if 4 * sum(d * w for d, w in found.matrices.values()) > LOOP_BYTES:
            raise Unfit("the matrices are large")
        if len(set(inputs(found))) < len(inputs(found)):
            raise Unfit("a value is read in two ways")
        for key in found.steps:
            way.setdefault(key, loop.backward[0])
        name = self._named(found, way, loop.out_backward)
        return helper.make_node(
            name,
            [*loop.init, *inputs(found)],
            list(loop.node.output),
            loop.scan.name,
            domain=DOMAIN,
        )

    def _named(self, found: Recurrence, way, out_backward):
        """The name of the operator of a recurrence: one for all with the same code and types."""
        text = code(found, way, out_backward)
        kinds = types(found)
        text += f"/* {' '.join(map(str, kinds))} */\n"
        if text not in self.codes:
            name = self.codes[text] = f"R{len(self.codes)}"
            self.types[name] = len(found.states) + len(inputs(found)), kinds
        return self.codes[text]

    def _has_steps(self, x, loop):
        """Whether a value has the steps and rows of a loop along its first axes."""
        if x not in self.values or loop.steps[0] not in self.values:
            return False
        dims, like = self.values.dims(x), self.values.dims(loop.steps[0])
        return len(dims) == 3 and dims[:2] == like[:2]

    def _taken_in(self, k, loop, nodes, makers, readers):
        """Elementwise operators on all steps that only the loop reads, in order."""
        if len(set(loop.backward)) > 1:
            return []
        inside: set[int] = set()
        pending = [x for x in loop.steps if x in makers]
        while pending:
            j = makers[pending.pop()]
            node = nodes[j]
            if j in inside or not self._is_stepwise(node, loop):
                continue
            if any(readers[y] - inside - {k} for y in node.output):
                continue
            inside.add(j)
            pending += [x for x in node.input if x in makers]
        return sorted(inside)

    def _is_stepwise(self, node, loop):
        if node.op_type not in ELEMENTWISE or node.domain not in ("", "com.microsoft"):
            return False
        values = self.values
        if not all(y in values and self._has_steps(y, loop) for y in node.output):
            return False
        if any(x and x not in values for x in node.input):
            return False
        kinds = [values.kind(x) if x else 0 for x in node.input]
        scalars = [values.scalar(x) if x else None for x in node.input]
        if expression(node, kinds, values.kind(node.output[0]), scalars) is None:
            return False
        # what has another number of steps or rows is no value of a step
        return all(
            self._has_steps(x, loop) or len(values.dims(x)) < 2 or values.scalar(x) is not None
            for x in node.input
            if x
        )


def _reads(node: NodeProto) -> Iterator[str]:
    """The inputs of a node, with the outer values that its bodies read."""
    yield from (x for x in node.input if x)
    for a in node.attribute:
        if a.type == a.GRAPH:
            made = {v.name for v in a.g.input} | {t.name for t in a.g.initializer}
            made |= {y for inner in a.g.node for y in inner.output}
            names = [x for inner in a.g.node for x in _reads(inner)]
            yield from (x for x in [*names, *(v.name for v in a.g.output)] if x not in made)


def _loop_of(node, nodes, makers, values) -> _Loop | None:
    """The loop that a node is; None if it is none that has code."""
    if node.op_type == "Scan" and not node.domain:
        return _scan(node, node)
    if node.op_type != "If" or node.domain:
        return None
    given = attributes(node)
    branch = given["then_branch"]
    if len(branch.node) != 1 or branch.node[0].op_type != "Scan":
        return None
    scan = branch.node[0]
    if [v.name for v in branch.output] != list(scan.output):
        return None
    loop = _scan(scan, node)
    if loop is None or not _asks_for_steps(node.input[0], loop, nodes, makers, values):
        return None
    return loop


def _asks_for_steps(name, loop, nodes, makers, values) -> bool:
    """Whether a condition says that a loop has steps: the operator does not need to ask."""
    if name not in makers:
        return False
    node = nodes[makers[name]]
    if (
        node.op_type != "Greater"
        or values.scalar(node.input[1]) != 0
        or node.input[0] not in makers
    ):
        return False
    shape = nodes[makers[node.input[0]]]
    given = attributes(shape)
    if shape.op_type != "Shape" or (given.get("start", 0), given.get("end")) != (0, 1):
        return False
    x = shape.input[0]
    return x in values and values.dims(x)[:1] == values.dims(loop.steps[0])[:1]


def _scan(scan, node) -> _Loop | None:
    given = attributes(scan)
    body, xs = given["body"], given["num_scan_inputs"]
    states = len(scan.input) - xs
    ys = len(scan.output) - states
    axes = [*given.get("scan_input_axes", ()), *given.get("scan_output_axes", ())]
    if any(axes):
        return None
    backward = [bool(d) for d in given.get("scan_input_directions") or [0] * xs]
    out_backward = [bool(d) for d in given.get("scan_output_directions") or [0] * ys]
    return _Loop(scan, node, body, states, backward, out_backward)
