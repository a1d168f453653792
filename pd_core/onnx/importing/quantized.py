"""Fake quantization: values rounded to integers and back, with a gradient."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ... import ops
from ...graph.node import Inputs, Node, ancestors, apply, rebuilt
from ...graph.variable import Variable, constant
from .versions import Operator

# operators that move elements and compute none, and MaxPool, which keeps some: the inputs that
# hold elements, from the first to the last
_MOVES: dict[str, slice] = {
    **dict.fromkeys(
        ("Compress", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        slice(1),
    ),
    **dict.fromkeys(("Identity", "MaxPool", "Reshape", "ReverseSequence", "Slice"), slice(1)),
    **dict.fromkeys(("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose"), slice(1)),
    "Unsqueeze": slice(1),
    "Concat": slice(None),
    "Where": slice(1, None),
}


def fake_quantized(op: Operator) -> list[Variable] | None:
    """Build a DequantizeLinear of a QuantizeLinear with a straight-through gradient, else None.

    With one scale for all elements, operators that move the integers may stand between the two.
    """
    if op.op_type != "DequantizeLinear" or op.inputs[0].node is None:
        return None
    if _is_quantized(op.inputs[0].node, op):
        return [_pair(op)]
    if op.inputs[0].node.op_type not in _MOVES or op.inputs[1].dims not in ((), (1,)):
        return None
    moved = dict(_moved(op)).get(op.inputs[0])
    if moved is None:
        return None
    return [ops.straight_through(ops.mode_switch(moved, _dequantized(op)), moved)]


def _moved(op: Operator) -> Iterator[tuple[Variable, Variable]]:
    """Yield (integers, the floats that they stand for), moved as the integers are."""
    floats: dict[Variable, Variable] = {}
    for node in ancestors([op.inputs[0]], select=_elements):
        moved: tuple[Variable, ...] = ()
        if _is_quantized(node, op):
            moved = (_pair(_of(op, node.outputs[0])),)
        elif not floats.keys().isdisjoint(_elements(node)):
            held = {x: floats.get(x) for x in _elements(node) if x is not None}
            held = {x: _dequantized(_of(op, x)) if y is None else y for x, y in held.items()}
            inputs = list(node.inputs)
            place = _MOVES[node.op_type]
            inputs[place] = [held.get(x, x) for x in inputs[place]]
            types = [
                (y.dims, op.inputs[1].dtype if y.dtype == op.inputs[0].dtype else y.dtype)
                for y in node.outputs
            ]
            moved = tuple(rebuilt(node, tuple(inputs), types=types).outputs)
        pairs = [(x, y) for x, y in zip(node.outputs, moved, strict=False) if x.dtype != y.dtype]
        floats.update(pairs)
        yield from pairs


def _elements(node: Node) -> Inputs:
    """Return the inputs of a node whose elements its output has; none of other operators."""
    return node.inputs[_MOVES[node.op_type]] if node.op_type in _MOVES else ()


def _is_quantized(node: Node, op: Operator) -> bool:
    """Whether a node is the QuantizeLinear whose reverse an operator is."""
    if node.op_type != "QuantizeLinear" or not _same(node.inputs[1:], op.inputs[1:]):
        return False
    along = op.inputs[1].dims not in ((), (1,))
    return not along or _axis(node.attributes, node) == _axis(op.attributes, node)


def _axis(attributes, node):
    return attributes.get("axis", 1) % node.inputs[0].rank


def _of(op: Operator, x: Variable) -> Operator:
    return replace(op, inputs=[x, *op.inputs[1:]])


def _dequantized(op: Operator) -> Variable:
    return apply(op.op_type, *op.inputs, opset=op.version, **op.attributes)


def _pair(op: Operator) -> Variable:
    """Return what the pair of operators gives for what the first one reads.

    Its gradient is that of clipping to the range of the integers (Jacob et al. 2018). A training
    step rounds floats: of QuantizeLinear around what a step reads ONNX Runtime makes products of 8
    bits, which saturate on processors without VNNI, and moves it behind other operators, with a
    zero point of another type than int8.
    """
    x, integers = op.inputs[0].node.inputs[0], _dequantized(op)
    if op.inputs[0].dtype.kind not in "iu" or op.attributes.get("block_size", 0):
        return ops.straight_through(integers, x)
    scale, zero = (_along(v, x, op) for v in (op.inputs[1], op.input(2)))
    zero = constant(0.0, x.dtype) if zero is None else ops.cast(zero, x.dtype)
    low, high = _range(op.inputs[0].dtype)
    floats = (ops.clip(ops.round(x / scale) + zero, low, high) - zero) * scale
    rounded = ops.mode_switch(floats, integers)
    bounds = [ops.stop_gradient((limit - zero) * scale) for limit in (low, high)]
    return ops.straight_through(rounded, ops.minimum(ops.maximum(x, bounds[0]), bounds[1]))


def _same(ours, theirs):
    """Check whether two lists hold the same scale and zero point."""
    pad = (None,) * 2
    pairs = zip((*ours, *pad)[:2], (*theirs, *pad)[:2], strict=True)
    return all(a is b or _equal(a, b) for a, b in pairs)


def _equal(a, b):
    if a is None or b is None or a.value is None or b.value is None:
        return False
    return np.array_equal(a.value, b.value)


def _along(v, x, op):
    """Give a scale or zero point for each index of an axis the rank of x."""
    if v is None or v.rank == 0 or v.dims == (1,):
        return v if v is None else ops.reshape(v, [])
    axis = op.attributes.get("axis", 1) % x.rank
    return ops.reshape(v, [-1] + [1] * (x.rank - axis - 1))


def _range(integer):
    limits = np.iinfo(integer)
    return float(limits.min), float(limits.max)
