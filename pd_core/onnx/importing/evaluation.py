"""Single operators on constants, computed while a file is read."""

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from ...backend import ort
from ...graph.inference import CEILING, OPSET

# Operators of which ONNX's evaluator gives what ONNX Runtime gives, without the start of a session.
_EXACT = {
    *("Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Slice", "Gather"),
    *("Size", "Expand", "Add", "Sub", "Mul", "Equal", "Where"),
}


def one_node_model(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    attributes: Iterable[AttributeProto],
    outputs: int = 1,
    domain: str = "",
    opset: int = OPSET,
) -> ModelProto:
    """Build a model of one operator on stored arrays, None for one left out.

    `opset` is the version of ONNX's own operators, or of the domain.
    """
    names = ["" if array is None else f"i{k}" for k, array in enumerate(arrays)]
    results = [f"o{k}" for k in range(outputs)]
    proto = NodeProto(op_type=op_type, domain=domain, input=names, output=results)
    proto.attribute.extend(attributes)
    tensors = [
        numpy_helper.from_array(array, name)
        for array, name in zip(arrays, names, strict=True)
        if array is not None
    ]
    unknown = [ValueInfoProto(name=n) for n in results]
    graph = helper.make_graph([proto], "constants", [], unknown, tensors)
    imports = [helper.make_opsetid("", OPSET if domain else opset)]
    imports += [helper.make_opsetid(domain, opset)] if domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def evaluate(model: ModelProto) -> list | None:
    """Compute the outputs of a model without inputs; None if neither runtime nor evaluator can."""
    if model.graph.node[0].op_type not in _EXACT:
        found = by_runtime(model)
        if found is not None:
            return found
    from ...backend.evaluator import evaluator  # onnx.reference takes long to import

    try:
        return list(evaluator(model).run(None, {}))
    except Exception:  # an operator that the evaluator cannot compute is left to the runtime
        return None


def by_runtime(model: ModelProto) -> list | None:
    """Compute the outputs of a model without inputs by ONNX Runtime; None if it refuses it."""
    if any(o.domain == "" and o.version > CEILING for o in model.opset_import):
        return None
    try:
        return ort.session(model.SerializeToString(), optimize=False, plan=False).run(None, {})
    except Exception:  # of any kind: the runtime's errors have no common class
        return None
