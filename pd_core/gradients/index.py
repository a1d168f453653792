"""Derivatives of reading and writing by index: what one gathers, the other scatters."""

from .. import ops
from ..errors import NoGradient
from .registry import gradient, zero

zero("NonZero")


@gradient("Gather")
def gather(node, dy):
    """Rows of dy added up at their index; ScatterElements, since ScatterND races on duplicates."""
    x, index = node.inputs
    axis = node.attributes.get("axis", 0) % x.rank
    if index.rank != 1:
        index, dy = _one_axis(x, index, dy, axis)
    column = ops.reshape(index, [-1 if k == axis else 1 for k in range(x.rank)])
    return [ops.scatter_add(ops.zeros_like(x), ops.expand_like(column, dy), dy, axis), None]


def _one_axis(x, index, dy, axis):
    """The index as a vector, and dy with the axes that the index gave it made one."""
    rows = ops.reshape(index, [-1])
    sizes = [ops.size_of(rows if k == axis else x, 0 if k == axis else k) for k in range(x.rank)]
    flat = ops.reshape(dy, ops.concat(sizes))
    flat.dims = tuple(rows.dims[0] if k == axis else d for k, d in enumerate(x.dims))
    return rows, flat


@gradient("GatherElements")
def gather_elements(node, dy):
    x, index = node.inputs
    return [ops.scatter_add(ops.zeros_like(x), index, dy, node.attributes.get("axis", 0)), None]


@gradient("ScatterElements")
def scatter_elements(node, dy):
    """Of an added scatter; the base keeps all, a value sees where it went."""
    _, index, _ = node.inputs
    if node.attributes.get("reduction", "none") != "add":
        raise NoGradient("only reduction='add' has a gradient rule")
    return [dy, None, lambda: ops.gather_elements(dy, index, node.attributes.get("axis", 0))]


@gradient("TopK")
def top_k(node, dy, _):
    """Back to where the chosen elements stood."""
    x, axis = node.inputs[0], node.attributes.get("axis", -1)
    return [ops.scatter_add(ops.zeros_like(x), node.outputs[1], dy, axis), None]
