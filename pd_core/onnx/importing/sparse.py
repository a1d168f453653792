"""Sparse tensors of a file as dense ones, which is what ONNX Runtime computes with, too."""

from math import prod

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    SparseTensorProto,
    TensorProto,
    numpy_helper,
)

from ...graph.errors import DamagedModel, ModelError
from .loading import graphs_of
from .versions import array_of

KIND = "sparse_value"  # of a Constant
MOST_ELEMENTS = 1 << 27  # of a dense tensor: a file of 100 bytes must not take all of the memory


def with_dense_tensors(model: ModelProto, folder: str | None) -> ModelProto:
    """Return a model whose sparse initializers and sparse constants are dense tensors.

    `folder` has the values that are stored in other files. The model itself is not changed.
    """
    bodies = [f.node for f in model.functions]
    if not any(map(_has_sparse, graphs_of(model.graph))) and not any(map(_constants, bodies)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for graph in graphs_of(copy.graph):
        graph.initializer.extend(dense(t, folder) for t in graph.sparse_initializer)
        del graph.sparse_initializer[:]
        _write_dense(graph.node, folder)
    for function in copy.functions:
        _write_dense(function.node, folder)
    return copy


def _has_sparse(graph: GraphProto) -> bool:
    return bool(graph.sparse_initializer) or bool(_constants(graph.node))


def _constants(nodes):
    """Return the attributes of nodes that are sparse tensors."""
    return [a for n in nodes if n.op_type == "Constant" for a in n.attribute if a.name == KIND]


def _write_dense(nodes, folder):
    for a in _constants(nodes):
        tensor = dense(a.sparse_tensor, folder)
        a.Clear()
        a.name, a.type = "value", AttributeProto.TENSOR
        a.t.CopyFrom(tensor)


def dense(tensor: SparseTensorProto, folder: str | None = None) -> TensorProto:
    """Return a sparse tensor as a dense one of its name.

    Its indices are [n], into the elements in order, or [n, rank]. DamagedModel where they do not
    fit the sizes or the values, ModelError for more than MOST_ELEMENTS elements.
    """
    name, dims = tensor.values.name, tuple(tensor.dims)
    who = f"the sparse tensor {name!r}"
    if any(n < 0 for n in dims):
        raise DamagedModel(f"{who} is damaged: its sizes are {list(dims)}")
    if prod(dims) > MOST_ELEMENTS:
        raise ModelError(
            f"{who} has {prod(dims)} elements; up to {MOST_ELEMENTS} are imported, as a dense one"
        )
    values, indices = array_of(tensor.values, folder), array_of(tensor.indices, folder)
    if values.ndim != 1 or indices.shape not in ((len(values),), (len(values), len(dims))):
        raise DamagedModel(
            f"{who} is damaged: its values are of the shape {list(values.shape)}, and its indices "
            f"{list(indices.shape)}, of {len(dims)} axes"
        )
    if indices.dtype != np.int64:
        raise DamagedModel(f"{who} is damaged: its indices are {indices.dtype}, not int64")
    sizes = prod(dims) if indices.ndim == 1 else np.array(dims, np.int64)
    if len(values) and ((indices < 0) | (indices >= sizes)).any():
        raise DamagedModel(f"{who} is damaged: it has indices beyond its sizes {list(dims)}")
    array = np.zeros(dims, values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return numpy_helper.from_array(array, name)
