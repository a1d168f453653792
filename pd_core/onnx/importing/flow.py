"""The operators of a file as one list, with bodies and functions inlined."""

from collections import ChainMap, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from onnx import FunctionProto, GraphProto

from ...graph.errors import DamagedModel
from .functions import Key, called_by

MAX_OPERATORS = 100_000  # of a model with its functions inlined


@dataclass(eq=False, slots=True)
class Step:
    """An operator with the names of its inputs and outputs.

    The operator `Pass` hands a value into or out of a body.
    """

    op_type: str
    inputs: list
    outputs: list
    attributes: dict = field(default_factory=dict)


class Flow:
    """All operators of a model in order.

    `producer` is the step of each value, `readers` are the (step, index of the input) of each.
    Values of the main graph have their names in the file. Steps that compute only values in
    `known` are left out.
    """

    def __init__(
        self,
        graph: GraphProto,
        functions: dict[Key, FunctionProto],
        known: Iterable[str] = (),
    ):
        self.known, self.functions = set(known), functions
        self.steps: list[Step] = []
        self.producer: dict[str, Step] = {}
        self.readers: dict[str, list[tuple[Step, int]]] = defaultdict(list)
        self._inline(graph.node, ChainMap(), outer=True, callers=())
        for step in self.steps:
            self.producer.update(dict.fromkeys(step.outputs, step))
            for k, name in enumerate(step.inputs):
                if name:
                    self.readers[name].append((step, k))

    def _inline(self, nodes, names, outer, callers):
        """Add nodes; `names` maps the names of this graph to those of the flow."""
        for node in nodes:
            inputs = [names.get(n, n) for n in node.input]
            for y in node.output:
                names[y] = y if outer else f"{y}@{len(self.steps)}"
            outputs = [names[y] if y else "" for y in node.output]
            function = called_by(node)
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
        if len(self.steps) > MAX_OPERATORS:
            raise DamagedModel(
                f"its functions are more than {MAX_OPERATORS} operators when written out"
            )

    def _call(self, function, inputs, outputs, callers):
        if function in callers:
            raise DamagedModel(f"the function {function[1]!r} calls itself")
        body = self.functions[function]
        names = ChainMap(dict.fromkeys(body.input, ""))
        names.update(zip(body.input, inputs, strict=False))
        self._inline(body.node, names, False, (*callers, function))
        for name, y in zip(body.output, outputs, strict=False):
            self._add("Pass", [names.get(name, name)], [y])

    def _body(self, op_type, body, inputs, outputs, names, callers):
        inner = names.new_child({i.name: f"{i.name}@{len(self.steps)}" for i in body.input})
        first = 2 if op_type == "Loop" else 0  # after the iteration number and the condition
        for info, x in list(zip(body.input, inputs, strict=False))[first:]:
            self._add("Pass", [x], [inner[info.name]])
        self._inline(body.node, inner, False, callers)
        results = [inner.get(y.name, y.name) for y in body.output][op_type == "Loop" :]
        for name, y in zip(results, outputs, strict=False):
            self._add("Pass", [name], [y])
