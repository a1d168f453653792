"""An ONNX file as a ModelProto, with all stored tensors of its graphs in one place."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    shape_inference,
)

from ...graph.errors import DamagedModel, DTypeError, ModelError, NameConflict, ShapeError
from ...graph.inference import CEILING
from .order import all_nodes, bodies
from .versions import OLDEST

STANDARD = ("", "ai.onnx")
_CRASHING = {"RegexFullMatch"}  # in onnx 1.23
_SMALL = 1024  # elements up to which stored tensors are passed to shape inference
_NO_WEIGHTS = {TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING}  # kept as Constant nodes

FileShape = tuple[int | None, ...] | None  # None for a size that is not known, and without a rank


@contextmanager
def reported(origin: str) -> Iterator[None]:
    """Name the file in errors, and turn any error of reading malformed data into DamagedModel."""
    try:
        yield
    except NameConflict as error:
        error.hint = f"import {origin} inside of `with pd.namespace(...)` for other names"
        raise
    except (DTypeError, ShapeError):
        raise
    except ModelError as error:
        raise type(error)(f"{origin}: {error}") from error.__cause__
    except RecursionError:
        raise DamagedModel(f"{origin}: its graphs are nested too deeply") from None
    except MALFORMED as error:
        raise DamagedModel(f"{origin}: {first_line(error)}") from error


MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError),
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    shape_inference.InferenceError,
)


def first_line(error: Exception) -> str:
    """Return the type and the message of an error of a library, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def loaded(model: str | os.PathLike | bytes | ModelProto) -> tuple[ModelProto, str | None, str]:
    """Return (ModelProto, the folder of its external tensors or None, its name in errors)."""
    if isinstance(model, onnx.ModelProto):
        return model, None, f"model {model.graph.name!r}"
    origin = "these bytes" if isinstance(model, bytes) else os.fspath(model)
    try:
        if isinstance(model, bytes):
            return onnx.load_model_from_string(model), None, origin
        proto = onnx.load(model, load_external_data=False)
    except (DecodeError, UnicodeDecodeError):
        verb = "are" if isinstance(model, bytes) else "is"
        raise DamagedModel(f"{origin} {verb} no ONNX model") from None
    return proto, os.path.dirname(os.path.abspath(model)), origin


def opsets_of(model: ModelProto) -> dict[str, int]:
    """Return the versions of the operator sets by domain; ModelError for one that is too old."""
    opsets = checked_opsets("the model", model.opset_import)
    if "" not in opsets:
        if any(node.domain in STANDARD for node in all_nodes(model.graph.node)):
            raise ModelError("the model names no opset of ONNX")
        opsets[""] = CEILING  # for what nodes of other domains are made of
    return opsets


def checked_opsets(who: str, imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the versions of the operator sets of a model or function by domain, "" for ONNX's.

    ModelError for one of ONNX that is too old or too new.
    """
    opsets: dict[str, int] = {}
    for o in imports:
        domain = "" if o.domain in STANDARD else o.domain
        if opsets.setdefault(domain, o.version) != o.version:
            both = f"{opsets[domain]} and {o.version} of {domain or 'ONNX'!r}"
            raise DamagedModel(f"{who} has two opsets, {both}")
    version = opsets.get("", OLDEST)
    if version < OLDEST:
        raise ModelError(f"{who} has opset {version}; {OLDEST} and later are imported")
    newest = onnx.defs.onnx_opset_version()
    if version > np.iinfo(np.int32).max:
        raise DamagedModel(f"{who} has opset {version}")
    if version > newest:
        raise ModelError(
            f"{who} has opset {version}; the onnx package that is installed, "
            f"{onnx.__version__}, knows those up to {newest}"
        )
    return opsets


# ---- weights stored as constants or inside branches and loops


def check_functions(functions: Iterable[FunctionProto]) -> None:
    """Check that each value of a function is given once, as `check_names` does for graphs."""
    for function in functions:
        inner = [graph for node in function.node for graph in bodies(node)]
        for given, nodes in (
            (function.input, function.node),
            *(([x.name for x in g.input], g.node) for b in inner for g in graphs_of(b)),
        ):
            try:
                _check_given_once(given, nodes)
            except DamagedModel as error:
                raise DamagedModel(f"function {function.name!r}: {error}") from None


def _check_given_once(names, nodes):
    given = set(names)
    for name in (y for node in nodes for y in node.output if y):
        if name in given:
            raise DamagedModel(f"the value {name!r} is given twice, by a node and before it")
        given.add(name)


def check_names(graph: GraphProto) -> None:
    """Check that names are text, that there are outputs, and that each value is given once."""
    names = [x.name for x in (*graph.initializer, *graph.input, *graph.output)]
    names += [name for node in graph.node for name in (*node.input, *node.output)]
    for name in names:
        if not isinstance(name, str):
            raise DamagedModel(f"the name {name!r} is no text")
    if not graph.output:
        raise ModelError("the model has no outputs")
    for inner in graphs_of(graph):
        inputs = [x.name for x in inner.input]
        twice = [name for name, count in Counter(inputs).items() if count > 1]
        if twice:
            raise DamagedModel(f"two inputs have the name {twice[0]!r}")
        _check_given_once([*inputs, *(x.name for x in inner.initializer)], inner.node)


def hoisted(model: ModelProto) -> ModelProto:
    """Move the constants of all graphs and bodies to the initializers of the outermost graph.

    Exporters store weights in Constant nodes, and inside branches and loops, too. The model itself
    is not changed.
    """
    hoists = any(_has_constants(graph, graph is model.graph) for graph in graphs_of(model.graph))
    if not hoists and not any(_shared_statistics(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graphs = list(graphs_of(copy.graph))
    uses = Counter(name for graph in graphs for name in _names_of(graph))
    for graph in graphs:
        renamed, moved = {}, set()
        for tensor in _remove_constants(graph, graph is copy.graph):
            if uses[tensor.name] > 1:
                renamed[tensor.name] = tensor.name = _unique_name(tensor.name, uses)
            copy.graph.initializer.append(tensor)
            moved.add(tensor.name)
        if renamed:
            _rename(graph, renamed)
        for y in graph.output if graph is not copy.graph else ():
            if y.name in moved:  # outputs of bodies are computed inside
                inside = _unique_name(y.name, uses)
                graph.node.append(helper.make_node("Identity", [y.name], [inside]))
                y.name = inside
    for node, k, tensor in list(_shared_statistics(copy.graph)):
        node.input[k] = _unique_name(node.input[k], uses)
        copy.graph.initializer.append(_copied(tensor, node.input[k]))
    return copy


def _shared_statistics(graph):
    """Yield (BatchNormalization, index of its input, stored tensor) of shared statistics.

    Exporters store equal tensors once, but statistics that are equal at first diverge in training.
    """
    stored = {t.name: t for t in graph.initializer}
    copies = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Identity" and node.output and node.input
    }
    reads = Counter(name for inner in graphs_of(graph) for n in inner.node for name in n.input)
    for node in graph.node:
        for k in (3, 4) if node.op_type == "BatchNormalization" else ():
            name = node.input[k] if k < len(node.input) else ""
            source = copies.get(name, name)
            if source in stored and (source != name or reads[name] > 1):
                yield node, k, stored[source]


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and the bodies inside it."""
    yield graph
    for node in graph.node:
        for inner in bodies(node):
            yield from graphs_of(inner)


def _has_constants(graph, outermost):
    """Check whether a graph has tensors to move."""
    return (graph.initializer and not outermost) or any(_constant(n) for n in graph.node)


def _names_of(graph):
    """Return the set of names that a graph defines."""
    names = {x.name for x in (*graph.input, *graph.initializer)}
    return names.union(y for node in graph.node for y in node.output)


def _remove_constants(graph, outermost):
    """Remove the stored tensors of a graph; return copies under their names."""
    tensors: list[onnx.TensorProto] = []
    if not outermost:
        tensors += map(_copied, graph.initializer)
        del graph.initializer[:]
    for k in reversed(range(len(graph.node))):
        tensor = _constant(graph.node[k])
        if tensor is not None:
            tensors.append(_copied(tensor, graph.node[k].output[0]))
            del graph.node[k]
    return tensors


def _constant(node):
    """Return the tensor of a Constant that may hold weights, else None."""
    if node.op_type != "Constant" or node.domain not in STANDARD or len(node.output) != 1:
        return None
    for a in node.attribute:
        if a.name == "value" and a.HasField("t") and a.t.data_type not in _NO_WEIGHTS:
            return a.t
        if a.name == "value_floats":
            return numpy_helper.from_array(np.array(a.floats, np.float32))
    return None


def _copied(tensor, name=None):
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = tensor.name if name is None else name
    return copy


def _unique_name(name, uses):
    """Return a name that is not used yet, and count its use."""
    k = 1
    while uses[f"{name}_{k}"]:
        k += 1
    uses[f"{name}_{k}"] += 1
    return f"{name}_{k}"


def _rename(graph, renamed):
    for inner in graphs_of(graph):
        for node in inner.node:
            for k, name in enumerate(node.input):
                if name in renamed:
                    node.input[k] = renamed[name]
        for y in inner.output:
            y.name = renamed.get(y.name, y.name)


# ---- types and sizes that a file declares


def declared(info: ValueInfoProto) -> tuple[FileShape, np.dtype]:
    """Return (dims, dtype) of an input, or of the elements of a sequence.

    None for a size that is not known, or dims without rank.
    """
    kind = _inner_type(info.type, "optional_type")
    kind = _inner_type(kind, "sequence_type")
    tensor = kind.tensor_type
    if not kind.HasField("tensor_type") or tensor.elem_type == TensorProto.STRING:
        raise ModelError(f"input {info.name!r} is no tensor of numbers")
    if tensor.elem_type not in TensorProto.DataType.values() or not tensor.elem_type:
        raise DamagedModel(f"input {info.name!r} has the element type {tensor.elem_type}")
    return dims_of(tensor, info.name), helper.tensor_dtype_to_np_dtype(tensor.elem_type)


def _inner_type(kind, field):
    return getattr(kind, field).elem_type if kind.HasField(field) else kind


def is_optional(info: ValueInfoProto) -> bool:
    """Return whether an input may be left out."""
    return info.type.HasField("optional_type")


def is_sequence(info: ValueInfoProto) -> bool:
    """Return whether an input is a sequence of tensors."""
    return _inner_type(info.type, "optional_type").HasField("sequence_type")


def dims_of(tensor: TypeProto.Tensor, name: str) -> FileShape:
    """Return the sizes of a value's type, None for one that is not known; None without a rank."""
    if not tensor.HasField("shape"):
        return None
    return tuple(_size(d, name) for d in tensor.shape.dim)


def _size(d, name):
    """Return a size or None; some exporters write -1 for one that they do not know."""
    if d.HasField("dim_value") and d.dim_value < -1:
        raise DamagedModel(f"the value {name!r} has the size {d.dim_value}")
    return d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None


def size_names(infos: Iterable[ValueInfoProto]) -> dict[str, tuple[str | None, ...]]:
    """Return {name of a value: names of its sizes, None for a size without a name}."""
    return {
        i.name: tuple(_size_name(d) for d in i.type.tensor_type.shape.dim)
        for i in infos
        if i.type.HasField("tensor_type") and i.type.tensor_type.HasField("shape")
    }


def _size_name(d):
    name = d.dim_param
    return name if name and isinstance(name, str) and not name.startswith("?") else None


def _require_no_crash(model):
    """Raise InferenceError for operators with which ONNX's inference crashes.

    It does so where the type of their input is not known.
    """
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    if any(node.op_type in _CRASHING for node in nodes):
        raise shape_inference.InferenceError("shapes are not inferred")


def inferred_dims(model: ModelProto) -> dict[str, FileShape]:
    """Return dims by name as ONNX infers them for the inputs that the file declares."""
    graph = onnx.GraphProto(name="shapes")
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    for t in model.graph.initializer:
        if prod(t.dims) <= _SMALL and not t.external_data:
            graph.initializer.append(t)
        else:
            graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    light = onnx.ModelProto(ir_version=model.ir_version, graph=graph)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    try:
        _require_no_crash(light)
        graph = shape_inference.infer_shapes(light).graph
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        graph = light.graph  # only the dims that the file declares
    infos = [*graph.value_info, *graph.output]
    infos = [i for i in infos if i.type.HasField("tensor_type")]
    dims = {i.name: dims_of(i.type.tensor_type, i.name) for i in infos}
    return {name: d for name, d in dims.items() if d is not None}
