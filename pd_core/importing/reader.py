"""From the nodes of a file to Variables."""

import re
from dataclasses import dataclass, field

from onnx import TensorProto, defs, external_data_helper, numpy_helper

from ..graph.errors import DamagedModel, GraphError, ModelError, ShapeError
from ..graph.inference import CEILING, versions_of
from ..graph.node import apply, latest_serial, retyped
from ..graph.variable import Variable, fresh_dim, is_open, open_dim
from . import control, modes, quantized, sequences
from .flow import MOST
from .functions import function_of
from .loading import MALFORMED, STANDARD, said
from .sizes import FOLD_LIMIT, Sizes, folded, reshaped
from .versions import Operator, adapted, attribute_value, stored


@dataclass
class File:
    """State shared by all graphs of a file: functions by (domain, name), the folder of its tensors,
    whether a training step through it is one of its own training, its running statistics, up to
    how many elements constants are computed, the sizes that its inputs have, and what is known of
    the others.
    """

    functions: dict = field(default_factory=dict)
    folder: str | None = None
    training: bool = False
    statistics: frozenset = frozenset()
    fold_limit: int = FOLD_LIMIT
    given: frozenset = frozenset()
    callers: tuple = ()
    count: int = 0
    opened: dict = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)


class Reader:
    """The values of a graph by name, each read when it is asked for.

    `opsets` are versions by domain; `values` holds what is known before: inputs and stored
    tensors. `outer` is the reader of the graph around this one, `attributes` are those of the
    function that is read, `declared` the dims that the file promises, by name. `named` Variables
    get the names of the file.
    """

    def __init__(
        self,
        nodes,
        opsets,
        values,
        file,
        outer=None,
        attributes=None,
        declared=None,
        named=False,
    ):
        self.nodes, self.opsets, self.values = list(nodes), opsets, dict(values)
        self.file, self.outer, self.named = file, outer, named
        self.attributes, self.declared = attributes or {}, declared or {}
        self.version = next((v for d, v in opsets.items() if d in STANDARD), CEILING)
        self.done, self.inside = set(), False

    def outputs(self, names):
        """The values of these names; nodes that they do not need are not read."""
        wanted = self._needed(names)
        for k, node in enumerate(self.nodes):
            if k in wanted and k not in self.done:
                self._read(node)
                self.done.add(k)
        return [self.value(name) for name in names]

    def value(self, name):
        """A value that is there; None for an input that is left out."""
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if self.outer is not None:
            return self.outer.value(name)
        raise ModelError(f"nothing gives the value {name!r}")

    def body(self, graph, formals, inside=True):
        """The outputs of a graph in an attribute, for these values of its inputs.

        `inside` says that they are computed in a loop or a branch.
        """
        values = {t.name: stored(t, self.file.folder) for t in graph.initializer}
        values.update(zip((i.name for i in graph.input), formals, strict=True))
        inner = Reader(graph.node, self.opsets, values, self.file, self, attributes=self.attributes)
        inner.inside = self.inside or inside
        return inner.outputs([y.name for y in graph.output])

    def _needed(self, names):
        """The places of the nodes behind some values."""
        makers = {
            y: k
            for k, node in enumerate(self.nodes)
            for y in node.output
            if y and y not in self.values
        }
        found, left = set(), list(names)
        while left:
            k = makers.get(left.pop())
            if k is not None and k not in found:
                found.add(k)
                left += _names_read(self.nodes[k])
        return found

    def _read(self, proto):
        before = latest_serial()
        who = f"node {proto.name or next(filter(None, proto.output), '')!r}, {proto.op_type}"
        try:
            outputs = self._outputs(proto)
        except RecursionError:
            raise
        except (GraphError, ModelError) as error:
            kind = DamagedModel if isinstance(error, DamagedModel) else ModelError
            why = re.sub(r"^\w+: ", "", str(error))  # the function that was called is one of ours
            raise kind(f"{who}: {why}") from error.__cause__
        except MALFORMED as error:
            raise DamagedModel(f"{who}: {said(error)}") from error
        for name, value in zip(proto.output, outputs, strict=False):
            if self.named and isinstance(value, Variable) and _built_since(value, before):
                value.name = name
            self.values[name] = value

    def _outputs(self, proto):
        self.file.count += 1
        if self.file.count > MOST:
            raise DamagedModel(f"more than {MOST} operators, functions and bodies written out")
        inputs = [self.value(name) for name in proto.input]
        attributes = dict(self._attributes(proto))
        function = self.file.functions.get((proto.domain, proto.op_type))
        if function is not None:
            return self._called(function, inputs, attributes, len(proto.output))
        if proto.domain not in STANDARD:
            raise ModelError(
                f"the domain {proto.domain!r} is neither ONNX's own nor defined in the file\n"
                "  hint: output= cuts the model where this node is not needed"
            )
        count, declared = len(proto.output), self.declared.get(next(iter(proto.output), ""))
        return self.built(
            Operator(proto.op_type, inputs, attributes, count, self.version, declared)
        )

    def built(self, op):
        """The outputs of an operator of ONNX, a list."""
        if not defs.has(op.op_type, op.version):
            raise ModelError(f"ONNX has no such operator in opset {op.version}")
        least = defs.get_schema(op.op_type, op.version).min_input
        if len(op.inputs) < least:
            raise ModelError(f"it takes {least} inputs, {len(op.inputs)} are there")
        if op.op_type in control.readers:
            return control.readers[op.op_type](self, op)
        if op.op_type in sequences.readers:
            return sequences.readers[op.op_type](self, op)
        if any(isinstance(x, list) for x in op.inputs):
            return sequences.on_sequence(self, op)
        found = adapted(op)
        if found is not None:
            return [found]
        return (
            modes.switched(op, self.file.training, self.file.statistics, self.inside)
            or quantized.fake_quantized(op)
            or folded(op, self.file.fold_limit)
            or self.file.sizes.settled(op)
            or self._added(op)
        )

    def _added(self, op):
        if not versions_of(op.op_type, len(op.inputs), frozenset(op.attributes)):
            return self._expanded(op)
        found = reshaped(op) if op.op_type == "Reshape" else None
        found = found or _applied(op, self.file.sizes.dims(op))
        found = retyped(found, [[self._opened(d) for d in y.dims] for y in found])
        self.file.sizes.note(op, found)
        return found

    def _opened(self, d):
        """A size of the file: the inputs' are theirs, any other may turn out to be 1."""
        ours = isinstance(d, str) and d not in self.file.given and not is_open(d)
        return self.file.opened.setdefault(d, open_dim()) if ours else d

    def _expanded(self, op):
        """The outputs of an operator that no runtime has yet, by its body."""
        found = function_of(op.op_type, op.version, op.inputs, op.attributes, op.outputs)
        if found is None:
            raise ModelError(f"it is newer than opset {CEILING}, and is not made of others")
        return self._call(found[0], op.inputs, found[1], op.outputs)

    def _called(self, function, inputs, attributes, outputs):
        """`_call` of a function of the file, which does not call itself."""
        own = (function.domain, function.name)
        if own in self.file.callers:
            raise DamagedModel(f"the function {function.name!r} calls itself")
        self.file.callers += (own,)
        try:
            return self._call(function, inputs, attributes, outputs)
        finally:
            self.file.callers = self.file.callers[:-1]

    def _call(self, function, inputs, attributes, outputs):
        """The first outputs of a function of operators."""
        given = {a.name: attribute_value(a) for a in function.attribute_proto}
        values = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        opsets = {o.domain: o.version for o in function.opset_import}
        given.update(attributes)
        inner = Reader(function.node, opsets, values, self.file, attributes=given)
        inner.inside = self.inside
        return inner.outputs(function.output[:outputs])

    def _attributes(self, proto):
        """(name, value) of the attributes of a node, those of the function around it put in."""
        for a in proto.attribute:
            if not a.ref_attr_name:
                yield a.name, self._complete(attribute_value(a))
            elif a.ref_attr_name in self.attributes:
                yield a.name, self.attributes[a.ref_attr_name]

    def _complete(self, value):
        """The value of an attribute; a tensor that lies in another file is read."""
        if isinstance(value, TensorProto) and external_data_helper.uses_external_data(value):
            return numpy_helper.from_array(stored(value, self.file.folder).value)
        return value


def _built_since(value, serial):
    return value.node is not None and value.node.serial > serial


def _applied(op, known):
    """The outputs of the node that an operator becomes."""
    try:
        found = _node(op, known)
    except ShapeError:
        if known is not None or op.declared is None:
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
        op.op_type,
        *op.inputs,
        outputs=op.outputs,
        known=known,
        opset=op.version,
        **op.attributes,
    )


def _names_read(node):
    """The names that a node reads, its bodies included."""
    found = list(node.input)
    for a in node.attribute:
        for graph in [a.g, *a.graphs]:
            found += [name for inner in graph.node for name in _names_read(inner)]
            found += [y.name for y in graph.output]
    return found
