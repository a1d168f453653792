"""Derivatives of operators whose results are elements of their input, or a fixed value.

Such an operator, applied to the numbers of the elements, says where each of its results comes from:
there the gradient is added up.
"""

import numpy as np

from ... import ops
from ..registry import gradient, reapply


def places(x, first=0):
    """The numbers of the elements of x, counted from `first`, in its shape."""
    count = ops.arange(ops.size(x))
    return ops.reshape_like(count + first if first else count, x)


@gradient("GatherND", "Compress")
def selected(node, dy):
    x, *rest = node.inputs
    at = reapply(node, places(x), *rest, known=dy.dims)
    return [_added_up(x, at, dy), *[None] * len(rest)]


def _added_up(x, at, dy):
    zeros = ops.reshape(ops.zeros_like(x), [-1])
    found = ops.scatter_add(zeros, ops.reshape(at, [-1]), ops.reshape(dy, [-1]))
    return ops.reshape_like(found, x)


def filled(node, dy, *rest):
    """(gradient of the input, gradient of the value elsewhere), of a node on (x, *rest)."""
    x = node.inputs[0]
    at = reapply(node, places(x, 1), *rest, known=dy.dims)
    zeros = ops.reshape(ops.zeros_like(x), [-1])
    zeros = ops.concat([ops.cast(np.zeros(1), dy.dtype), zeros])
    sums = ops.scatter_add(zeros, ops.reshape(at, [-1]), ops.reshape(dy, [-1]))
    within = ops.slice(sums, [1], [np.iinfo(np.int64).max], [0])
    return ops.reshape_like(within, x), ops.reshape(ops.slice(sums, [0], [1], [0]), [])


@gradient("CenterCropPad")
def center_crop_pad(node, dy):
    return [filled(node, dy, node.inputs[1])[0], None]


@gradient("Unique")
def unique(node, dy, *_):
    """To the first of equal elements."""
    (x,), axis = node.inputs, node.attributes.get("axis")
    _, first = reapply(node, x, outputs=2)
    if axis is None:
        return [_added_up(x, first, dy)]
    at = ops.gather(places(x), first, axis % x.rank)
    return [_added_up(x, at, dy)]


@gradient("ReverseSequence")
def reverse_sequence(node, dy):
    """Reversed again."""
    return [reapply(node, dy, node.inputs[1]), None]


@gradient("Trilu")
def trilu(node, dy):
    """The same triangle."""
    return [reapply(node, dy, *node.inputs[1:]), *[None] * (len(node.inputs) - 1)]


@gradient("Tile")
def tile(node, dy):
    """The sum over the copies of each element."""
    x, repeats = node.inputs
    if x.rank == 0:
        return [dy, None]
    pairs = [repeats, ops.shape_of(x)]
    sizes = ops.reshape(ops.concat([ops.unsqueeze(v, 1) for v in pairs], 1), [-1])
    copies = ops.reshape(dy, sizes)
    return [ops.reshape_like(ops.reduce_sum(copies, range(0, 2 * x.rank, 2)), x), None]


@gradient("DepthToSpace")
def depth_to_space(node, dy):
    """The blocks back to the channels."""
    (x,), block = node.inputs, node.attributes["blocksize"]
    deep = ops.space_to_depth(dy, block)
    if node.attributes.get("mode", "DCR") == "DCR":
        return [deep]
    split = ops.transpose(ops.reshape(deep, [0, block * block, dy.dims[1], -1]), [0, 2, 1, 3])
    return [ops.reshape_like(split, x)]


@gradient("SpaceToDepth")
def space_to_depth(node, dy):
    """The channels back to the blocks."""
    return [ops.depth_to_space(dy, node.attributes["blocksize"])]
