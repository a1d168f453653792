"""Derivatives of packed sequences: each operator's gradient is its inverse or its transpose."""

import numpy as np

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable
from ..registry import Gradients, gradient, zero


@gradient("PadRows")
def pad_rows(node: Node, dy: Variable) -> Gradients:
    _, index, inverse = node.inputs
    return [ops.pack_rows(dy, index, inverse), None, None]


@gradient("PackRows")
def pack_rows(node: Node, dy: Variable) -> Gradients:
    _, index, inverse = node.inputs
    return [ops.pad_rows(dy, index, inverse), None, None]


@gradient("PadChunks")
def pad_chunks(node: Node, *dys: Variable | None) -> Gradients:
    _, inverse, *indices = node.inputs
    parts = [
        ops.zeros_like(part) if dy is None else dy
        for part, dy in zip(node.outputs, dys, strict=True)
    ]
    return [ops.pack_chunks(parts, inverse, indices), None, *[None] * len(indices)]


@gradient("PackChunks")
def pack_chunks(node: Node, dy: Variable) -> Gradients:
    inverse, *rest = node.inputs
    indices = rest[len(rest) // 2 :]
    return [None, *ops.pad_chunks(dy, inverse, indices), *[None] * len(indices)]


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
    return [ops.packed_sum(dy, index, owner, node.attributes["holes"]), None, None]


zero("SegmentArgMax")


@gradient("SegmentMax")
def segment_max(node: Node, dy: Variable) -> Gradients:
    """To the first row that holds the maximum."""
    x, index, owner, position, _ = node.inputs
    first = ops.repeat_rows(ops.cast(ops.packed_arg_max(x, index), np.float32), index, owner)
    row = ops.cast(position, np.float32)
    row = ops.reshape(row, [-1] + [1] * (x.rank - 1)) if x.rank > 1 else row
    dx = ops.cast(ops.equal(row, first), x.dtype) * ops.repeat_rows(dy, index, owner)
    return [dx, None, None, None, None]
