"""Indices of MaxPool by elementwise operators, for runtimes whose MaxPool has none.

A maximum over a window is one along each axis in turn, and so is the place of the first maximum,
row by row: the first along the last axis, then the first row that has it. Sizes may be known at
run time only.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, constant
from .context import Context, Outputs


def max_pool_indices(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower a MaxPool with Indices to one without, and the index of the first maximum.

    Each axis takes as many steps as its window has cells. Where all of a window is NaN or -inf, its
    first pixel is the maximum.
    """
    if len(node.outputs) < 2:
        return None
    (x,), a = inputs, dict(node.attributes)
    columns_first = a.pop("storage_order", 0)
    y, indices = node.outputs
    pooled = apply("MaxPool", x, known=y.dims, **a)
    bounded = is_output_of(x, "Relu")  # neither NaN nor -inf
    largest, at = x, _numbered(ops.shape_of(x)[2:], x.rank - 2, columns_first)
    for axis in reversed(range(x.rank - 2)):
        largest, at = _along(_Axis(axis, a, x, pooled), largest, at, bounded)
    lead = apply("Shape", x, end=2)
    pixels = apply("ReduceProd", ops.shape_of(x)[2:], keepdims=0)
    images = ops.reshape(ops.arange(apply("ReduceProd", lead, keepdims=0)), lead)
    first = ops.unsqueeze(images * pixels, list(range(2, x.rank)))
    index = ops.cast(at, np.int64) + first
    return pooled, apply("Reshape", index, ops.shape_of(pooled), known=indices.dims, allowzero=1)


class _Axis:
    """The windows along one spatial axis, with sizes that may be known at run time only."""

    def __init__(self, axis, attributes, image, result):
        n = image.rank - 2
        self.axis = 2 + axis
        self.window = attributes["kernel_shape"][axis]
        self.stride, self.dilation = (
            (attributes.get(name) or [1] * n)[axis] for name in ("strides", "dilations")
        )
        self.size, self.count = (ops.shape_of(v)[2 + axis : 3 + axis] for v in (image, result))
        kind, pads = attributes.get("auto_pad", "NOTSET"), attributes.get("pads") or [0] * (2 * n)
        if kind.startswith("SAME"):
            reach = (self.count - 1) * self.stride + ((self.window - 1) * self.dilation + 1)
            total = ops.maximum(reach - self.size, 0)
            upper = kind == "SAME_UPPER"
            self.before = apply("Div", total if upper else total + 1, np.array([2]))
            self.after, self.is_padded = total - self.before, True
        else:
            self.before, self.after = (
                np.array([0 if kind == "VALID" else pads[k]]) for k in (axis, n + axis)
            )
            self.after = self.after + attributes.get("ceil_mode", 0) * (self.stride - 1)  # at most
            self.is_padded = bool(self.before.any() or self.after.any())

    def padded(self, x, value):
        """Return x with cells before and after the axis."""
        if not self.is_padded:
            return x
        widths = ops.concat([constant(self.before), constant(self.after)], axis=0)
        return apply("Pad", x, widths, constant(value, x.dtype), np.array([self.axis]))

    def cell(self, padded, k):
        """Return cell k of each window."""
        start = np.array([k * self.dilation])
        end = (self.count - 1) * self.stride + (k * self.dilation + 1)
        return apply("Slice", padded, start, end, np.array([self.axis]), np.array([self.stride]))

    def at(self, k, rank):
        """Return the place of cell k of each window on the axis, [windows, 1, ...]."""
        place = ops.arange(ops.squeeze(self.count, [0])) * self.stride + (k * self.dilation)
        return ops.reshape(place - self.before, [-1, *[1] * (rank - 1 - self.axis)])


def _along(axis, x, at, bounded):
    """Return the maxima of the windows along an axis, and `at` where the first of them are."""
    lowest = np.finfo(x.dtype).min if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    x, at = axis.padded(x, lowest), axis.padded(at, 0)
    largest, best = axis.cell(x, 0), axis.cell(at, 0)
    for k in range(1, axis.window):
        value = axis.cell(x, k)
        wins = value > largest
        if axis.is_padded and not bounded:  # padding is no maximum where all is -inf
            place = axis.at(k, x.rank)
            inside, is_first = place < axis.size, (place >= 0) & (place < axis.dilation)
            wins = ops.logical_or(ops.logical_and(wins, inside), is_first)
        best = ops.where(wins, axis.cell(at, k), best)
        largest = ops.where(wins, value, largest)
    return largest, best


def _numbered(sizes, n, columns_first):
    """The numbers of the pixels of an image, int32 [1, 1, *S]; by columns if asked for."""
    count = ops.arange(ops.squeeze(apply("ReduceProd", sizes, keepdims=1), [0]))
    order = list(range(n))[::-1] if columns_first else list(range(n))
    number = ops.reshape(count, apply("Gather", sizes, np.array(order)) if columns_first else sizes)
    if columns_first:
        number = ops.transpose(number, order)
    return ops.unsqueeze(ops.cast(number, np.int32), [0, 1])
