"""Fake quantization: values rounded to integers and back, with a gradient."""

import numpy as np

from ... import ops
from ...graph.node import apply
from ...graph.variable import Variable
from .versions import Operator


def fake_quantized(op: Operator) -> list[Variable] | None:
    """Build a DequantizeLinear of a QuantizeLinear with a straight-through gradient, else None.

    Its gradient is that of clipping to the range of the integers (Jacob et al. 2018).
    """
    if op.op_type != "DequantizeLinear" or op.inputs[0].node is None:
        return None
    quantize = op.inputs[0].node
    if quantize.op_type != "QuantizeLinear" or not _same(quantize.inputs[1:], op.inputs[1:]):
        return None
    rounded = apply(op.op_type, *op.inputs, opset=op.version, **op.attributes)
    return [ops.straight_through(rounded, _clipped(quantize.inputs[0], op))]


def _same(ours, theirs):
    """Check whether two lists hold the same scale and zero point."""
    pad = (None,) * 2
    return all(a is b for a, b in zip((*ours, *pad)[:2], (*theirs, *pad)[:2], strict=True))


def _clipped(x, op):
    """Clip x to the range of the integers; x itself for a scale per axis or an unknown one."""
    scale, zero = op.inputs[1], op.input(2)
    integer = op.inputs[0].dtype
    constant = scale.value is not None and (zero is None or zero.value is not None)
    if not constant or scale.rank or integer.kind not in "iu":
        return x
    offset = 0 if zero is None else int(zero.value)
    low, high = ((int(n) - offset) * float(scale.value) for n in _range(integer))
    return ops.clip(x, low, high)


def _range(integer):
    limits = np.iinfo(integer)
    return limits.min, limits.max
