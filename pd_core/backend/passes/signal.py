"""Fourier transforms in forms that all runtimes compute alike."""

import numpy as np

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.variable import Inputs, constant, fresh_dim
from ...ops.math import quotient
from .context import Context, Outputs


def stft(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Write `onesided` out: the shape inference of runtimes takes it to be 0 by default."""
    if "onesided" in node.attributes:
        return None
    return (apply("STFT", *inputs, known=node.outputs[0].dims, onesided=1, **node.attributes),)


def dft(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Crop or pad the frequencies of an inverse real transform to those of its length.

    ONNX Runtime 1.31 mixes those beyond into the result, and does not take missing ones as zero.
    """
    padded: Inputs = (*inputs, None, None)
    x, length, axis = padded[:3]
    if length is None or not all(node.attributes.get(k, 0) for k in ("inverse", "onesided")):
        return None
    axis = constant(np.int64(x.rank - 2)) if axis is None else axis
    one, zero = np.array([1], np.int64), np.array([0], np.int64)
    along = ops.reshape(axis, one)
    count = quotient(ops.reshape(length, one), 2) + one
    known = [
        fresh_dim() if axis.value is None or k == axis.value % x.rank else d
        for k, d in enumerate(x.dims)
    ]
    x = apply("Slice", x, zero, count, along)
    missing = count - apply("Gather", ops.shape_of(x), along)
    widths = ops.concat([zero, missing])
    x = apply("Pad", x, widths, constant(0, x.dtype), along, mode="constant")
    x = refined(x, known)
    return (apply("DFT", x, length, axis, known=node.outputs[0].dims, **node.attributes),)
