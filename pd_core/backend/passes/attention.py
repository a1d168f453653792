"""Attention as ONNX Runtime 1.31 has it: without windows, with a mask of the scores' height and
width."""

import numpy as np

from ...graph.node import apply
from ...graph.variable import constant

_WINDOW = ("left_window_size", "right_window_size")


def full_mask(node, inputs, sizes, seed):
    """The same with a mask that says it all; None if there is nothing to be said."""
    q, k, v, mask, *rest = (*inputs, *[None] * (7 - len(inputs)))
    shape = _Scores(q, k, rest[0])
    windowed = any(name in node.attributes for name in _WINDOW)
    if not windowed and (mask is None or shape.fits(mask)):
        return None
    attributes = {name: x for name, x in node.attributes.items() if name not in _WINDOW}
    window = [node.attributes.get(name, -1) for name in _WINDOW]
    hidden, nothing = constant(-np.inf, q.dtype), constant(0, q.dtype)
    if mask is not None and mask.dtype == np.bool_:
        mask = apply("Where", mask, nothing, hidden)
    total = apply("Expand", nothing, apply("Concat", shape.queries, shape.keys, axis=0))
    if mask is not None:
        total = apply("Add", shape.widened(mask, hidden), total)
    for far in shape.out_of(window, rest[2]):
        total = apply("Where", far, hidden, total)
    kept = [q, k, v, total, *rest]
    while kept[-1] is None:
        kept.pop()
    found = apply("Attention", *kept, outputs=len(node.outputs), **attributes)
    return found if isinstance(found, tuple) else (found,)


class _Scores:
    """The height and width of the scores, int64[1] each: queries, and keys with those cached."""

    def __init__(self, q, k, past):
        axis = q.rank - 2
        self.queries, self.keys = _size(q, axis), _size(k, axis)
        self.first = constant(np.int64([0]))
        self.dims = [q.dims[axis], k.dims[axis]]
        if past is not None:
            self.first = _size(past, 2)
            self.keys = apply("Add", self.keys, self.first)
            known = isinstance(k.dims[axis], int) and isinstance(past.dims[2], int)
            self.dims[1] = k.dims[axis] + past.dims[2] if known else None

    def fits(self, mask):
        """Whether a mask has one row for all queries or ends before the keys, as far as is seen."""
        height, width = self.dims
        low = mask.rank < 2 or (mask.dims[-2] == 1 and height != 1)
        return not low and not _ends_before(mask.dims[-1], width)

    def widened(self, mask, hidden):
        """A mask for all keys."""
        if not _ends_before(mask.dims[-1], self.dims[1]):
            return mask
        axis = mask.rank - 1
        rest = apply("Sub", self.keys, _size(mask, axis))
        sizes = [rest] if axis == 0 else [apply("Shape", mask, end=axis), rest]
        more = apply("Expand", hidden, apply("Concat", *sizes, axis=0))
        return apply("Concat", mask, more, axis=axis)

    def out_of(self, window, filled):
        """The places too far before a query, and those too far behind it."""
        first = self.first
        if filled is not None:
            last = apply("Reshape", filled, np.int64([-1, 1, 1, 1]))
            first = apply("Sub", last, self.queries)
        query = apply("Add", apply("Unsqueeze", _range(self.queries), np.int64([1])), first)
        ahead = apply("Sub", _range(self.keys), query)
        before, after = window
        if before >= 0:
            yield apply("Less", ahead, np.int64(-before))
        if after >= 0:
            yield apply("Greater", ahead, np.int64(after))


def _ends_before(width, keys):
    """Whether a mask of known width may be too short."""
    return isinstance(width, int) and width != keys


def _size(x, axis):
    return apply("Shape", x, start=axis, end=axis + 1)


def _range(count):
    return apply("Range", np.int64(0), apply("Squeeze", count, np.int64([0])), np.int64(1))
