"""Files of 16-bit floats read in float32."""

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper

from .loading import graphs_of
from .order import bodies
from .versions import array_of

_HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_TYPES = ("to", "dtype")  # attributes that are element types


def widened(model: ModelProto, folder: str | None) -> ModelProto:
    """Return a model with float32 in the place of float16 and bfloat16: weights, casts, inputs.

    The model itself is not changed.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    for graph in graphs_of(copy.graph):
        for tensor in graph.initializer:
            _widen(tensor, folder)
        for info in (*graph.input, *graph.output, *graph.value_info):
            for kind in _tensor_types(info.type):
                if kind.elem_type in _HALF:
                    kind.elem_type = TensorProto.FLOAT
    for node in _nodes(copy):
        for a in node.attribute:
            if a.HasField("t"):
                _widen(a.t, folder)
            if a.name in _TYPES and a.i in _HALF:
                a.i = TensorProto.FLOAT
    return copy


def _nodes(model) -> Iterator:
    """Yield all nodes, those of bodies and functions included."""
    stack = [*model.graph.node, *(node for f in model.functions for node in f.node)]
    while stack:
        node = stack.pop()
        yield node
        stack += [inner for graph in bodies(node) for inner in graph.node]


def _tensor_types(kind: TypeProto) -> Iterator[TypeProto.Tensor]:
    """Yield the tensor type inside of a type, of sequences and optionals, too."""
    if kind.HasField("tensor_type"):
        yield kind.tensor_type
    for field in ("sequence_type", "optional_type"):
        if kind.HasField(field):
            yield from _tensor_types(getattr(kind, field).elem_type)


def _widen(tensor, folder):
    if tensor.data_type in _HALF:
        array = array_of(tensor, folder).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
