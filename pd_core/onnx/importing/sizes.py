"""Constant folding, and partial evaluation of sizes, while a graph is read.

Exporters compute the target of a Reshape from the shapes of other values. Their entries are
propagated here as far as they are known: for every vector of sizes numbers, names of sizes, or
None. A vector of numbers alone becomes a constant.
"""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from onnx import ModelProto, TensorProto, defs, shape_inference

from ... import ops
from ...graph.broadcast import broadcast_dims
from ...graph.inference import OPSET, attribute
from ...graph.variable import Dim, Dims, Variable, constant, fresh_dim
from .evaluation import evaluate, one_node_model
from .versions import Operator

Entries = list[int | str | None]  # of a vector of sizes: numbers, names of sizes, None if unknown

FOLD_LIMIT = 1024  # elements up to which constants are folded
_AT_MOST_THEIR_INPUT = ("Compress", "NonZero", "Unique")  # their outputs are no larger than that
_KEPT = ("Bernoulli", "Multinomial", "DequantizeLinear")  # random; weights that stay integers
_ARITHMETIC: dict[str, Callable] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: a // b if (a < 0) == (b < 0) else -(-a // b),  # toward zero
    "Max": np.maximum,
    "Min": np.minimum,
}


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


class Sizes:
    """The entries of the vectors of sizes in a graph, by Variable."""

    def __init__(self) -> None:
        self.entries: dict[Variable, Entries] = {}

    def of(self, x: Variable | None) -> Entries | None:
        """Return the entries of a vector or scalar, None if nothing is known of them."""
        if x is None:
            return None
        if x.value is not None and x.value.dtype.kind == "i" and x.rank <= 1:
            return x.value.reshape(-1).tolist()
        return self.entries.get(x)

    def settled(self, op: Operator) -> list[Variable] | None:
        """Return the outputs of an operator on sizes as constants, None unless all are known."""
        entries = self._entries(op)
        if entries is None or not all(isinstance(d, int) for d in entries):
            return None
        rank = _rank(op, len(entries))
        return [constant(np.array(entries, np.int64).reshape([len(entries)] * rank))]

    def note(self, op: Operator, outputs: list[Variable]) -> None:
        """Record the entries of the output of an operator on sizes."""
        entries = self._entries(op)
        if entries is not None and outputs[0].rank <= 1:
            self.entries[outputs[0]] = entries

    def _entries(self, op):
        if op.op_type == "Shape":
            a = op.attributes
            return list(op.inputs[0].dims[a.get("start", 0) : a.get("end")])
        if op.op_type == "Size" and op.inputs[0].is_static:
            return [prod(op.inputs[0].dims)]
        if op.op_type not in _STEPS or op.inputs[0] is None:
            return None
        if op.op_type == "Cast" and op.attributes["to"] != TensorProto.INT64:
            return None
        entries = [self.of(x) for x in op.inputs]
        if entries[0] is None and op.op_type != "Concat":
            return None
        return _STEPS[op.op_type](op, *entries)

    def dims(self, op: Operator) -> Dims | None:
        """Return the dims of an output from the vector of sizes that it is made with, or None."""
        if op.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
            return None
        sizes = self.entries.get(op.inputs[-1])
        if sizes is None:
            return None
        if op.op_type == "Reshape":
            sizes = [op.inputs[0].dims[k] if d == 0 else d for k, d in enumerate(sizes)]
        dims = tuple(fresh_dim() if d is None or d == -1 else d for d in sizes)
        return broadcast_dims(op.inputs[0].dims, dims) if op.op_type == "Expand" else dims


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


def _rank(op, count):
    """Return the rank of the result: 1 for a vector, 0 for a scalar."""
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
    if step[0] < 0:  # ONNX moves a start before the first entry to it, Python takes nothing
        start, end = max(start, -len(entries)), None if end < -len(entries) else end
    return entries[slice(start, end, step[0])]


def _concat(op, *parts):
    entries: list = []
    for x, part in zip(op.inputs, parts, strict=True):
        if part is None and (x.rank != 1 or x.dtype.kind != "i" or not x.is_static):
            return None
        entries += [None] * x.dims[0] if part is None else part
    return entries


def _same(op, entries, *rest):
    return entries


def _binary(op, a, b):
    if b is None or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    count = max(len(a), len(b))
    pairs = zip(a * (count // len(a)), b * (count // len(b)), strict=True)
    return [_arithmetic(op.op_type, p, q) for p, q in pairs]


def _arithmetic(op_type, a, b):
    if not isinstance(a, int) or not isinstance(b, int) or (op_type == "Div" and b == 0):
        return None
    return int(_ARITHMETIC[op_type](a, b))


_STEPS = {"Gather": _gather, "Slice": _slice, "Concat": _concat}
_STEPS.update(dict.fromkeys(("Unsqueeze", "Squeeze", "Cast", "Identity", "Reshape"), _same))
_STEPS.update(dict.fromkeys(_ARITHMETIC, _binary))
