"""Functions that move elements: reshaping, joining, cutting, padding, transposing."""

import math

import numpy as np

from ..graph.checks import axis_of, whole
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply
from ..graph.variable import Variable, constant, describe, fresh_dim
from .math import cast


def shape_of(x):
    """The run-time shape, int64[rank]."""
    return apply("Shape", x)


def size_of(x, axis):
    """The run-time size of one axis, int64[1]."""
    x = constant(x)
    axis = axis_of(x, axis)
    return apply("Shape", x, start=axis, end=axis + 1)


def size(x):
    """How many elements there are at run time, an int64 scalar."""
    return apply("Size", x)


def reshape(x, shape):
    """x with other sizes: -1 is what remains, 0 keeps the size of that axis.

    `shape` may be an int64 Variable. A first -1 beside whole sizes keeps a batch axis of unknown
    size when the other elements of a row stay together.
    """
    if isinstance(shape, Variable):
        return apply("Reshape", x, shape)
    x = constant(x)
    sizes = _with_rows_open(x, whole(shape).value.tolist())
    return apply("Reshape", x, whole(sizes), known=_reshaped(x, sizes))


def _with_rows_open(x, sizes):
    """[0, -1] for x [N, 2, 3] as [-1, 6]: with no rows, ONNX cannot tell what remains."""
    rows = [k for k, d in enumerate(x.dims) if isinstance(d, str)]
    if len(rows) != 1 or sizes.count(-1) != 1 or rows[0] >= len(sizes) or sizes[rows[0]] != 0:
        return sizes
    row, rest = rows[0], sizes.index(-1)
    settled = [x.dims[k] if d == 0 and k < x.rank else d for k, d in enumerate(sizes)]
    have = math.prod(d for d in x.dims if isinstance(d, int))
    fixed = math.prod(d for k, d in enumerate(settled) if k not in (row, rest))
    if not fixed or have % fixed:
        return sizes
    settled[row], settled[rest] = -1, have // fixed
    return settled


def _reshaped(x, sizes):
    """Result dims where ONNX loses them: [N, 784] to [-1, 1, 28, 28] keeps N."""
    rows = [k for k, d in enumerate(x.dims) if isinstance(d, str)]
    rest = [d for d in x.dims if isinstance(d, int)]
    if sizes.count(-1) != 1 or len(rows) != 1:
        return None
    sizes = [x.dims[k] if d == 0 and k < x.rank else d for k, d in enumerate(sizes)]
    if any(isinstance(d, str) for d in sizes):
        return None
    fixed = int(np.prod([d for d in sizes if d != -1]))
    name = x.dims[rows[0]] if fixed == int(np.prod(rest)) else fresh_dim()
    return tuple(name if d == -1 else d for d in sizes)


def expand(x, shape):
    """Broadcast to a shape, given as numbers or as an int64 Variable."""
    return apply("Expand", x, whole(shape))


def expand_like(x, ref):
    """Broadcast to the run-time shape of ref."""
    ref = constant(ref)
    return apply("Expand", x, _target(ref), known=ref.dims)


def reshape_like(x, ref):
    """The elements of x in the run-time shape of ref."""
    x, ref = constant(x), constant(ref)
    if x.dims == ref.dims:
        return x
    return apply("Reshape", x, _target(ref), known=ref.dims, allowzero=1)


def zeros_like(x):
    """Zeros in the run-time shape of x."""
    x = constant(x)
    if x.is_static:
        return constant(np.zeros(x.dims), x.dtype)
    return expand_like(constant(0, x.dtype), x)


def ones_like(x):
    """Ones in the run-time shape of x."""
    x = constant(x)
    if x.is_static:
        return constant(np.ones(x.dims), x.dtype)
    return expand_like(constant(1, x.dtype), x)


def _target(ref):
    return whole(ref.dims) if ref.is_static else shape_of(ref)


def unsqueeze(x, axes):
    """New axes of size 1 at these places of the result."""
    return apply("Unsqueeze", x, _axes(axes))


def squeeze(x, axes):
    """Without these axes of size 1."""
    return apply("Squeeze", x, _axes(axes))


def transpose(x, order=None):
    """Axes in another order; reversed if none is given."""
    return apply("Transpose", x, perm=None if order is None else [int(k) for k in order])


def swap_last(x):
    """The last two axes exchanged: the transposes of a stack of matrices."""
    x = constant(x)
    if x.rank < 2:
        raise ShapeError(f"swap_last: {x!r} has no two axes")
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return transpose(x, order)


def concat(inputs, axis=0):
    """Variables joined along an axis."""
    inputs = [constant(x) for x in inputs]
    if not inputs:
        raise ShapeError("concat: there is nothing to join")
    sizes = [x.dims[axis_of(x, axis)] for x in inputs]
    known = None
    if any(isinstance(d, str) for d in sizes):
        known = list(inputs[0].dims)
        known[axis] = sizes[0] if len(sizes) == 1 else fresh_dim()
    return apply("Concat", *inputs, axis=axis, known=known)


def split(x, sizes, axis=0):
    """x cut into pieces of these sizes along an axis, a tuple."""
    pieces = apply("Split", x, whole(sizes), outputs=len(sizes), axis=axis)
    return pieces if isinstance(pieces, tuple) else (pieces,)


def slice(x, starts, ends, axes, steps=None):
    """x[start:end:step] along each of the axes; ends may lie beyond the end."""
    starts, ends, axes, steps = (v if v is None else whole(v) for v in (starts, ends, axes, steps))
    return apply("Slice", x, starts, ends, axes, steps)


def pad(x, before, after, value=0.0):
    """x with constant borders: `before` and `after` give the width for every axis.

    Either may be an int64 Variable.
    """
    x = constant(x)
    if isinstance(before, Variable) or isinstance(after, Variable):
        widths = concat([whole(before), whole(after)])
        return apply("Pad", x, widths, constant(value, x.dtype), mode="constant")
    widths = whole([*before, *after])
    if (widths.value < 0).any():
        widths = widths.value.tolist()
        raise ShapeError(f"pad: a width is not negative, {widths}\n  hint: slice() cuts")
    return apply("Pad", x, widths, constant(value, x.dtype), mode="constant")


def depth_to_space(x, block, mode="DCR"):
    """Images [N, C, H, W] with channels dealt out to blocks of pixels, [N, C/b^2, H b, W b].

    Channels are counted as (row, column, channel) with DCR, as (channel, row, column) with CRD.
    """
    return apply("DepthToSpace", x, blocksize=int(block), mode=mode)


def space_to_depth(x, block):
    """Images [N, C, H, W] with blocks of pixels as channels: `depth_to_space` (DCR) turned."""
    return apply("SpaceToDepth", x, blocksize=int(block))


def flatten(x, axis=1):
    """A matrix: the axes before `axis` are its rows, the others its columns."""
    return apply("Flatten", x, axis=axis)


def arange(limit):
    """0 … limit-1, int64; the limit is a whole number or an integer Variable."""
    limit = limit if isinstance(limit, Variable) else whole(limit)
    if limit.dtype.kind not in "iu":
        raise DTypeError(f"arange: the limit is an integer, not {describe(limit)}")
    if limit.rank > 1 or limit.dims not in ((), (1,)):
        raise ShapeError(f"arange: the limit is one number, not {describe(limit)}")
    if limit.value is not None:
        return constant(np.arange(int(limit.value.reshape(())), dtype=np.int64))
    limit = cast(squeeze(limit, 0) if limit.rank else limit, np.int64)
    return apply("Range", np.int64(0), limit, np.int64(1))


def _axes(axes):
    axes = whole(axes)
    return axes if axes.rank else constant(axes.value.reshape(1))
