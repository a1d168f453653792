"""Derivatives of reading and writing by index: what one gathers, the other scatters."""

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.variable import Variable
from ..expression import expression
from ..registry import Attributes, Gradients, compared, gradient, reapply
from .selection import flat_indices


@gradient("Gather")
def gather(node: Node, dy: Variable) -> Gradients:
    """Sum rows of dy at their index, with ScatterElements: ScatterND races on duplicates."""
    x, index = node.inputs
    axis = node.attributes.get("axis", 0) % x.rank

    def dense():  # not built for a row-sparse gradient: x may be a huge table
        flat, values = (index, dy) if index.rank == 1 else _flatten_index(x, index, dy, axis)
        column = ops.reshape(flat, [-1 if k == axis else 1 for k in range(x.rank)])
        column = ops.expand_like(column, values)
        return ops.scatter_add(ops.zeros_like(x), column, values, axis)

    return [dense, None]


def _flatten_index(x, index, dy, axis):
    """Flatten the index to a vector, and the axes of dy that come from it to one."""
    rows = ops.reshape(index, [-1])
    sizes = [ops.size_of(rows if k == axis else x, 0 if k == axis else k) for k in range(x.rank)]
    flat = apply("Reshape", dy, ops.concat(sizes), allowzero=1)
    flat = refined(flat, tuple(rows.dims[0] if k == axis else d for k, d in enumerate(x.dims)))
    return rows, flat


@gradient("GatherElements")
def gather_elements(node: Node, dy: Variable) -> Gradients:
    x, index = node.inputs
    return [ops.scatter_add(ops.zeros_like(x), index, dy, node.attributes.get("axis", 0)), None]


@gradient("ScatterElements")
def scatter_elements(node: Node, dy: Variable) -> Gradients:
    """The base gets dy where it was not overwritten, a value gets dy at its index."""
    x, index, values = node.inputs
    axis, reduction = (node.attributes.get(k, v) for k, v in (("axis", 0), ("reduction", "none")))
    if reduction in ("max", "min"):
        return _extreme(node, dy, axis)

    def read(v):
        return ops.gather_elements(v, index, axis)

    if reduction == "add":
        return [dy, None, lambda: read(dy)]
    if reduction == "none":
        return [ops.scatter(dy, index, ops.zeros_like(values), axis), None, lambda: read(dy)]
    factors = ops.scatter(ops.ones_like(x), index, values, axis, "mul")
    return [dy * factors, None, lambda: read(dy) * _other_factors(node, axis, read)]


def _other_factors(node, axis, read):
    """Return, for each value, the product of all other factors at its index, zeros included."""
    x, index, values = node.inputs
    zero, zero_base = ops.equal(values, 0.0), ops.equal(x, 0.0)
    count = ops.cast(zero_base, x.dtype)
    count = read(ops.scatter_add(count, index, ops.cast(zero, x.dtype), axis))
    nonzero = ops.where(zero, 1.0, values)
    product = read(ops.scatter(ops.where(zero_base, 1.0, x), index, nonzero, axis, "mul"))
    alone = ops.where(ops.logical_and(zero, ops.equal(count, 1.0)), product, 0.0)
    return ops.where(ops.equal(count, 0.0), product / nonzero, alone)


def _extreme(node, dy, axis):
    """Shared evenly by the elements and values that are the extreme, as in torch.scatter_reduce."""
    y, x, index, values = compared(node, node.inputs)
    base = ops.cast(ops.equal(x, y), dy.dtype)
    hit = ops.cast(ops.equal(values, ops.gather_elements(y, index, axis)), dy.dtype)
    share = dy / ops.scatter_add(base, index, hit, axis)
    return [base * share, None, lambda: hit * ops.gather_elements(share, index, axis)]


@expression("ScatterND")
def scatter_nd(a: Attributes, x: Variable, index: Variable, values: Variable) -> Variable:
    """Scatter single elements with ScatterElements, which has no races."""
    flat = ops.reshape(ops.gather_nd(flat_indices(x), index), [-1])
    base, values = ops.reshape(x, [-1]), ops.reshape(values, [-1])
    return ops.reshape_like(ops.scatter(base, flat, values, 0, a.get("reduction", "none")), x)


@expression("TensorScatter")
def tensor_scatter(
    a: Attributes, x: Variable, values: Variable, first: Variable | None = None
) -> Variable:
    """Overwrite the rows of each sequence from `first` on: an update of a key-value cache."""
    axis = a.get("axis", -2) % x.rank
    rows = ops.arange(ops.size_of(values, axis))
    rows = ops.reshape(rows, [-1 if k == axis else 1 for k in range(x.rank)])
    if first is not None:
        rows = rows + ops.reshape(first, [-1, *[1] * (x.rank - 1)])
    if a.get("mode", "linear") == "circular":
        size = ops.size_of(x, axis)
        rows = ops.mod(rows, size)
    return ops.scatter(x, ops.expand_like(rows, values), values, axis)


@gradient("TopK")
def top_k(node: Node, dy: Variable, _: Variable | None) -> Gradients:
    """Scatter dy to the indices of the selected elements."""
    x, axis = node.inputs[0], node.attributes.get("axis", -1)
    return [ops.scatter_add(ops.zeros_like(x), node.outputs[1], dy, axis), None]


@gradient("OneHot")
def one_hot(node: Node, dy: Variable) -> Gradients:
    """The gradient of the two values: dy summed where the index is hit, and elsewhere."""
    index, depth, _ = node.inputs
    hit = ops.cast(reapply(node, index, depth, [0.0, 1.0], known=dy.dims), dy.dtype)
    on = ops.reduce_sum(dy * hit)
    off_on = [ops.reshape(v, [1]) for v in (ops.reduce_sum(dy) - on, on)]
    return [None, None, ops.concat(off_on)]


@gradient("MaxUnpool")
def max_unpool(node: Node, dy: Variable) -> Gradients:
    """Gather dy at the indices of the elements."""
    x, index, *shape = node.inputs
    flat = ops.gather(ops.reshape(dy, [-1]), ops.reshape(index, [-1]))
    return [ops.reshape_like(flat, x), None, *[None] * len(shape)]
