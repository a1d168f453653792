"""Values that are rounded to integers and back, with a gradient."""

import numpy as np

from .. import ops
from ..graph.node import apply


def fake_quantized(op):
    """DequantizeLinear of QuantizeLinear: the rounded values, and the gradient of clipping.

    Rounding has no slope of its own; that of what it stands for is the usual one (Jacob et al.
    2018).
    """
    if op.op_type != "DequantizeLinear" or op.inputs[0].node is None:
        return None
    rounding = op.inputs[0].node
    if rounding.op_type != "QuantizeLinear" or not _same(rounding.inputs[1:], op.inputs[1:]):
        return None
    rounded = apply(op.op_type, *op.inputs, opset=op.version, **op.attributes)
    return [ops.straight_through(rounded, _clipped(rounding.inputs[0], op))]


def _same(ours, theirs):
    """Whether two lists of scales and zero points are equal."""
    pad = (None,) * 2
    return all(a is b for a, b in zip((*ours, *pad)[:2], (*theirs, *pad)[:2], strict=True))


def _clipped(x, op):
    """x within what the integers reach, where that is one range for all."""
    scale, zero = op.inputs[1], op.input(2)
    integer = op.inputs[0].dtype
    known = scale.value is not None and (zero is None or zero.value is not None)
    if not known or scale.rank or integer.kind not in "iu":
        return x
    centre = 0 if zero is None else int(zero.value)
    least, most = ((int(n) - centre) * float(scale.value) for n in _range(integer))
    return ops.clip(x, least, most)


def _range(integer):
    limits = np.iinfo(integer)
    return limits.min, limits.max
