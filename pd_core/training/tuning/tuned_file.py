"""Imported models as ONNX files again: the nodes of the file, with the values of a session."""

import os

import numpy as np
import onnx
from onnx import ModelProto

from ...graph.errors import ExportError
from ...onnx.importing import ImportedModel
from ...run.session import Session, default_session
from ...storage.atomic import atomic_write
from .fake_quantization import FakeQuantization
from .quantized_file import add_quantization
from .stored_tensors import put_values


def export_tuned(
    path: str | os.PathLike | None, f: ImportedModel, session: Session | None = None
) -> ModelProto:
    """Write an imported model with its present values as ONNX, and return it.

    The nodes, their names and the opset are those of the file that was imported; stored tensors
    have the session's values. Adapters of `lora` are added to their matrices, so that no operator
    is new. After `prepare_qat` the file has QuantizeLinear and DequantizeLinear around quantised
    operators, and their weights as integers. A weight that the file stores as integers is stored as
    floats once it is trained. If the path is None the model is only returned; ExportError for an
    activation without a range, and for what a file cannot hold.
    """
    session = session or default_session()
    model = ModelProto()
    model.CopyFrom(f.model)
    put_values(model, _values(f, session), f.folder)
    if isinstance(f.operands, FakeQuantization):
        add_quantization(model, f.operands, session)
    return _written(model, path)


def _values(f: ImportedModel, session: Session) -> dict[str, np.ndarray]:
    """Return the values of the stored tensors that may have changed, by the name nodes read."""
    stored = f.stored.values
    values = {key: session.get(v) for key, v in stored.items() if v.is_persistent}
    changed = {key: function(stored[key]) for key, function in f.reparametrized.items()}
    return values | session.eval(changed, training=False)


def _written(model: ModelProto, path: str | os.PathLike | None) -> ModelProto:
    """Check a model, write it unless the path is None, and return it."""
    try:
        onnx.checker.check_model(model)
        data = model.SerializeToString()
    except (onnx.checker.ValidationError, ValueError) as error:
        line = " ".join(str(error).split())[:300]
        raise ExportError(f"export_tuned: ONNX refuses the model: {line}") from error
    if path is not None:
        with atomic_write(path) as file:
            file.write(data)
    return model
