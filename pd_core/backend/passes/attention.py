"""Attention as ONNX Runtime 1.31 has it: without windows, and with a mask of the full size of the
scores."""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, constant
from .context import Context, Outputs

_WINDOW = ("left_window_size", "right_window_size")


def attention(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Write windows and short masks out as one additive mask; keep an attention without them."""
    padded: Inputs = (*inputs, *[None] * (7 - len(inputs)))
    q, k, v, mask, *rest = padded
    scores = _Scores(q, k, rest[0])
    windowed = any(name in node.attributes for name in _WINDOW)
    if not windowed and (mask is None or scores.fits(mask)):
        return None
    attributes = {name: x for name, x in node.attributes.items() if name not in _WINDOW}
    window = [node.attributes.get(name, -1) for name in _WINDOW]
    hidden, visible = constant(-np.inf, q.dtype), constant(0, q.dtype)
    if mask is not None and mask.dtype == np.bool_:
        mask = ops.where(mask, visible, hidden)
    total = ops.expand(visible, ops.concat([scores.queries, scores.keys]))
    if mask is not None:
        total = scores.widened(mask, hidden) + total
    for outside in scores.outside(window, rest[2]):
        total = ops.where(outside, hidden, total)
    new = [q, k, v, total, *rest]
    while new[-1] is None:
        new.pop()
    outputs = apply("Attention", *new, outputs=len(node.outputs), **attributes)
    return outputs if isinstance(outputs, tuple) else (outputs,)


class _Scores:
    """The height and width of the scores, int64[1] each: queries, and keys with those cached."""

    def __init__(self, q, k, past):
        axis = q.rank - 2
        self.queries, self.keys = ops.size_of(q, axis), ops.size_of(k, axis)
        self.first = constant(np.int64([0]))  # position of the first query
        self.height, self.width = q.dims[axis], k.dims[axis]
        if past is not None:
            self.first = ops.size_of(past, 2)
            self.keys = self.keys + self.first
            known = isinstance(k.dims[axis], int) and isinstance(past.dims[2], int)
            self.width = k.dims[axis] + past.dims[2] if known else None

    def fits(self, mask):
        """Whether a mask has a row for each query and reaches the last key, as far as is known."""
        low = mask.rank < 2 or (mask.dims[-2] == 1 and self.height != 1)
        return not low and not _ends_before(mask.dims[-1], self.width)

    def widened(self, mask, hidden):
        """A mask for all keys: those beyond its width are hidden."""
        if not _ends_before(mask.dims[-1], self.width):
            return mask
        axis = mask.rank - 1
        rest = self.keys - ops.size_of(mask, axis)
        sizes = [rest] if axis == 0 else [apply("Shape", mask, end=axis), rest]
        more = ops.expand(hidden, ops.concat(sizes))
        return apply("Concat", mask, more, axis=axis)

    def outside(self, window, filled):
        """Masks of the keys too far before a query, and of those too far behind it."""
        first = self.first
        if filled is not None:  # the number of valid keys of each batch entry
            first = apply("Reshape", filled, np.int64([-1, 1, 1, 1])) - self.queries
        query = ops.unsqueeze(ops.arange(self.queries), 1) + first
        distance = ops.arange(self.keys) - query
        before, after = window
        if before >= 0:
            yield distance < -before
        if after >= 0:
            yield distance > after


def _ends_before(width, keys):
    """Whether a mask of known width may be too short."""
    return isinstance(width, int) and width != keys
