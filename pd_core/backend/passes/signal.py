"""Spectra in forms that all runtimes understand alike."""

import numpy as np

from ...graph.node import apply
from ...graph.variable import constant


def stft(node, inputs, sizes, seed):
    """With `onesided` written out: the shape inference of runtimes takes it to be 0 by default."""
    if "onesided" in node.attributes:
        return None
    return (apply("STFT", *inputs, known=node.outputs[0].dims, onesided=1, **node.attributes),)


def dft(node, inputs, sizes, seed):
    """The inverse of a real signal, of as many frequencies as it has.

    ONNX Runtime 1.31 mixes those beyond into the result, and takes those missing for no zeros.
    """
    x, length, axis = (*inputs, None, None)[:3]
    if length is None or not all(node.attributes.get(k, 0) for k in ("inverse", "onesided")):
        return None
    axis = constant(np.int64(x.rank - 2)) if axis is None else axis
    one, zero = np.array([1], np.int64), np.array([0], np.int64)
    along = apply("Reshape", axis, one)
    count = apply("Add", apply("Div", apply("Reshape", length, one), np.int64(2)), one)
    x = apply("Slice", x, zero, count, along)
    missing = apply("Sub", count, apply("Gather", apply("Shape", x), along))
    widths = apply("Concat", zero, missing, axis=0)
    x = apply("Pad", x, widths, constant(0, x.dtype), along, mode="constant")
    return (apply("DFT", x, length, axis, known=node.outputs[0].dims, **node.attributes),)
