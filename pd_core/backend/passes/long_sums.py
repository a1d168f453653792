"""Sums of many numbers in stages, and in blocks where a size is not known.

A kernel of ONNX Runtime adds number after number, in one to sixteen lanes: of 2^24 numbers of one
sign, float32 loses 2 to 15 %. A stage adds a few hundred in each lane. A size that only a feed has
is short or long by the last feed: a program that takes it for short says so in
`Context.lengths`, and is compiled anew for a longer one.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ... import ops
from ...graph.loop import loop_node
from ...graph.node import Node, apply, refined
from ...graph.rewrite import close
from ...graph.variable import Inputs, Variable, constant, fresh_dim
from ...ops.math import quotient
from ...ops.shape import product_of_sizes
from .context import Context, Outputs

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
    "ReduceSumSquare",
)
ROW = 1 << 11  # numbers of a contiguous row that one kernel may add: in 16 lanes
_ROWS = 1 << 10  # rows whose sum is a product with ones, in 4 lanes
_STEPS = 1 << 8  # numbers that are added one by one
_BLOCK = 1 << 16  # numbers that are added in double precision at once
_THIN = 16  # sums
_SOFTMAX = 1 << 15  # numbers along an axis, of which the kernel is much faster
_LEAST = 32  # numbers whose sum takes their place in a stage


def long_sum(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Reduce in stages; None where the kernel adds few numbers."""
    x, *axes = inputs
    if x.dtype not in (np.float32, np.float16) or 0 in x.symbolic_dims or x.rank == 0:
        return None
    if axes and axes[0] is not None and axes[0].value is None:
        return _over_unknown_axes(node, x, axes[0], context)
    found = _axes(node, x, axes[0].value if axes and axes[0] is not None else None)
    dims = x.symbolic_dims
    most = _most(node.op_type, dims, found) if found else 0
    if not found or context.is_short([dims[a] for a in found], most):
        return None
    wide = x if x.dtype == np.float32 else ops.cast(x, np.float32)
    keep = bool(node.attributes.get("keepdims", 1))
    y = _FORMULAS[node.op_type](wide, found, context, keep)
    return (refined(ops.cast(y, x.dtype), node.outputs[0].dims),)


def long_cumulative_sum(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Add up in double precision along an axis that is long, or may be."""
    x, axis = inputs
    if x.dtype != np.float32 or x.rank == 0:
        return None
    dims = x.dims if axis.value is None else [x.dims[int(axis.value.reshape(-1)[0])]]
    if context.is_short(dims, _STEPS):
        return None
    wide = ops.cast(x, np.float64)
    y = apply("CumSum", wide, axis, known=node.outputs[0].dims, **node.attributes)
    return (ops.cast(y, np.float32),)


def long_softmax(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Take exponentials and their sum in stages, along an axis that is known to be long."""
    (x,), axis = inputs, node.attributes.get("axis", -1) % max(inputs[0].rank, 1)
    dims = x.symbolic_dims
    if x.dtype != np.float32 or x.rank == 0 or 0 in dims:
        return None
    if context.is_short([dims[axis]], _SOFTMAX) or context.size(dims[axis]) is None:
        return None
    centred = x - apply("ReduceMax", x, np.array([axis]))
    powers = ops.exp(centred)
    total = _sum(powers, [axis], context)
    y = powers / total if node.op_type == "Softmax" else centred - ops.log(total)
    return (apply("Identity", y, known=node.outputs[0].dims),)


def _axes(node, x, axes):
    """The axes that are reduced; none where that is an identity."""
    if axes is None or not axes.size:
        return [] if node.attributes.get("noop_with_empty_axes", 0) else list(range(x.rank))
    return sorted({int(a) % x.rank for a in axes.reshape(-1)})


def _most(op_type, dims, axes):
    """How many numbers the kernel of a reduction may add."""
    is_sum = op_type in ("ReduceSum", "ReduceMean")
    if axes[0] == len(dims) - len(axes) and (is_sum or len(axes) == len(dims)):
        return ROW
    return _ROWS if is_sum and _is_product(dims, axes) else _STEPS


def _is_product(dims, axes):
    """Whether these are the first axes, of what a Reshape makes a matrix: see `sums.sum_rows`."""
    unknown = [a in axes for a, d in enumerate(dims) if not isinstance(d, int)]
    is_matrix = len(dims) == 2 or all(unknown) or not any(unknown)
    return axes[-1] == len(axes) - 1 and is_matrix


def _mean(x, axes, context, keep):
    total, dims = _sum(x, axes, context, keep), [x.dims[a] for a in axes]
    known = prod(d for d in dims if isinstance(d, int))
    unknown = [a for a in axes if not isinstance(x.dims[a], int)]
    total = total if known == 1 else total * (1.0 / known)
    if not unknown:
        return total
    count = product_of_sizes(x, unknown)
    return total / ops.cast(count if total.rank else ops.squeeze(count, 0), np.float32)


def _log_sum_exp(x, axes, context, keep):
    """Around the maximum, or 0 where that is not finite."""
    top = apply("ReduceMax", x, np.array(axes))
    top = ops.where(abs(top) < np.inf, top, 0.0)
    total = _sum(ops.exp(x - top), axes, context, keep)
    return ops.log(total) + (top if keep else ops.squeeze(top, axes))


_FORMULAS: dict[str, Callable[[Variable, list[int], Context, bool], Variable]] = {
    "ReduceSum": lambda x, *how: _sum(x, *how),
    "ReduceMean": _mean,
    "ReduceL1": lambda x, *how: _sum(abs(x), *how),
    "ReduceL2": lambda x, *how: ops.sqrt(_sum(x * x, *how)),
    "ReduceSumSquare": lambda x, *how: _sum(x * x, *how),
    "ReduceLogSum": lambda x, *how: ops.log(_sum(x, *how)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _sum(x: Variable, axes: list[int], context: Context, keep: bool = True) -> Variable:
    """Sum over axes, which stay with size 1 if they are kept.

    The last ones come first, if they are contiguous. Of others the first ones do, where a product
    reads long rows. What is left is little after a stage, and is added in double precision.
    """
    ones = [a for a, d in enumerate(x.dims) if d == 1]
    axes_left = [a for a in range(x.rank) if a not in ones]
    y = apply("Squeeze", x, np.array(ones)) if ones else x
    left, added = [k for k, a in enumerate(axes_left) if a in axes], 1
    while left:
        if added >= _LEAST:
            y, left = _in_double(y, left), []
            break
        group = _next_group(y.dims, left)
        added *= prod(context.size(y.dims[k], 1) or 1 for k in group)
        y = _stage(y, group, context)
        left = [k - len(group) if k > group[-1] else k for k in left if k not in group]
    there = [a for a in range(x.rank) if keep or a not in axes]
    gone = [k for k, a in enumerate(there) if a in ones or a in axes]
    return apply("Unsqueeze", y, np.array(gone)) if gone else y


def _next_group(dims, axes):
    """Neighbouring axes of known sizes, or one axis: those to be summed over next."""
    if axes[-1] == len(dims) - 1:
        k = len(axes) - 1
        while k and _are_neighbours(dims, axes[k - 1], axes[k]):
            k -= 1
        return axes[k:]
    k = 1
    while k < len(axes) and _are_neighbours(dims, axes[k - 1], axes[k]):
        k += 1
    return axes[:k]


def _are_neighbours(dims, a, b):
    return b == a + 1 and isinstance(dims[a], int) and isinstance(dims[b], int)


def _stage(x, axes, context):
    """Sum over neighbouring axes of known sizes, or over one axis, which are gone then."""
    most = _most("ReduceSum", x.dims, axes)
    if context.is_short([x.dims[a] for a in axes], most):
        return _reduced(x, axes)
    first, last = axes[0], axes[-1]
    if not isinstance(x.dims[first], int):
        return _guarded(x, first, most, context)
    before, after = x.dims[:first], x.dims[last + 1 :]
    count = prod(x.dims[a] for a in axes)
    size = _divisor(count, most // 4)
    if size is None:
        return _in_blocks(_reshaped(x, [*before, count, *after], first), first, context)
    if after:
        rows = _reduced(_reshaped(x, [*before, size, count // size, *after], first), [first])
    else:
        rows = _reduced(_reshaped(x, [*before, count // size, size], first), [first + 1])
    return _in_double(rows, [first])


def _in_double(x, axes):
    """Sum in double precision over axes, which are gone then."""
    total = _reduced(ops.cast(x, np.float64), axes)
    return apply("Cast", total, to=TensorProto.FLOAT, known=total.dims)


def _reduced(x, axes):
    return apply("ReduceSum", x, np.array(axes), keepdims=0)


def _divisor(count, most):
    """The largest divisor that is not above a limit; None if there are small ones only."""
    best = next(d for d in range(most, 0, -1) if count % d == 0)
    return best if best >= _LEAST else None


def _reshaped(x, dims, same):
    """Reshape to sizes, of which the first ones are those of x."""
    if x.dims == tuple(dims):
        return x
    rest = dims[same:]
    if sum(not isinstance(d, int) for d in rest) <= 1:
        shape: Any = [0] * same + [d if isinstance(d, int) else -1 for d in rest]
        return apply("Reshape", x, np.array(shape), known=dims)
    sizes = []
    for k, d in enumerate(dims):
        # the last axes are those of x too
        at = k if k < same else k - len(dims) + x.rank
        sizes.append([d] if isinstance(d, int) else ops.size_of(x, at))
    return apply("Reshape", x, ops.concat(sizes), known=dims)


def _guarded(x, axis, most, context):
    """Sum along an axis in blocks, if it is long at run time."""
    size = ops.size_of(x, axis)
    return ops.cond(
        size > most,
        lambda: _in_blocks(x, axis, context),
        lambda: _reduced(x, [axis]),
    )


def _in_blocks(x: Variable, axis: int, context: Context) -> Variable:
    """Sum along an axis by a loop over blocks of it, whose sums are added in double precision.

    A block is copied into what a cache holds, and the last one may be shorter. Where there are few
    sums, its numbers are in double precision too, and a single block needs no loop, which would
    take 100 us to begin.
    """
    others = [n for a, d in enumerate(x.dims) if a != axis and (n := context.size(d)) is not None]
    few = max(1, prod(others)) if len(others) == x.rank - 1 else _BLOCK
    if few > _THIN:
        block = _most("ReduceSum", x.dims, [axis]) // 2
        return _loop(x, axis, block, lambda rows: _reduced(rows, [axis]))
    block = _BLOCK // few

    def in_loop():
        return _loop(x, axis, block, lambda rows: _reduced(ops.cast(rows, np.float64), [axis]))

    size = x.dims[axis]
    if isinstance(size, int):
        return in_loop() if size > block else _in_double(x, [axis])
    return ops.cond(ops.size_of(x, axis) > block, in_loop, lambda: _in_double(x, [axis]))


def _loop(x, axis, block, sum_of):
    """Add up `sum_of` blocks of so many numbers of an axis."""
    size = ops.size_of(x, axis)
    count = ops.squeeze(quotient(size + (block - 1), block), 0)
    step, going = Variable.of((), np.int64, "step"), Variable.of((), np.bool_, "going")
    first = ops.reshape(step * block, [1])
    y = sum_of(apply("Slice", x, first, first + block, np.array([axis])))
    bodies, block_inputs = {"body": [going, y]}, {"body": [step, going]}
    blocks, captures = close(bodies, block_inputs)
    types = [((fresh_dim(), *y.dims), y.dtype)]
    whole = constant(True)
    (sums,) = loop_node(count, whole, [], captures, blocks["body"], types, intermediates=False)
    return _in_double(sums, [0])


def _over_unknown_axes(node, x, axes, context):
    """Reduce over axes that only a run knows, in double precision if they are long."""
    if x.dtype != np.float32 or context.is_short(x.dims, _STEPS):
        return None
    dims, attributes = node.outputs[0].dims, node.attributes

    def reduced(x):
        return apply(node.op_type, x, axes, known=dims, **attributes)

    is_long = ops.logical_and(ops.size(x) > _STEPS, ops.size(axes) > 0)
    wide = ops.cond(
        is_long,
        lambda: ops.cast(reduced(ops.cast(x, np.float64)), np.float32),
        lambda: reduced(x),
    )
    return (wide,)
