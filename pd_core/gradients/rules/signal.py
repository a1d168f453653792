"""Derivatives of spectra: the adjoint of a transform is the one in the other direction."""

import numpy as np

from ... import ops
from ...graph.node import Node
from ...graph.variable import Inputs, Variable, constant
from ...ops.math import quotient
from ..expression import expression
from ..registry import Attributes, Gradients, gradient, reapply


@gradient("DFT")
def dft(node: Node, dy: Variable) -> Gradients:
    inputs: Inputs = (*node.inputs, None, None)
    x, length, axis = inputs[:3]
    rest = [None] * (len(node.inputs) - 1)
    axis = constant(np.int64(x.rank - 2)) if axis is None else axis
    size = ops.reshape(ops.gather(ops.shape_of(x), axis), [])
    inverse, onesided = (node.attributes.get(k, 0) for k in ("inverse", "onesided"))
    if length is None:
        length = (size - 1) * 2 if inverse and onesided else size
    length = ops.reshape(length, [])
    known = (*dy.dims[:-1], 2) if x.rank == 2 else None
    g = reapply(node, dy, length, axis, inverse=1 - inverse, onesided=0, known=known)
    count = ops.cast(length, dy.dtype)
    g = g / count if inverse else g * count
    if inverse and onesided:
        g = g * _onesided_factors(g, length, axis)
    g = _fit(g, x, size, length, axis)
    if x.dims[-1] != 2:  # real, or not known to be complex
        g = ops.slice(g, [0], ops.size_of(x, x.rank - 1), [x.rank - 1])
    return [g, *rest]


def _onesided_factors(g, length, axis):
    """Return a factor for each frequency of a one-sided spectrum.

    2 for those with a conjugate that is not stored, 1 for frequency 0 and Nyquist's, 0 above it.
    """
    k = ops.arange(ops.gather(ops.shape_of(g), axis))
    single = ops.logical_or(ops.equal(k, 0), ops.equal(k * 2, length))
    factor = ops.where(single, constant(1.0, g.dtype), 2.0)
    factor = ops.where(k * 2 > length, 0.0, factor)
    is_axis = ops.equal(np.arange(g.rank), ops.reshape(axis, [1]))
    return ops.reshape(factor, ops.where(is_axis, constant(np.int64(-1)), 1))


def _fit(g, x, size, length, axis):
    """Cut or zero-pad g to the size of x along the axis."""
    size, axes = ops.reshape(size, [1]), ops.reshape(axis, [1])
    g = ops.slice(g, [0], size, axes)
    if axis.value is None:
        return g
    n = int(axis.value) % x.rank
    if isinstance(x.dims[n], int) and g.dims[n] == x.dims[n]:
        return g
    missing = ops.maximum(size - ops.reshape(length, [1]), 0)
    shape = ops.concat([missing if k == n else ops.size_of(g, k) for k in range(g.rank)])
    return ops.concat([g, ops.expand(constant(0.0, g.dtype), shape)], n)


@expression("STFT")
def stft(
    a: Attributes,
    signal: Variable,
    step: Variable,
    window: Variable | None = None,
    length: Variable | None = None,
) -> Variable:
    """DFT of each frame of a window that moves by a step."""
    if length is None:
        length = ops.size_of(signal if window is None else window, 1 if window is None else 0)
    length, step = (ops.reshape(v, [1]) for v in (length, step))
    count = quotient(ops.size_of(signal, 1) - length, step) + 1
    starts, within = ops.arange(count) * step, ops.arange(length)
    frames = ops.gather(signal, ops.unsqueeze(starts, 1) + ops.unsqueeze(within, 0), 1)
    if window is not None:
        frames = frames * ops.reshape(window, [-1, 1])
    return ops.dft(frames, axis=2, onesided=a.get("onesided", 1))
