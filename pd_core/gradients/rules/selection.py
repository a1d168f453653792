"""Derivatives of operators whose results are elements of their input, or a fixed value.

Such an operator, applied to the flat indices of the elements, gives the index of the element that
each of its results comes from: there the gradient is summed.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Operand, Variable
from ..registry import Gradients, gradient, reapply


def flat_indices(x: Variable, first: int = 0) -> Variable:
    """Return the flat indices of the elements of x, counted from `first`, in its shape."""
    count = ops.arange(ops.size(x))
    return ops.reshape_like(count + first if first else count, x)


@gradient("GatherND", "Compress")
def selected(node: Node, dy: Variable) -> Gradients:
    x, *rest = node.inputs
    index = reapply(node, flat_indices(x), *rest, known=dy.dims)
    return [_scatter_to(x, index, dy), *[None] * len(rest)]


def _scatter_to(x, index, dy):
    """Sum dy at flat indices of x, in the shape of x."""
    zeros = ops.reshape(ops.zeros_like(x), [-1])
    sums = ops.scatter_add(zeros, ops.reshape(index, [-1]), ops.reshape(dy, [-1]))
    return ops.reshape_like(sums, x)


def filled(node: Node, dy: Variable, *rest: Operand | None) -> tuple[Variable, Variable]:
    """Return (gradient of the input, gradient of the fill value) of a node on (x, *rest)."""
    x = node.inputs[0]
    # indices count from 1: where the operator fills with 0, dy belongs to the fill value
    index = reapply(node, flat_indices(x, 1), *rest, known=dy.dims)
    zeros = ops.reshape(ops.zeros_like(x), [-1])
    zeros = ops.concat([ops.cast(np.zeros(1), dy.dtype), zeros])
    sums = ops.scatter_add(zeros, ops.reshape(index, [-1]), ops.reshape(dy, [-1]))
    within = ops.slice(sums, [1], [np.iinfo(np.int64).max], [0])
    return ops.reshape_like(within, x), ops.reshape(ops.slice(sums, [0], [1], [0]), [])


@gradient("CenterCropPad")
def center_crop_pad(node: Node, dy: Variable) -> Gradients:
    return [filled(node, dy, node.inputs[1])[0], None]


@gradient("Unique")
def unique(node: Node, dy: Variable, *others: Variable | None) -> Gradients:
    """To the first of equal elements."""
    (x,), axis = node.inputs, node.attributes.get("axis")
    _, first = reapply(node, x, outputs=2)
    if axis is None:
        return [_scatter_to(x, first, dy)]
    index = ops.gather(flat_indices(x), first, axis % x.rank)
    return [_scatter_to(x, index, dy)]


@gradient("ReverseSequence")
def reverse_sequence(node: Node, dy: Variable) -> Gradients:
    """Reverse dy in the same way."""
    return [reapply(node, dy, node.inputs[1]), None]


@gradient("Trilu")
def trilu(node: Node, dy: Variable) -> Gradients:
    """The same triangle of dy."""
    return [reapply(node, dy, *node.inputs[1:]), *[None] * (len(node.inputs) - 1)]


@gradient("Tile")
def tile(node: Node, dy: Variable) -> Gradients:
    """Sum over the copies of each element."""
    x, repeats = node.inputs
    if x.rank == 0:
        return [dy, None]
    pairs = [repeats, ops.shape_of(x)]
    sizes = ops.reshape(ops.concat([ops.unsqueeze(v, 1) for v in pairs], 1), [-1])
    copies = apply("Reshape", dy, sizes, allowzero=1)
    return [ops.reshape_like(ops.reduce_sum(copies, range(0, 2 * x.rank, 2)), x), None]


@gradient("DepthToSpace")
def depth_to_space(node: Node, dy: Variable) -> Gradients:
    """Move blocks back to channels; CRD orders the channels in another way than space_to_depth."""
    (x,), block = node.inputs, node.attributes["blocksize"]
    dx = ops.space_to_depth(dy, block)
    if node.attributes.get("mode", "DCR") == "DCR":
        return [dx]
    n, _, height, width = (ops.size_of(dx, axis) for axis in range(4))
    sizes = ops.concat([n, [block * block], ops.size_of(dy, 1), height * width])
    reordered = ops.transpose(apply("Reshape", dx, sizes, allowzero=1), [0, 2, 1, 3])
    return [ops.reshape_like(reordered, x)]


@gradient("SpaceToDepth")
def space_to_depth(node: Node, dy: Variable) -> Gradients:
    """Move channels back to blocks."""
    return [ops.depth_to_space(dy, node.attributes["blocksize"])]
