"""Nodes of ONNX Runtime's own operators as calls of functions, whose bodies are text."""

from collections.abc import Sequence
from typing import Any

from onnx import FunctionProto, NodeProto, helper, parser

from ...graph.errors import ModelError
from ...graph.inference import OPSET
from .low_bits import MICROSOFT


class Call:
    """A node of a fused operator, of which a function is made."""

    def __init__(self, node: NodeProto, dims: dict[str, tuple], doubles: set[str]):
        self.node = node
        self.in_double = any(name in doubles for name in node.input)
        self.inputs = [f"x{k}" if name else "" for k, name in enumerate(node.input)]
        self.dims = [dims.get(name) for name in node.input]
        self.ranks = [None if d is None else len(d) for d in self.dims]
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def key(self) -> tuple:
        """Return what the function depends on but for its body."""
        return tuple(self.inputs), len(self.node.output)

    def fail(self, why: str) -> ModelError:
        """Return the error of this node."""
        name = self.node.name or next(filter(None, self.node.output), "")
        return ModelError(f"node {name!r}, {self.node.op_type}: {why}")

    def has(self, k: int) -> bool:
        """Whether the k-th input is there."""
        return k < len(self.inputs) and bool(self.inputs[k])

    def reads(self, k: int) -> bool:
        """Whether the k-th output is there."""
        return k < len(self.node.output) and bool(self.node.output[k])

    def rank(self, k: int, why: str) -> int:
        """Return the rank of the k-th input; ModelError if the file does not give it."""
        rank = self.ranks[k]
        if rank is None:
            raise self.fail(f"the file does not give the rank of {self.node.input[k]!r}, and {why}")
        return rank

    def get(self, name: str, default: Any) -> Any:
        """Return an attribute, or its default."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def refuse_statistics(self, *outputs: int) -> None:
        """Raise a ModelError for outputs that a kernel does not compute in inference."""
        for k in outputs:
            if self.reads(k):
                raise self.fail(f"its output {k}, {self.node.output[k]!r}, is for training")

    def function(self, name: str, body: str) -> FunctionProto:
        """Return a function of this body."""
        formals = ", ".join(x or f"left_out{k}" for k, x in enumerate(self.inputs))
        outputs = ", ".join(f"y{k}" for k in range(len(self.node.output)))
        head = f'<opset_import: ["": {OPSET}], domain: "{MICROSOFT}"> called ({formals})'
        function = parser.parse_function(f"{head} => ({outputs}) {{ {body} }}")
        function.name = name
        given = {y for node in function.node for y in node.output}
        for k, y in enumerate(function.output):
            if y not in given:  # it is left out at the call
                function.node.append(helper.make_node("Identity", ["x0"], [f"y{k}"]))
        return function


def number_text(name: str, value: float, like: str = "x0") -> str:
    """Return text that gives a number in the element type of a value."""

    return f"{name}_f = Constant<value_float = {value!r}>() {name} = CastLike({name}_f, {like})\n"


def axes_text(name: str, values: Sequence[int]) -> str:
    """Return text that gives a vector of whole numbers."""
    return f"{name} = Constant<value_ints = {list(values)}>()\n"
