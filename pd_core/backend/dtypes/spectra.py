"""Fourier transforms as products with matrices of sines and cosines."""

import math

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant
from .windows import quotient, reshaped


def dft(node: Node, inputs: Inputs) -> Variable:
    """Multiply with e^(-2 pi i n k / length)."""
    padded: Inputs = (*inputs, None, None)
    x, length, axis = padded[:3]
    x, parts = _in_parts(x)
    inverse, onesided = (bool(node.attributes.get(k, 0)) for k in ("inverse", "onesided"))
    real = inverse and onesided  # of which the conjugates of half the frequencies are not stored
    lead, count, trail = _around(x, axis)
    if length is None:
        length = (count - 1) * 2 if real else count
    length = ops.reshape(length, [1])
    half = quotient(length, 2) + 1
    x = reshaped(x, [_product(lead), count, _product(trail), parts])
    x = ops.slice(ops.transpose(x, [0, 2, 3, 1]), [0], half if real else length, [3])
    rows = ops.arange(ops.size_of(x, 3))
    columns = ops.arange(half if onesided and not inverse else length)
    cos, sin = _waves(rows, columns, length, x.dtype)
    if real:
        weights = ops.where(_is_alone(rows, length), constant(1, x.dtype), 2.0)
        cos, sin = (v * ops.unsqueeze(weights, 1) for v in (cos, sin))
    sin = -sin if inverse else sin
    # from the real and the imaginary part to the result
    whole = [cos, sin] if real else [ops.concat([cos, -sin], 1), ops.concat([sin, cos], 1)]
    matrix = ops.concat(whole[:parts], 0)
    sizes = [_product(lead), _product(trail)]
    y = reshaped(x, [*sizes, ops.size_of(matrix, 0)]) @ matrix
    found = ops.size_of(columns, 0), constant(np.array([1 if real else 2]))
    y = ops.transpose(reshaped(y, [*sizes, found[1], found[0]]), [0, 3, 1, 2])
    if inverse:
        y = y / ops.cast(length, x.dtype)
    shape, known = ops.concat([lead, found[0], trail, found[1]]), node.outputs[0].dims
    return apply("Reshape", y, shape, known=known, allowzero=1)


def _in_parts(x):
    """Return the numbers, and how many parts they have: 1, or 2 if they are complex.

    Where that is known only at run time they get an imaginary part if they have none.
    """
    parts = x.dims[-1]
    if isinstance(parts, int):
        return x, parts
    missing = 2 - ops.shape_of(x)[-1]
    pads = ops.concat([np.zeros(2 * x.rank - 1, np.int64), ops.reshape(missing, [1])])
    return apply("Pad", x, pads, known=[*x.dims[:-1], 2]), 2


def _around(x, axis):
    """The sizes before an axis, its own and those after it but the last, int64 vectors."""
    shape, last = ops.shape_of(x), x.rank - 1
    axis = constant(np.int64(x.rank - 2)) if axis is None else axis
    at = ops.reshape(ops.cast(axis, np.int64), [1])
    at = apply("Mod", at, constant(np.array([x.rank])))
    lead, trail = ops.slice(shape, [0], at), ops.slice(shape, at + 1, [last])
    return lead, ops.gather(shape, at), trail


def _product(sizes):
    return ops.reduce_prod(sizes, [0], keep_dim=True)


def _waves(rows, columns, length, dtype):
    """Cosines and sines of the angles of all products of rows and columns."""
    turns = apply("Mod", ops.unsqueeze(rows, 1) * ops.unsqueeze(columns, 0), length)
    angles = ops.cast(turns, dtype) * (2.0 * math.pi) / ops.cast(length, dtype)
    return ops.cos(angles), ops.sin(angles)


def _is_alone(rows, length):
    """Whether a frequency has no conjugate: 0, and half the length."""
    return ops.logical_or(ops.equal(rows, np.int64(0)), ops.equal(rows * 2, length))
