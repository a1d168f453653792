"""Fake quantization: values rounded to integers and back, with a gradient."""

import numpy as np

from ... import ops
from ...graph.node import apply
from ...graph.variable import Variable, constant
from .versions import Operator


def fake_quantized(op: Operator) -> list[Variable] | None:
    """Build a DequantizeLinear of a QuantizeLinear with a straight-through gradient, else None.

    Its gradient is that of clipping to the range of the integers (Jacob et al. 2018). A training
    step rounds floats: of QuantizeLinear around what a step reads ONNX Runtime makes products of 8
    bits, which saturate on processors without VNNI, and moves it behind other operators, with a
    zero point of another type than int8.
    """
    if op.op_type != "DequantizeLinear" or op.inputs[0].node is None:
        return None
    quantize = op.inputs[0].node
    if quantize.op_type != "QuantizeLinear" or not _same(quantize.inputs[1:], op.inputs[1:]):
        return None
    x, integers = (
        quantize.inputs[0],
        apply(op.op_type, *op.inputs, opset=op.version, **op.attributes),
    )
    if op.inputs[0].dtype.kind not in "iu" or op.attributes.get("block_size", 0):
        return [ops.straight_through(integers, x)]
    scale, zero = (_along(v, x, op) for v in (op.inputs[1], op.input(2)))
    zero = constant(0.0, x.dtype) if zero is None else ops.cast(zero, x.dtype)
    low, high = _range(op.inputs[0].dtype)
    floats = (ops.clip(ops.round(x / scale) + zero, low, high) - zero) * scale
    rounded = ops.mode_switch(floats, integers)
    bounds = [ops.stop_gradient((limit - zero) * scale) for limit in (low, high)]
    return [ops.straight_through(rounded, ops.minimum(ops.maximum(x, bounds[0]), bounds[1]))]


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
