"""ONNX models of any origin as functions of Variables."""

import os
from collections import defaultdict
from math import prod

import onnx
from google.protobuf.message import DecodeError
from onnx import helper, shape_inference

from ..errors import DTypeError, ModelError, ShapeError
from ..variable import Variable, constant, describe, shown
from .reader import STANDARD, File, Reader
from .versions import OLDEST, stored

# Inputs that say what an operator does: a tensor that is stored there is no weight.
_SETTINGS = {
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "Dropout": (1,),
    "OneHot": (0, 1, 2),
    "Pad": (2,),
    "QuantizeLinear": (1, 2),
    "Range": (0, 1, 2),
    "Resize": (1, 2),
    "Upsample": (1,),
}
_STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
_SMALL = 1024  # elements of stored tensors that inference of shapes is shown


def import_onnx(model, trainable=True, training=False):
    """An ONNX model (a path, bytes, or a ModelProto) as a function of Variables.

    Its float tensors that are used as weights become parameters with the file's names, below the
    namespace in force; `trainable=False` freezes them. With `training` a training step through
    BatchNormalization and Dropout does what they do in training, as the file was trained.

    Opsets from 7 on are read, tensors in files beside the model too, functions, loops and branches
    included; sequences where their length is known. ModelError says what else is in the file.
    """
    return ImportedModel(*_loaded(model), trainable, training)


class ImportedModel:
    """A model as a function: `f(x)` builds its graph on Variables, each time anew.

    `parameters` are its parameters by the file's names, `inputs` the dims and dtype of what it
    takes, `outputs` the names of what it gives.
    """

    def __init__(self, model, folder, trainable, training):
        self.graph = model.graph
        self.opsets = _opsets(model)
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.training = training
        if self.graph.sparse_initializer:
            raise ModelError("the model stores sparse tensors, which are not imported")
        self.tensors = _tensors(self.graph, folder, trainable)
        self.parameters = {n: v for n, v in self.tensors.items() if v.is_persistent}
        self.inputs = {i.name: _declared(i) for i in self.graph.input if i.name not in self.tensors}
        self.outputs = tuple(y.name for y in self.graph.output)
        self.promised = _promised(model)
        self.reader = None

    def __call__(self, *inputs, output=None, last_layers=None, **named):
        """The outputs for these inputs, given in the file's order or by name: a Variable, or a
        tuple if there are several.

        `output` is the name of a tensor, or a list of names, at which the model is cut; with
        last_layers=-k it is cut before its last k operators.
        """
        given = self._given(inputs, named)
        names = self._wanted(output, last_layers)
        exact = all(x.dims == self.inputs[n][0] for n, x in given.items())
        self.reader = Reader(
            self.graph.node,
            self.opsets,
            {**self.tensors, **given},
            File(
                self.functions, self.training, frozenset(d for x in given.values() for d in x.dims)
            ),
            declared=self.promised if exact else _ranks(self.promised),
            named=True,
        )
        found = [self.tensor(name) for name in names]
        return tuple(found) if isinstance(output, (list, tuple)) or len(found) > 1 else found[0]

    def tensor(self, name):
        """A tensor inside the model by its name in the file, for the inputs of the last call."""
        if self.reader is None:
            raise ModelError(f"tensor({name!r}): call the model first")
        known = {y for node in self.graph.node for y in node.output}
        if name not in known and name not in self.reader.values:
            raise ModelError(f"the model has no tensor {name!r}; its outputs are {self.outputs}")
        return self.reader.outputs([name])[0]

    def _wanted(self, output, last_layers):
        if output is not None and last_layers is not None:
            raise ModelError("output= and last_layers= cut the model in two places")
        if output is not None:
            return list(output) if isinstance(output, (list, tuple)) else [output]
        if last_layers is None:
            return self.outputs
        count = len(self.graph.node)
        if not -count < last_layers < 0:
            raise ModelError(f"last_layers is between -{count - 1} and -1, not {last_layers}")
        return [self.graph.node[last_layers - 1].output[0]]

    def _given(self, inputs, named):
        """The inputs by name."""
        if len(inputs) > len(self.inputs):
            raise ModelError(f"{len(inputs)} inputs for {list(self.inputs)}")
        given = dict(zip(self.inputs, inputs, strict=False))
        for name, x in named.items():
            if name not in self.inputs or name in given:
                raise ModelError(f"{name!r} is no input that is left; there is {list(self.inputs)}")
            given[name] = x
        missing = [name for name in self.inputs if name not in given]
        if missing:
            raise ModelError(f"the model needs its inputs {missing} too")
        return {name: self._fitting(name, constant(x)) for name, x in given.items()}

    def _fitting(self, name, x):
        dims, dtype = self.inputs[name]
        if x.dtype != dtype:
            raise DTypeError(f"input {name!r} is {dtype}, not {describe(x)}")
        if dims is None:
            return x
        pairs = list(zip(dims, x.dims, strict=False))
        if len(dims) != x.rank or any(d != e for d, e in pairs if _both_known(d, e)):
            raise ShapeError(f"input {name!r} is {shown(d or '?' for d in dims)}, not {x!r}")
        return x


def _ranks(promised):
    """What remains of the promised dims for inputs of other sizes."""
    return {name: (None,) * len(dims) for name, dims in promised.items()}


def _both_known(d, e):
    return isinstance(d, int) and isinstance(e, int)


def _loaded(model):
    """(ModelProto without the tensors of other files, the folder of those)."""
    if isinstance(model, onnx.ModelProto):
        return model, ""
    try:
        if isinstance(model, bytes):
            return onnx.load_model_from_string(model), ""
        return onnx.load(model, load_external_data=False), os.path.dirname(os.path.abspath(model))
    except DecodeError:
        raise ModelError(
            f"{'these bytes are' if isinstance(model, bytes) else model} no ONNX model"
        ) from None


def _opsets(model):
    opsets = {o.domain: o.version for o in model.opset_import}
    version = next((v for d, v in opsets.items() if d in STANDARD), None)
    if version is None:
        raise ModelError("the model names no opset of ONNX")
    if version < OLDEST:
        raise ModelError(f"the model has opset {version}; {OLDEST} and later are imported")
    return opsets


def _declared(info):
    """(dims, dtype) of an input; None for a size that is not known, and for dims without a rank."""
    kind = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
    tensor = kind.tensor_type
    if not kind.HasField("tensor_type") or tensor.elem_type == onnx.TensorProto.STRING:
        raise ModelError(f"input {info.name!r} is no tensor of numbers")
    return _dims(tensor), helper.tensor_dtype_to_np_dtype(tensor.elem_type)


def _dims(tensor):
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)


def _tensors(graph, folder, trainable):
    """The stored tensors by name: parameters where they are weights, else constants."""
    uses, found = _uses(graph.node), {}
    for tensor in graph.initializer:
        try:
            value = stored(tensor, folder)
        except (OSError, onnx.checker.ValidationError) as error:
            raise ModelError(f"tensor {tensor.name!r} is in another file: {error}") from None
        places = {(o, k) for o, k in uses[tensor.name] if k not in _SETTINGS.get(o, ())}
        if value.rank and value.dtype.kind == "f" and places:
            learnt = bool(trainable) and not places <= _STATISTICS
            value = Variable(tensor.name, data=value.value, dtype=value.dtype, trainable=learnt)
        found[tensor.name] = value
    return found


def _uses(nodes):
    """{name: places (operator, number of the input) that read it}, bodies included."""
    found = defaultdict(set)
    for node in nodes:
        for k, name in enumerate(node.input):
            found[name].add((node.op_type, k))
        for a in node.attribute:
            for graph in [a.g, *a.graphs]:
                for name, places in _uses(graph.node).items():
                    found[name] |= places
                for y in graph.output:
                    found[y.name].add((node.op_type, 0))
    return found


def _promised(model):
    """Dims by name as ONNX infers them for the inputs that the file declares."""
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
        graph = shape_inference.infer_shapes(light, data_prop=True).graph
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        graph = light.graph  # what it declares itself remains
    infos = [*graph.value_info, *graph.output]
    dims = {i.name: _dims(i.type.tensor_type) for i in infos if i.type.HasField("tensor_type")}
    return {name: d for name, d in dims.items() if d is not None}
