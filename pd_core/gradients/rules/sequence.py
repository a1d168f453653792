"""Derivatives of packed sequences: each operator's gradient is its inverse or its transpose."""

import numpy as np

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable
from ..registry import Gradients, gradient


@gradient("PadRows")
def pad_rows(node: Node, dy: Variable) -> Gradients:
    _, index, places = node.inputs
    return [ops.pack_rows(dy, index, places), None, None]


@gradient("PackRows")
def pack_rows(node: Node, dy: Variable) -> Gradients:
    _, index, places = node.inputs
    return [ops.pad_rows(dy, index, places), None, None]


@gradient("PadChunks")
def pad_chunks(node: Node, *dys: Variable | None) -> Gradients:
    _, places, *indices = node.inputs
    parts = [
        ops.zeros_like(part) if dy is None else dy
        for part, dy in zip(node.outputs, dys, strict=True)
    ]
    return [ops.pack_chunks(parts, places, indices), None, *[None] * len(indices)]


@gradient("PackChunks")
def pack_chunks(node: Node, dy: Variable) -> Gradients:
    places, *rest = node.inputs
    indices = rest[len(rest) // 2 :]
    return [None, *ops.pad_chunks(dy, places, indices), *[None] * len(indices)]


@gradient("PermuteRows")
def permute_rows(node: Node, dy: Variable) -> Gradients:
    _, index, back = node.inputs
    return [ops.permute_rows(dy, back, index), None, None]


@gradient("SegmentSum")
def segment_sum(node: Node, dy: Variable) -> Gradients:
    _, index, owner = node.inputs
    return [ops.repeat_rows(dy, index, owner, node.attributes["holes"]), None, None]


@gradient("RepeatRows")
def repeat_rows(node: Node, dy: Variable) -> Gradients:
    _, index, owner = node.inputs
    return [ops.segment_sum(dy, index, owner, node.attributes["holes"]), None, None]


@gradient("SegmentMax")
def segment_max(node: Node, dy: Variable) -> Gradients:
    """To the first row that holds the maximum."""
    x, index, owner, position, lengths = node.inputs
    row = ops.cast(position, x.dtype)
    row = ops.reshape(row, [-1] + [1] * (x.rank - 1)) if x.rank > 1 else row
    hits = ops.equal(x, ops.repeat_rows(node.outputs[0], index, owner))
    candidates = ops.where(hits, -row, np.array(-np.inf, x.dtype))
    first = ops.segment_max(candidates, index, owner, position, lengths)
    is_first = ops.equal(row, ops.repeat_rows(-first, index, owner))
    dx = ops.where(is_first, ops.repeat_rows(dy, index, owner), np.array(0, x.dtype))
    return [dx, None, None, None, None]
