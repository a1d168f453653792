"""Single operators on constants, computed by the reference evaluator while a file is read."""

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

from ...graph.inference import OPSET


def one_node_model(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    attributes: Iterable[AttributeProto],
    outputs: int = 1,
) -> ModelProto:
    """Build a model of one operator of the pinned opset on stored arrays, None for one left out."""
    names = ["" if array is None else f"i{k}" for k, array in enumerate(arrays)]
    results = [f"o{k}" for k in range(outputs)]
    proto = NodeProto(op_type=op_type, input=names, output=results)
    proto.attribute.extend(attributes)
    tensors = [
        numpy_helper.from_array(array, name)
        for array, name in zip(arrays, names, strict=True)
        if array is not None
    ]
    unknown = [helper.make_value_info(n, helper.make_tensor_type_proto(0, None)) for n in results]
    graph = helper.make_graph([proto], "constants", [], unknown, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


def evaluate(model: ModelProto) -> list | None:
    """Compute the outputs of a model without inputs; None if the evaluator cannot."""
    from ...backend.evaluator import evaluator  # onnx.reference takes long to import

    try:
        return list(evaluator(model).run(None, {}))
    except Exception:  # an operator that the evaluator cannot compute is left to the runtime
        return None
