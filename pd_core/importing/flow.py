"""The operators of a file as one list, bodies and functions written out where they are used."""

from collections import ChainMap, defaultdict
from dataclasses import dataclass, field

from ..graph.errors import DamagedModel

MOST = 100_000  # operators of a model, its functions written out


@dataclass(eq=False, slots=True)
class Step:
    """An operator, and the values that it reads and gives.

    `Pass` hands a value into or out of a body.
    """

    op_type: str
    inputs: list
    outputs: list
    attributes: dict = field(default_factory=dict)


class Flow:
    """All operators of a model in order, who gives a value, and who reads it.

    Values of the main graph have their names in the file. What gives only values that are `known`
    is left out.
    """

    def __init__(self, graph, functions, known=()):
        self.known, self.functions, self.steps = set(known), functions, []
        self.maker, self.readers = {}, defaultdict(list)
        self._write(graph.node, ChainMap(), outer=True, callers=())
        for step in self.steps:
            self.maker.update(dict.fromkeys(step.outputs, step))
            for k, name in enumerate(step.inputs):
                if name:
                    self.readers[name].append((step, k))

    def _write(self, nodes, names, outer, callers):
        for node in nodes:
            inputs = [names.get(n, n) for n in node.input]
            for y in node.output:
                names[y] = y if outer else f"{y}@{len(self.steps)}"
            outputs = [names[y] if y else "" for y in node.output]
            function = (node.domain, node.op_type)
            bodies = [a for a in node.attribute if a.HasField("g")]
            if function in self.functions:
                self._call(function, inputs, outputs, callers)
            elif bodies:
                for a in bodies:
                    self._body(node.op_type, a.g, inputs, outputs, names, callers)
            else:
                self._add(node.op_type, inputs, outputs, {a.name: a.i for a in node.attribute})

    def _add(self, op_type, inputs, outputs, attributes=None):
        if outputs and self.known.issuperset(outputs):
            return
        self.steps.append(Step(op_type, inputs, outputs, attributes or {}))
        if len(self.steps) > MOST:
            raise DamagedModel(f"its functions are more than {MOST} operators when written out")

    def _call(self, function, inputs, outputs, callers):
        if function in callers:
            raise DamagedModel(f"the function {function[1]!r} calls itself")
        body = self.functions[function]
        names = ChainMap(dict.fromkeys(body.input, ""))
        names.update(zip(body.input, inputs, strict=False))
        self._write(body.node, names, False, (*callers, function))
        for given, y in zip(body.output, outputs, strict=False):
            self._add("Pass", [names.get(given, given)], [y])

    def _body(self, op_type, body, inputs, outputs, names, callers):
        inner = names.new_child({i.name: f"{i.name}@{len(self.steps)}" for i in body.input})
        first = 2 if op_type == "Loop" else 0  # the formals before are its number and condition
        for info, x in list(zip(body.input, inputs, strict=False))[first:]:
            self._add("Pass", [x], [inner[info.name]])
        self._write(body.node, inner, False, callers)
        given = [inner.get(y.name, y.name) for y in body.output][op_type == "Loop" :]
        for name, y in zip(given, outputs, strict=False):
            self._add("Pass", [name], [y])
