"""From a Graph to an ONNX model: numbering, constants, and the protobuf."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import PurePath

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from ..graph.inference import OPSET, attribute, type_proto
from ..graph.layers import captured, layers_of
from ..graph.node import Node, ancestors
from ..graph.site import Site
from ..graph.size_reads import Filled, at_most
from ..graph.variable import Variable, constant, size_reads
from .base import Graph
from .merging import Merging

GATHER_OF_ONE = "Gather of one"  # stands beside the types of operators
_SEEN_THROUGH = {"Identity", "Cast", "Dropout", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}
_SEEN_THROUGH |= {"Transpose", "Expand"}
_LARGE = 1 << 20  # bytes; of larger constants with one value a file has only that value
IR_VERSION = 10  # what runtimes since ONNX Runtime 1.18 and web builds load


@dataclass
class Lowered:
    """A model, and the names in it."""

    model: ModelProto
    names: dict[Variable, str]  # value names
    sites: dict[str, Site | None] = field(default_factory=dict)  # node name -> (file, line)
    outputs: list[str] = field(default_factory=list)  # a value name for each of graph.outputs
    op_types: set[str] = field(default_factory=set)  # of its operators, bodies included
    # of (operator type, type of one that reads it); views and casts between them do not count
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    is_foldable: bool = True  # whether an operator reads constants alone
    has_doubles: bool = False  # whether there are products of matrices of float64
    is_merged: bool = False  # whether equal operators are one
    values: dict[str, Variable] = field(default_factory=dict)  # by name, those of bodies too


def lower(
    graph: Graph,
    initializers: Mapping[Variable, np.ndarray] | None = None,
    dims: Mapping[str, str] | None = None,
    outputs: Sequence[str] | None = None,
    name: str = "pd",
    opset: int | None = None,
    layers: Mapping[Variable, Variable] | None = None,
) -> Lowered:
    """Return a graph as an ONNX model with `graph.inputs` and `graph.outputs` in that order.

    Nodes are numbered by namespace and operator in topological order, so that the same program
    always gives the same file. States in `initializers` are stored in the file with these arrays
    instead of being inputs; `dims` renames symbolic sizes in the declared types; `outputs` are the
    names of the first outputs, those of the fetched variables if None. The model is of `opset`,
    that of the newest operator if None, and of the IR version that goes with it.
    With `layers` nodes are named by their layers, and the model has the types of all values and
    the lines that built the nodes; it maps constants to the parameters that they stand for.
    """
    outputs = [v.name for v in graph.fetches] if outputs is None else outputs
    return _Writer(graph, initializers or {}, dims or {}, outputs, opset, layers).model(name)


def _fill(array):
    """The single value that fills a large array, as an array of one element; None otherwise."""
    if array.nbytes < _LARGE:
        return None
    bits = array.reshape(-1).view(f"u{array.itemsize}")  # -0.0 and 0.0 differ in bits
    same = bits[-1] == bits[0] and (bits == bits[0]).all()
    return array.reshape(-1)[:1].copy() if same else None


def _record_filled(x, name):
    """Note a constant whose sizes are sizes; a large one is computed, which is another model."""
    reads = size_reads.get()
    if reads is not None:
        dims = x.filling[0]
        reads.filled[name] = x.filling
        if not at_most(dims, _LARGE - 1, x.dtype.itemsize):
            reads.fix(dims)


class _Writer:
    def __init__(self, graph, initializers, dims, outputs, opset, layers):
        self.graph, self.initializers = graph, initializers
        self.dims, self.wanted = dict(dims), outputs
        self.names: dict[Variable, str] = {}
        self.sites: dict[str, Site | None] = {}
        self.taken: set[str] = set()
        self.depth = 0  # of the body that is written
        self.numbers: Counter[str] = Counter()
        self.first: list[NodeProto] = []
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.constants: dict[tuple, str] = {}
        self.opset, self.newest = opset, OPSET
        self.known = layers
        self.layers: dict[Node, str] = {}
        self.types: list[ValueInfoProto] = []
        self.domains: set[str] = set()
        self.op_types: set[str] = set()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.origins: dict[str, tuple[str, ...]] = {}  # value name -> types in `pairs`
        self.attributes: dict[int, list[AttributeProto]] = {}  # by kind of operator
        self.is_foldable = self.has_doubles = False
        self.values: dict[str, Variable] = {}
        self.merging = Merging(graph.sizes) if graph.prepared else None
        self.outputs = graph.outputs
        self.kept: set[Variable] = set()  # outputs that are copies of what others read

    def model(self, name):
        for v in self.graph.inputs:
            self._claim(v, v.name)
        fixed = {v: array for v, array in self.initializers.items() if v in self.names}
        self.tensors += [
            numpy_helper.from_array(array, self.names[v]) for v, array in fixed.items()
        ]
        order = ancestors(self.graph.outputs, stop=set(self.graph.inputs))
        order = self._remaining(order, self.graph.outputs)
        if self.merging is not None:
            same = self.merging.same
            self.outputs = tuple([same.get(v, v) for v in self.graph.outputs])
        self.kept = self._transposed_factors(order)
        self._reserve()
        if self.known is not None:
            self.layers.update(layers_of(order, self.known))
        for node in order:
            self._node(node)
        outputs = self._outputs()
        declared = set(outputs)
        proto = helper.make_graph(
            [*self.first, *self.nodes],
            name,
            [self._typed(v, self.names[v]) for v in self.graph.inputs if v not in fixed],
            [self._typed(v, n) for v, n in zip(self.outputs, outputs, strict=True)],
            self.tensors,
            value_info=[t for t in self.types if t.name not in declared],
        )
        opset = self.newest if self.opset is None else self.opset
        opsets = [helper.make_opsetid("", opset)]
        others = [helper.make_opsetid(domain, 1) for domain in sorted(self.domains)]
        other = opset != OPSET
        model = helper.make_model(
            proto,
            opset_imports=opsets + others,
            ir_version=helper.find_min_ir_version_for(opsets) if other else IR_VERSION,
            producer_name="pd",
        )
        lowered = Lowered(model, self.names, self.sites, outputs, self.op_types)
        lowered.pairs, lowered.is_foldable = self.pairs, self.is_foldable
        lowered.has_doubles = self.has_doubles
        lowered.is_merged, lowered.values = self.merging is not None, self.values
        return lowered

    def _remaining(self, order, outputs):
        """The operators of a graph or a body that are written, in their order."""
        return order if self.merging is None else self.merging.remaining(order, outputs)

    def _reserve(self):
        """Give the outputs that are computed the names that are wanted."""
        for v, name in zip(self.outputs, self.wanted, strict=False):
            if v not in self.names and v.node is not None and v not in self.kept:
                self._claim(v, name)

    def _transposed_factors(self, order):
        """The outputs that are a transpose, and a factor of a product to which something is added.

        With another transpose as the other factor or as what is added.
        ONNX Runtime 1.31 makes a Gemm of these, in which it looks for all transposes at once, and
        loses the one that is an output of the graph: a copy of it is the output.
        """
        outputs = {v for v in self.outputs if v.is_output_of("Transpose")}
        found: set[Variable] = set()
        if not outputs:
            return found
        products: dict[Variable, set[Variable]] = {}
        paired: set[Variable] = set()  # products of two transposes
        for node in order:
            inputs = node.inputs
            if self.merging is not None:
                same = self.merging.same
                inputs = [same.get(x, x) for x in self.merging.inputs(node)]
            if node.op_type in ("MatMul", "Gemm"):
                products[node.outputs[0]] = outputs.intersection(inputs[:2])
                if all(x.is_output_of("Transpose") for x in inputs[:2]):
                    paired.add(node.outputs[0])
            terms = inputs[:2] if node.op_type == "Add" else ()
            if node.op_type == "Gemm" and len(inputs) > 2:
                terms = (node.outputs[0], inputs[2])
            if not any(x is not None and x.is_output_of("Transpose") for x in terms):
                terms = [x for x in terms if x in paired]
            found.update(*[products.get(x, ()) for x in terms])
        return found

    def _claim(self, v, name):
        self.names[v] = self._free(name)
        self.values[self.names[v]] = v

    def _free(self, name):
        free, k = name, 0
        while free in self.taken:
            k += 1
            free = f"{name}_{k}"
        self.taken.add(free)
        return free

    def _number(self, node):
        layer = self.layers.get(node)
        key = node.scope + node.op_type if layer is None else f"{layer}/{node.op_type}".lstrip("/")
        number = self.numbers[key]
        self.numbers[key] += 1
        return self._free(f"{key}_{number}" if number else key)

    def _node(self, node):
        self.newest = max(self.newest, node.opset)
        self.domains.update([node.domain] if node.domain else [])
        self.op_types.add(node.op_type)
        name = self._number(node)
        for k, y in enumerate(node.outputs):
            if y not in self.names:
                self._claim(y, f"{name}_out{k}" if k else f"{name}_out")
        inputs = node.inputs if self.merging is None else self.merging.inputs(node)
        explicit = inputs[: len(inputs) - len(node.captures)] if node.blocks else inputs
        names = ["" if x is None else self._value(x) for x in explicit]
        while names and not names[-1]:
            names.pop()
        proto = NodeProto(
            name=name,
            op_type=node.op_type,
            domain=node.domain,
            input=names,
            output=[self.names[y] for y in node.outputs],
        )
        self._note(node, names, inputs)
        if node.attributes:
            if node.kind not in self.attributes:
                own = [attribute(k, v) for k, v in node.attributes.items()]
                self.attributes[node.kind] = own
            proto.attribute.extend(self.attributes[node.kind])
        for key, block in node.blocks.items():
            proto.attribute.append(attribute(key, self._body(node, block, f"{name}_{key}")))
        if self.known is not None and node.site is not None:
            proto.doc_string = f"{PurePath(node.site[0]).name}:{node.site[1]}"
        self.nodes.append(proto)
        self.sites[name] = node.site
        if self.known is not None and not self.depth:
            self.types += [self._typed(y, self.names[y], self._known_size) for y in node.outputs]

    def _note(self, node, names, inputs):
        """Note what ONNX Runtime's optimizers might find at an operator."""
        op_type, origins = node.op_type, self.origins
        if op_type == "MatMul" and node.outputs[0].dtype == np.float64:
            self.has_doubles = True
        before = [origins[name] for name in names if name in origins]
        for types in before:
            for each in types:
                self.pairs[each, op_type] += 1
        if op_type == "Gather" and inputs[1].value is not None and inputs[1].value.size == 1:
            self.op_types.add(GATHER_OF_ONE)
        seen = (op_type,)
        if op_type in _SEEN_THROUGH and before:
            seen = tuple({op_type, *before[0]})
        for y in node.outputs:
            origins[self.names[y]] = seen
        constants = not before and all(x is None or x.value is not None for x in inputs)
        self.is_foldable = self.is_foldable or constants or op_type == "If"

    def _body(self, node, block, name):
        """The graph of a body; it reads what it captured by the names of the outer graph."""
        outer, self.nodes = self.nodes, []
        self.depth += 1
        order = ancestors(block.outputs, stop=set(block.inputs))
        own = [*block.inputs, *(y for inner in order for y in inner.outputs)]
        read = [self._value(x) for x in node.captures]
        shadowed = {v: self.names.pop(v) for v in own if v in self.names}
        merged = None if self.merging is None else self.merging.enter(order)
        self.names.update(zip(block.captured, read, strict=True))
        for k, block_input in enumerate(block.block_inputs):
            self._claim(block_input, f"{name}_in{k}")
        inside = self._remaining(order, block.outputs)
        if self.known is not None:
            self.known = {**self.known, **captured(node, self.known)}
            self.layers.update(layers_of(inside, self.known))
        for inner in inside:
            self._node(inner)
        outputs = self._copied(block.outputs, {self.names[v] for v in block.inputs})
        proto = helper.make_graph(
            self.nodes,
            name,
            [self._typed(v, self.names[v]) for v in block.block_inputs],
            [self._typed(v, n) for v, n in zip(block.outputs, outputs, strict=True)],
        )
        for v in own:  # another body may have them, too
            self.names.pop(v, None)
        self.names.update(shadowed)
        if self.merging is not None and merged is not None:
            self.merging.leave(order, merged)
        self.nodes = outer
        self.depth -= 1
        return proto

    def _value(self, x):
        if self.merging is not None:
            x = self.merging.same.get(x, x)
        if x not in self.names:
            self.names[x] = self._constant(x)
        return self.names[x]

    def _constant(self, x):
        """The initializer of a constant; equal ones are stored once, large fillings computed."""
        value = x.array() if isinstance(x, Filled) else x.value
        fill = _fill(value)
        key = (x.dtype.str, value.shape, value.tobytes() if fill is None else fill.tobytes())
        if key not in self.constants:
            name = self._free(x.name if x.name != "const" else f"const_{len(self.constants)}")
            self.constants[key] = name
            if isinstance(x, Filled):
                _record_filled(x, name)
            if fill is None:
                self.tensors.append(numpy_helper.from_array(value, name))
            else:
                self._filled(name, value.shape, fill)
        return self.constants[key]

    def _filled(self, name, shape, fill):
        """A value that the model computes from its shape, before all other nodes."""
        self.is_foldable = True
        sizes = self._constant(constant(np.array(shape, np.int64)))
        proto = NodeProto(name=name, op_type="ConstantOfShape", input=[sizes], output=[name])
        proto.attribute.append(attribute("value", numpy_helper.from_array(fill, "value")))
        self.first.append(proto)

    def _outputs(self):
        """A value name for each output of the model."""
        inputs = {self.names[v] for v in self.graph.inputs}
        return self._copied(self.outputs, inputs, self.wanted)

    def _copied(self, outputs, inputs, wanted=()):
        """A name for each output of a graph; an input, or an output already, is copied."""
        names: list[str] = []
        for v, want in zip_longest(outputs, wanted):
            name = self._value(v)
            if name in inputs or name in names or v.value is not None or v in self.kept:
                free = want is not None and want not in self.taken
                copy = self._free(want if free else f"{name}_out")
                self.is_foldable = self.is_foldable or v.value is not None
                if v in self.kept:  # ONNX Runtime takes an Identity out before it makes a Gemm
                    node = helper.make_node("Concat", [name], [copy], copy, axis=0)
                else:
                    node = NodeProto(name=copy, op_type="Identity", input=[name], output=[copy])
                self.nodes.append(node)
                name = copy
            names.append(name)
        return names

    def _typed(self, v, name, size=None):
        proto = type_proto(v)
        for d in proto.tensor_type.shape.dim:
            if d.HasField("dim_param"):
                d.dim_param = (size or self._new_size)(d.dim_param)
        return ValueInfoProto(name=name, type=proto)

    def _new_size(self, name):
        return self.dims.setdefault(name, self._size(name))

    def _known_size(self, name):
        """The name of a size that an input or output has; none for other sizes without a name."""
        return self.dims.get(name, "" if name.startswith("?") else name)

    def _size(self, name):
        """The name of a size; sizes without a name are numbered."""
        return f"size_{len(self.dims)}" if name.startswith("?") else name
