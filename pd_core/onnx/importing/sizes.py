"""Constant folding while a graph is read, of vectors of sizes, too.

Exporters compute the target of a Reshape from the shapes of other values. `size_entries` follows
their entries; a vector of numbers alone becomes a constant here.
"""

from collections.abc import Mapping
from math import prod

import numpy as np
from onnx import ModelProto, defs, shape_inference

from ... import ops
from ...graph.inference import OPSET, attribute
from ...graph.variable import Dim, Variable, constant
from .evaluation import evaluate, one_node_model
from .versions import Operator

FOLD_LIMIT = 1024  # elements up to which constants are folded
_AT_MOST_THEIR_INPUT = ("Compress", "NonZero", "Unique")  # their outputs are no larger than that
_KEPT = ("Bernoulli", "Multinomial", "DequantizeLinear")  # random; weights that stay integers


def folded(op: Operator, limit: int) -> list[Variable] | None:
    """Compute the outputs of an operator on constants, as constants; None for any other operator.

    Operators with more elements than `limit` in an input or output are not folded.
    """
    values = [x for x in op.inputs if x is not None]
    if not values or op.op_type in _KEPT or not defs.has(op.op_type, OPSET):
        return None
    if any(x.value is None or x.value.size > limit for x in values):
        return None
    arrays = [None if x is None else x.value for x in op.inputs]
    attributes = [attribute(k, v) for k, v in op.attributes.items()]
    model = one_node_model(op.op_type, arrays, attributes, op.outputs)
    if op.op_type not in _AT_MOST_THEIR_INPUT and not _is_small(model, limit):
        return None
    outputs = evaluate(model)
    if outputs is None:
        return None
    if any(not isinstance(y, np.ndarray | np.generic) or np.size(y) > limit for y in outputs):
        return None
    return [constant(np.asarray(y), np.asarray(y).dtype) for y in outputs]


def _is_small(model, limit):
    """Check by shape inference, without computing, that all outputs are within the limit."""
    light = ModelProto()
    light.CopyFrom(model)
    del light.graph.output[:]  # inference adds nothing to what is declared
    try:
        inferred = shape_inference.infer_shapes(light).graph.value_info
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        return False
    names = [y for y in model.graph.node[0].output if y]
    return len(inferred) == len(names) and all(_elements(i) <= limit for i in inferred)


def _elements(info):
    """Return the number of elements of a value, infinite if it is not known."""
    tensor = info.type.tensor_type
    known = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
    return prod(d.dim_value for d in tensor.shape.dim) if known else float("inf")


def reshaped(op: Operator, freed: Mapping[Dim, int]) -> list[Variable] | None:
    """Apply a Reshape to constant sizes by `ops.reshape`, which keeps names of sizes; else None.

    A first size that stays what `freed` says it is in the file stays in the call, too.
    """
    x, target = op.inputs
    if target.value is None or op.attributes.get("allowzero"):
        return None
    sizes = target.value.tolist()
    if sizes and x.rank and freed.get(x.dims[0]) == sizes[0]:
        sizes[0] = 0
    return [ops.reshape(x, sizes)]
