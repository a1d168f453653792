"""Imported models as ONNX files again: the nodes of the file, with the values of a session."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from ...graph.errors import ExportError
from ...onnx.exporting.stored_integers import unchanged
from ...onnx.importing import ImportedModel
from ...run.session import Session, default_session
from ...storage.atomic import atomic_write
from .fake_quantization import FakeQuantization
from .low_rank import Adapted
from .quantized_file import add_quantization
from .stored_tensors import free_name, names_read, put_values


def export_tuned(
    path: str | os.PathLike | None, f: ImportedModel, session: Session | None = None
) -> ModelProto:
    """Write an imported model with its present values as ONNX, and return it.

    The nodes, their names and the opset are those of the file that was imported; stored tensors
    have the session's values. Adapters of `lora` are added to their matrices, so that no operator
    is new; those of weights that stay integers are products beside them. After `prepare_qat` the
    file has QuantizeLinear and DequantizeLinear around quantised operators, and their weights as
    integers. A weight that the file stores as integers stays so until it is trained; then it is
    stored as floats. If the path is None the model is only returned; ExportError for an activation
    without a range, and for what a file cannot hold.
    """
    session = session or default_session()
    model = ModelProto()
    model.CopyFrom(f.model)
    put_values(model, _values(f, session), f.folder)
    _add_adapters(model, f, session)
    if isinstance(f.operands, FakeQuantization):
        add_quantization(model, f.operands, session)
    return _written(model, path)


def _values(f: ImportedModel, session: Session) -> dict[str, np.ndarray]:
    """Return the values of the stored tensors that may have changed, by the name nodes read."""
    stored = f.stored.values
    again = isinstance(f.operands, FakeQuantization)  # all integers are made anew
    same = {} if again else unchanged(stored.values(), session)
    values = {key: session.get(v) for key, v in stored.items() if v.is_persistent and v not in same}
    changed = {
        key: function(stored[key])
        for key, function in f.reparametrized.items()
        if key not in f.stored.integers
    }
    return values | session.eval(changed, training=False)


def _add_adapters(model: ModelProto, f: ImportedModel, session: Session) -> None:
    """Add the products of adapters to weights that stay integers, as nodes behind them."""
    graph, nodes = model.graph, []
    taken = {*(t.name for t in graph.initializer), *names_read(graph.node)}
    types = {t.name: helper.tensor_dtype_to_np_dtype(t.data_type) for t in graph.initializer}
    for node in graph.node:
        nodes.append(node)
        key = next(iter(node.output), "")
        adapted = f.reparametrized.get(key)
        if key not in f.stored.integers or not isinstance(adapted, Adapted):
            continue
        factors = adapted.adapter.a, adapted.adapter.b
        a, b = (session.get(v) for v in factors)
        names = [
            free_name(f"{key}.{part}", taken) for part in ("base", "lora_A", "lora_B", "product")
        ]
        node.output[0] = names[0]
        dtype = types.get(node.input[1] if len(node.input) > 1 else "", a.dtype)
        arrays = zip(names[1:3], (a, b * np.float32(adapted.lora.scale)), strict=True)
        graph.initializer.extend(
            numpy_helper.from_array(v.astype(dtype), name) for name, v in arrays
        )
        nodes.append(helper.make_node("MatMul", [names[2], names[1]], [names[3]], name=names[3]))
        product = names[3]
        if adapted.adapter.weight.rank > 2:
            shape, product = free_name(f"{key}.shape", taken), free_name(f"{key}.filters", taken)
            dims = np.array(adapted.adapter.weight.dims, np.int64)
            graph.initializer.append(numpy_helper.from_array(dims, shape))
            nodes.append(helper.make_node("Reshape", [names[3], shape], [product], name=product))
        nodes.append(helper.make_node("Add", [names[0], product], [key], name=f"{key}.sum"))
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


@contextmanager
def _every_shape(graph: GraphProto) -> Iterator[None]:
    """Give inputs and outputs of unknown rank or type some shape meanwhile.

    ONNX's checker wants one, and runtimes do not: files have such values.
    """
    values = [x for x in (*graph.input, *graph.output) if not _has_shape(x)]
    given = [ValueInfoProto.FromString(x.SerializeToString()) for x in values]
    for x in values:
        if not x.type.HasField("tensor_type"):
            x.type.tensor_type.elem_type = TensorProto.FLOAT
        x.type.tensor_type.shape.SetInParent()
    try:
        yield
    finally:
        for x, before in zip(values, given, strict=True):
            x.CopyFrom(before)


def _has_shape(x):
    """Whether a value has a shape, or a type that needs none, as sequences do."""
    kind = x.type.WhichOneof("value")
    return x.type.tensor_type.HasField("shape") if kind == "tensor_type" else kind is not None


def _written(model: ModelProto, path: str | os.PathLike | None) -> ModelProto:
    """Check a model, write it unless the path is None, and return it."""
    try:
        with _every_shape(model.graph):
            onnx.checker.check_model(model)
        data = model.SerializeToString()
    except (onnx.checker.ValidationError, ValueError) as error:
        line = " ".join(str(error).split())[:300]
        raise ExportError(f"export_tuned: ONNX refuses the model: {line}") from error
    if path is not None:
        with atomic_write(path) as file:
            file.write(data)
    return model
