"""Stored tensors of ONNX models that are changed in place."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, external_data_helper, helper, numpy_helper

from ...graph.errors import ExportError

_INPUTS_UP_TO = 3  # the last ir_version whose stored tensors have to be inputs, too


def put_values(model: ModelProto, values: Mapping[str, np.ndarray], folder: str | None) -> None:
    """Store arrays in a model: as initializers of their types, or in the place of outputs of nodes.

    Data of other tensors that are in other files of the `folder` are read. ExportError for a number
    that the type of its tensor does not hold.
    """
    graph, left = model.graph, dict(values)
    for tensor in graph.initializer:
        if tensor.name in left:
            array = _as_stored(left.pop(tensor.name), tensor)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    external_data_helper.load_external_data_for_model(model, folder or "")  # of nodes, too
    replaced = [node for node in graph.node if node.output and node.output[0] in left]
    for node in replaced:
        graph.node.remove(node)
    graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in left.items())
    remove_unread(graph, {name for node in replaced for name in node.input})
    given = {i.name for i in graph.input}
    if any(t.name not in given for t in graph.initializer):
        model.ir_version = max(model.ir_version, _INPUTS_UP_TO + 1)


def _as_stored(array, tensor):
    """Round an array to the float type of a tensor."""
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype == array.dtype or dtype.kind == "i":
        return array
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype)
    if not np.isfinite(rounded[np.isfinite(array)]).all():
        largest = np.abs(array[np.isfinite(array)]).max()
        raise ExportError(f"export_tuned: {tensor.name!r} is {dtype}, which {largest} exceeds")
    return rounded


def remove_unread(graph: GraphProto, names: Collection[str]) -> None:
    """Remove the initializers of these names that nothing reads."""
    unread = set(names) - set(names_read(graph.node)) - {y.name for y in graph.output}
    for tensor in [t for t in graph.initializer if t.name in unread]:
        graph.initializer.remove(tensor)
    for info in [i for i in graph.input if i.name in unread]:
        graph.input.remove(info)


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken, and take it."""
    k, free = 1, name
    while free in taken:
        k += 1
        free = f"{name}_{k}"
    taken.add(free)
    return free


def names_read(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the names that nodes read, those that their bodies read included."""
    for node in nodes:
        yield from node.input
        for a in node.attribute:
            for body in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                yield from names_read(body.node)
                yield from (y.name for y in body.output)
