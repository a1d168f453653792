"""From the nodes of a file to Variables."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import (
    FunctionProto,
    GraphProto,
    NodeProto,
    TensorProto,
    defs,
    external_data_helper,
    numpy_helper,
)

from ...graph.errors import DamagedModel, GraphError, ModelError, ShapeError
from ...graph.inference import CEILING, versions_of
from ...graph.node import apply, latest_serial, retyped
from ...graph.size_entries import entries_of, settled_numbers
from ...graph.variable import Dim, Variable, fresh_dim, is_open, open_dim
from . import control, modes, quantized, sequences
from .broadcasting import MeetingSizes
from .classical import DOMAIN as CLASSICAL
from .flow import MAX_OPERATORS
from .functions import Key, called_by, function_of
from .fused import refusal
from .loading import MALFORMED, STANDARD, checked_opsets, first_line
from .low_bits import MICROSOFT
from .protocol import UnfitSizes, Value
from .single import with_ranks
from .sizes import FOLD_LIMIT, folded, reshaped
from .text import LABELS, Text, on_labels, on_text, stored_value, text_of
from .versions import Operator, adapted, attribute_value, stored

_CUT = "  hint: output= cuts the model where this node is not needed"
_ON_INTEGERS = re.compile("QLinear|QGemm|QAttention|DynamicQuantize|MatMulInteger|NhwcMaxPool")
# (node, its inputs) -> the inputs that it is built with
Operands = Callable[[NodeProto, list[Value]], list[Value]]


@dataclass
class File:
    """State shared by the readers of all graphs of a file.

    functions   by (domain, name, overload)
    folder      of its external tensors
    training    whether BatchNormalization and Dropout train in a training step
    statistics  running statistics
    fold_limit  elements up to which constants are folded
    input_sizes dims of the inputs of this call
    freed       batch sizes that the file fixes, by the dims that they have in this call
    callers     functions whose bodies are being read, outermost first
    count       operators read so far
    opened      sizes that may turn out to be 1, by the size that inference gave
    meeting     which sizes of inputs may be 1
    operands    replaces the inputs of nodes of the outermost graph
    """

    functions: dict[Key, FunctionProto] = field(default_factory=dict)
    folder: str | None = None
    training: bool = False
    statistics: frozenset[Variable] = frozenset()
    fold_limit: int = FOLD_LIMIT
    input_sizes: frozenset[Dim] = frozenset()
    freed: Mapping[Dim, int] = field(default_factory=dict)
    callers: tuple[Key, ...] = ()
    count: int = 0
    opened: dict[str, str] = field(default_factory=dict)
    meeting: MeetingSizes = field(default_factory=MeetingSizes)
    operands: Operands | None = None


class Reader:
    """The values of a graph by name, each built when it is first asked for.

    `opsets` are versions by domain; `values` holds the inputs and stored tensors. `outer` is the
    reader of the enclosing graph, `attributes` are those of the function that is read, `declared`
    the dims of values by name as far as the file and shape inference give them. With `named`,
    Variables get the names of the file.
    """

    def __init__(
        self,
        nodes: Iterable[NodeProto],
        opsets: Mapping[str, int],
        values: Mapping[str, Value],
        file: File,
        outer: "Reader | None" = None,
        attributes: Mapping | None = None,
        declared: Mapping[str, tuple | None] | None = None,
        named: bool = False,
    ):
        self.nodes, self.opsets, self.values = list(nodes), opsets, dict(values)
        self.file, self.outer, self.named = file, outer, named
        self.attributes, self.declared = attributes or {}, declared or {}
        self.version = next((v for d, v in opsets.items() if d in STANDARD), CEILING)
        self.done: set[int] = set()
        self.inside = False

    def outputs(self, names: Sequence[str]) -> Sequence[Value]:
        """Return the values of these names; nodes that they do not depend on are not read."""
        wanted = self._ancestors(names)
        for k, node in enumerate(self.nodes):
            if k in wanted and k not in self.done:
                self._read(node)
                self.done.add(k)
        return [self.value(name) for name in names]

    def value(self, name: str) -> Value:
        """Look up a value that has been read; None for an optional input that is left out."""
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if self.outer is not None:
            return self.outer.value(name)
        raise ModelError(f"nothing gives the value {name!r}")

    def read_body(
        self, graph: GraphProto, block_inputs: Iterable[Value], inside: bool = True
    ) -> Sequence[Value]:
        """Read the body of a loop or branch for these values of its inputs; return its outputs.

        `inside=False` is for a branch that is certain to run, and becomes part of this graph.
        """
        folder = self.file.folder
        values: dict[str, Value] = {t.name: stored_value(t, folder) for t in graph.initializer}
        values.update(zip((i.name for i in graph.input), block_inputs, strict=True))
        inner = Reader(graph.node, self.opsets, values, self.file, self, attributes=self.attributes)
        inner.inside = self.inside or inside
        return inner.outputs([y.name for y in graph.output])

    def _ancestors(self, names):
        """Return the indices of the nodes that some values depend on."""
        producers = {
            y: k
            for k, node in enumerate(self.nodes)
            for y in node.output
            if y and y not in self.values
        }
        ancestors, stack = set(), list(names)
        while stack:
            k = producers.get(stack.pop())
            if k is not None and k not in ancestors:
                ancestors.add(k)
                stack += _names_read(self.nodes[k])
        return ancestors

    def _read(self, proto):
        before = latest_serial()
        who = f"node {proto.name or next(filter(None, proto.output), '')!r}, {proto.op_type}"
        try:
            outputs = self._outputs(proto)
        except RecursionError:
            raise
        except (GraphError, ModelError) as error:
            kind = DamagedModel if isinstance(error, DamagedModel) else ModelError
            if isinstance(error, (ShapeError, UnfitSizes)):
                kind = UnfitSizes
            why = re.sub(r"^\w+: ", "", str(error))  # the name of an op function, not of the file
            raise kind(f"{who}: {why}") from error.__cause__
        except MALFORMED as error:
            raise DamagedModel(f"{who}: {first_line(error)}") from error
        for name, value in zip(proto.output, outputs, strict=False):
            if self.named and isinstance(value, Variable) and _built_since(value, before):
                value.name = name
            self.values[name] = value

    def _outputs(self, proto):
        self.file.count += 1
        if self.file.count > MAX_OPERATORS:
            raise DamagedModel(
                f"more than {MAX_OPERATORS} operators, functions and bodies written out"
            )
        names = list(proto.input)
        while names and not names[-1]:  # optional inputs that are left out at the end
            names.pop()
        inputs = [self.value(name) for name in names]
        if self.named and self.file.operands is not None:
            inputs = self.file.operands(proto, inputs)
        attributes = dict(self._attributes(proto))
        function = self.file.functions.get(called_by(proto))
        if function is not None:
            return self._call_once(function, inputs, attributes, len(proto.output))
        if proto.domain not in STANDARD:
            if proto.domain == MICROSOFT and _ON_INTEGERS.match(proto.op_type):
                raise ModelError(
                    "ONNX Runtime's own operator on 8-bit integers has no gradient\n"
                    "  hint: quantize the float model in the format QDQ (QuantFormat.QDQ)"
                )
            if proto.domain == CLASSICAL and proto.op_type in LABELS:
                op = Operator(proto.op_type, inputs, attributes, len(proto.output), self.version)
                return on_labels(self, op)
            if proto.domain.startswith(MICROSOFT):
                raise ModelError(refusal(proto.domain))
            raise ModelError(
                f"the domain {proto.domain!r} is neither ONNX's own nor defined in the file\n{_CUT}"
            )
        count, declared = len(proto.output), self.declared.get(next(iter(proto.output), ""))
        return self.built(
            Operator(proto.op_type, inputs, attributes, count, self.version, declared)
        )

    def built(self, op: Operator) -> Sequence[Value]:
        """Build an operator of ONNX; return its outputs."""
        if not defs.has(op.op_type, op.version):
            raise ModelError(f"ONNX has no such operator in opset {op.version}")
        least = defs.get_schema(op.op_type, op.version).min_input
        if len(op.inputs) < least:
            raise ModelError(f"it takes {least} inputs, {len(op.inputs)} are there")
        text = text_of(op)
        if text is not None:
            return [text]
        if any(isinstance(x, Text) for x in op.inputs) and op.op_type not in sequences.readers:
            return on_text(self, op)
        op = with_ranks(op)
        if op.op_type in control.readers:
            return control.readers[op.op_type](self, op)
        if op.op_type in sequences.readers:
            return sequences.readers[op.op_type](self, op)
        if any(isinstance(x, list) for x in op.inputs):
            return sequences.on_sequence(self, op)
        output = adapted(op)
        if output is not None:
            return [output]
        return (
            modes.switched(op, self.file.training, self.file.statistics, self.inside)
            or quantized.fake_quantized(op)
            or folded(op, self.file.fold_limit)
            or self._added(op)
        )

    def _added(self, op):
        if not versions_of(op.op_type, len(op.inputs), frozenset(op.attributes)):
            return self._expanded(op)
        target = entries_of(op.inputs[1]) if op.op_type == "Expand" else None
        op = self.file.meeting.with_open_operands(op, target)
        found = reshaped(op, self.file.freed) if op.op_type == "Reshape" else None
        found = found or _applied(op)
        found = retyped(found, [[self._opened(d) for d in y.dims] for y in found])
        self.file.meeting.note(op, found)
        return [settled_numbers(y) for y in found]

    def _opened(self, d):
        """Replace a size that is not one of the inputs' by one that may turn out to be 1."""
        inferred = isinstance(d, str) and d not in self.file.input_sizes and not is_open(d)
        return self.file.opened.setdefault(d, open_dim()) if inferred else d

    def _expanded(self, op):
        """Expand an operator that no runtime has yet to its body; return its outputs."""
        function = function_of(op.op_type, op.version, op.inputs, op.attributes, op.outputs)
        if function is None:
            raise ModelError(f"it is newer than opset {CEILING}, and is not made of others")
        body, attributes = function
        return self._call(body, op.inputs, attributes, op.outputs)

    def _call_once(self, function, inputs, attributes, outputs):
        """Call a function of the file; DamagedModel if it calls itself."""
        key = (function.domain, function.name, function.overload)
        if key in self.file.callers:
            raise DamagedModel(f"the function {function.name!r} calls itself")
        self.file.callers += (key,)
        try:
            return self._call(function, inputs, attributes, outputs)
        finally:
            self.file.callers = self.file.callers[:-1]

    def _call(self, function, inputs, attributes, outputs):
        """Read the body of a function for these inputs; return its first outputs."""
        defaults = {a.name: attribute_value(a) for a in function.attribute_proto}
        values = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        opsets = checked_opsets(f"the function {function.name!r}", function.opset_import)
        inner = Reader(
            function.node, opsets, values, self.file, attributes={**defaults, **attributes}
        )
        inner.inside = self.inside
        return inner.outputs(function.output[:outputs])

    def _attributes(self, proto):
        """Yield (name, value) of the attributes of a node, with references to the function's."""
        for a in proto.attribute:
            if not a.ref_attr_name:
                yield a.name, self._loaded(attribute_value(a))
            elif a.ref_attr_name in self.attributes:
                yield a.name, self.attributes[a.ref_attr_name]

    def _loaded(self, value):
        """Return the value of an attribute; load a tensor that is stored in another file."""
        if isinstance(value, TensorProto) and external_data_helper.uses_external_data(value):
            array: Any = stored(value, self.file.folder).value
            return numpy_helper.from_array(array)
        return value


def _built_since(value, serial):
    return value.node is not None and value.node.serial > serial


def _applied(op):
    """Add the node of an operator; return its outputs, with the dims that the file declares."""
    try:
        found = _node(op, None)
    except ShapeError:
        if op.declared is None:
            raise
        found = _node(op, tuple(fresh_dim() if d is None else d for d in op.declared))
    found = list(found) if isinstance(found, tuple) else [found]
    if op.declared is not None and len(op.declared) == found[0].rank:
        pairs = zip(found[0].dims, op.declared, strict=True)
        first = [d if isinstance(d, int) or e is None else e for d, e in pairs]
        found = retyped(found, [first, *(y.dims for y in found[1:])])
    return found


def _node(op, known):
    return apply(
        op.op_type, *op.inputs, outputs=op.outputs, known=known, opset=op.version, **op.attributes
    )


def _names_read(node):
    """Return the names that a node and its bodies read."""
    names = list(node.input)
    for a in node.attribute:
        for graph in [a.g, *a.graphs]:
            names += [name for inner in graph.node for name in _names_read(inner)]
            names += [y.name for y in graph.output]
    return names
