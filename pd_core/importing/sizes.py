"""What is known of sizes while a graph is read.

Exporters compute the target of a Reshape from the shapes of other values. What of it is known
already is carried along here: for every vector of sizes its entries, numbers or names of sizes, or
None. A vector of numbers alone becomes a constant.
"""

from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, defs, helper, numpy_helper, shape_inference

from .. import ops
from ..backend.evaluator import evaluator
from ..graph.broadcast import broadcast_dims
from ..graph.inference import OPSET, attribute
from ..graph.variable import constant, fresh_dim

FOLD_LIMIT = 1024  # elements up to which constants are computed here
_AT_MOST_THEIR_INPUT = ("Compress", "NonZero", "Unique")  # whatever the sizes turn out to be
_RANDOM = ("Bernoulli", "Multinomial")
_ARITHMETIC = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: a / b,  # toward zero, as int() does
    "Max": np.maximum,
    "Min": np.minimum,
}


def folded(op, limit):
    """The outputs of an operator on constants as constants, else None.

    Neither inputs nor outputs have more elements than the limit.
    """
    values = [x for x in op.inputs if x is not None]
    if not values or op.op_type in _RANDOM or not defs.has(op.op_type, OPSET):
        return None
    if any(x.value is None or x.value.size > limit for x in values):
        return None
    model = _model_of(op)
    if op.op_type not in _AT_MOST_THEIR_INPUT and not _is_small(model, limit):
        return None
    try:
        found = evaluator(model).run(None, {})
    except Exception:  # what the evaluator cannot do is left to the runtime
        return None
    if any(not isinstance(y, np.ndarray | np.generic) or np.size(y) > limit for y in found):
        return None
    return [constant(np.asarray(y), np.asarray(y).dtype) for y in found]


def _model_of(op):
    """A model of one operator on constants."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(op.inputs)]
    outputs = [f"o{k}" for k in range(op.outputs)]
    proto = NodeProto(op_type=op.op_type, input=names, output=outputs)
    proto.attribute.extend(attribute(k, v) for k, v in op.attributes.items())
    tensors = [
        numpy_helper.from_array(x.value, n) for n, x in zip(names, op.inputs, strict=True) if n
    ]
    unknown = [helper.make_value_info(n, helper.make_tensor_type_proto(0, None)) for n in outputs]
    graph = helper.make_graph([proto], "constants", [], unknown, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


def _is_small(model, limit):
    """Whether ONNX says, before it is computed, that all outputs are within the limit."""
    light = ModelProto()
    light.CopyFrom(model)
    del light.graph.output[:]  # inference adds nothing to what is declared
    try:
        inferred = shape_inference.infer_shapes(light).graph.value_info
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        return False
    given = [y for y in model.graph.node[0].output if y]
    return len(inferred) == len(given) and all(_elements(i) <= limit for i in inferred)


def _elements(info):
    """The number of elements of a value, infinite if it is not known."""
    tensor = info.type.tensor_type
    known = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
    return prod(d.dim_value for d in tensor.shape.dim) if known else float("inf")


class Sizes:
    """The entries of the vectors of sizes that were met, by Variable."""

    def __init__(self):
        self.entries = {}

    def of(self, x):
        """The entries of a vector or number, or None where nothing is known of it."""
        if x is None:
            return None
        if x.value is not None and x.value.dtype.kind == "i" and x.rank <= 1:
            return x.value.reshape(-1).tolist()
        return self.entries.get(x)

    def settled(self, op):
        """Output constants of an operator on sizes that are all known, else None."""
        found = self._entries(op)
        if found is None or not all(isinstance(d, int) for d in found):
            return None
        rank = _rank(op, len(found))
        return [constant(np.array(found, np.int64).reshape([len(found)] * rank))]

    def note(self, op, outputs):
        """Remember what is known of the outputs of an operator on sizes."""
        found = self._entries(op)
        if found is not None and outputs[0].rank <= 1:
            self.entries[outputs[0]] = found

    def _entries(self, op):
        if op.op_type == "Shape":
            a = op.attributes
            return list(op.inputs[0].dims[a.get("start", 0) : a.get("end")])
        if op.op_type == "Size" and op.inputs[0].is_static:
            return [prod(op.inputs[0].dims)]
        if op.op_type not in _STEPS or op.inputs[0] is None:
            return None
        if op.op_type == "Cast" and op.attributes["to"] != 7:
            return None
        known = [self.of(x) for x in op.inputs]
        if known[0] is None and op.op_type != "Concat":
            return None
        return _STEPS[op.op_type](op, *known)

    def dims(self, op):
        """The dims that a vector of sizes gives the output, or None."""
        if op.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
            return None
        target = op.inputs[-1]
        found = self.entries.get(target)
        if found is None:
            return None
        if op.op_type == "Reshape":
            found = [op.inputs[0].dims[k] if d == 0 else d for k, d in enumerate(found)]
        dims = tuple(fresh_dim() if d is None or d == -1 else d for d in found)
        return broadcast_dims(op.inputs[0].dims, dims) if op.op_type == "Expand" else dims


def reshaped(op):
    """A Reshape to sizes that are known: what it keeps of unknown sizes is known too."""
    x, target = op.inputs
    if target.value is None or op.attributes.get("allowzero"):
        return None
    return [ops.reshape(x, target.value)]


def _rank(op, count):
    """Whether the result is a vector, 1, or a number, 0."""
    if count != 1 or op.op_type in ("Shape", "Concat", "Slice", "Unsqueeze"):
        return 1
    if op.op_type == "Reshape":
        return int(op.inputs[1].dims != (0,))
    if op.op_type == "Gather":
        return op.inputs[1].rank
    if op.op_type in ("Squeeze", "Size"):
        return 0
    return max(x.rank for x in op.inputs)


def _gather(op, entries, index):
    if index is None or not all(isinstance(k, int) and k < len(entries) for k in index):
        return None
    return [entries[k] for k in index]


def _slice(op, entries, *bounds):
    if any(x is not None and x.value is None for x in op.inputs[1:]) or None in bounds[:2]:
        return None
    step = bounds[3] if len(bounds) > 3 and bounds[3] is not None else [1]
    start, end = (max(min(b[0], 2**31), -(2**31)) for b in bounds[:2])
    return entries[slice(start, None if step[0] < 0 and end < -len(entries) else end, step[0])]


def _concat(op, *parts):
    found = []
    for x, part in zip(op.inputs, parts, strict=True):
        if part is None and (x.rank != 1 or x.dtype.kind != "i" or not x.is_static):
            return None
        found += [None] * x.dims[0] if part is None else part
    return found


def _same(op, entries, *rest):
    return entries


def _binary(op, a, b):
    if b is None or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    count = max(len(a), len(b))
    pairs = zip(a * (count // len(a)), b * (count // len(b)), strict=True)
    return [_computed(op.op_type, p, q) for p, q in pairs]


def _computed(op_type, a, b):
    if not isinstance(a, int) or not isinstance(b, int) or (op_type == "Div" and b == 0):
        return None
    return int(_ARITHMETIC[op_type](a, b))


_STEPS = {"Gather": _gather, "Slice": _slice, "Concat": _concat}
_STEPS.update(dict.fromkeys(("Unsqueeze", "Squeeze", "Cast", "Identity", "Reshape"), _same))
_STEPS.update(dict.fromkeys(_ARITHMETIC, _binary))
