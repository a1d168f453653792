"""Functions that move elements: reshape, concat, slice, transpose."""

from collections.abc import Iterable, Sequence
from functools import reduce
from numbers import Integral
from operator import mul
from typing import Any

import numpy as np

from ..graph.checks import axis_of, differ, whole
from ..graph.errors import GraphError, ShapeError
from ..graph.node import apply, refined
from ..graph.op import op
from ..graph.recording import as_number
from ..graph.variable import (
    MaybeNone,
    Operand,
    Variable,
    constant,
    describe,
    fresh_dim,
    open_dim,
)
from .math import cast, less_than, logical_and, minimum, where
from .sizes import TargetShape, reshape_operand, shape_operand, whole_number

Axes = int | Sequence[int]


def one_of(axis: MaybeNone, axes: MaybeNone) -> MaybeNone:
    """Return the axes of an op, which are passed as `axis` or as `axes`; TypeError for both."""
    if axis is not None and axes is not None:
        raise TypeError(f"axis={axis} and axes={axes} are the same argument: pass one of them")
    return axes if axis is None else axis


def axes_of(x: Variable, axis: Axes | None) -> list[int]:
    """Return axes of x in order, counted from the front; all of them if None."""
    given = range(x.rank) if axis is None else np.atleast_1d(axis).tolist()
    return sorted({axis_of(x, int(a)) for a in given})


_LISTED = 1 << 20  # integers of `arange` that stand in a graph; more are counted in a run


@op
def shape_of(x: Operand) -> Variable:
    """Return the run-time shape, int64[rank].

    Args:
        x: of any dtype and shape.

    Returns:
        Int64 [rank].
    """
    return apply("Shape", x)


@op
def size_of(x: Operand, axis: int) -> Variable:
    """Return the run-time size of one axis, int64[1].

    Args:
        x: of any dtype.

    Returns:
        Int64 [1].

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    return apply("Shape", x, start=axis, end=axis + 1)


def product_of_sizes(x: Variable, axes: Iterable[int]) -> Variable:
    """Return how many elements one axis or several have together at run time, int64[1].

    In the place of -1 in a new shape it lets other sizes be 0, as in a batch of no rows.
    """
    first, *rest = (size_of(x, a) for a in axes)
    return reduce(mul, rest, first)


@op
def size(x: Operand) -> Variable:
    """Return the number of elements at run time, an int64 scalar.

    Args:
        x: of any dtype and shape.

    Returns:
        An int64 scalar.
    """
    return apply("Size", x)


@op
def reshape(x: Operand, shape: TargetShape) -> Variable:
    """Change the sizes of x: -1 is inferred from the others, 0 keeps the size of that axis.

    `shape` may be an integer Variable, such as `concat([size_of(x, 0), [4]])`, of which all is
    known that is a size of some Variable. A size that only runs know may be 0 beside known ones; in
    a vector of which nothing is known, 0 keeps the size of the axis.

    Args:
        x: of any dtype.
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: the sizes do not hold the elements of x.
    """
    x = constant(x)
    target, allowzero = reshape_operand(x, shape)
    attributes: Any = {"allowzero": 1} if allowzero else {}
    return apply("Reshape", x, target, **attributes)


@op
def expand(x: Operand, shape: TargetShape) -> Variable:
    """Broadcast x to a shape, numbers or an int64 Variable.

    Args:
        x: of any dtype.
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: x does not broadcast to the shape.
    """
    return apply("Expand", x, shape_operand(shape))


@op
def expand_like(x: Operand, ref: Operand) -> Variable:
    """Broadcast x to the run-time shape of ref.

    Args:
        x: of any dtype.
        ref: a Variable of the shape.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: x does not broadcast to the shape.
    """
    ref = constant(ref)
    return apply("Expand", x, _target(ref), known=ref.dims)


@op
def reshape_like(x: Operand, ref: Operand) -> Variable:
    """Reshape x to the run-time shape of ref.

    Args:
        x: of any dtype.
        ref: a Variable with as many elements.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: the numbers of elements differ.
    """
    x, ref = constant(x), constant(ref)
    if x.dims == ref.dims:
        return x
    return apply("Reshape", x, _target(ref), known=ref.dims, allowzero=1)


@op
def zeros_like(x: Operand) -> Variable:
    """Zeros in the run-time shape of x.

    Args:
        x: of any dtype and shape.

    Returns:
        Of the shape and dtype of x.
    """
    x = constant(x)
    if x.is_static:
        return constant(np.zeros(x.dims), x.dtype)
    return expand_like(constant(0, x.dtype), x)


@op
def ones_like(x: Operand) -> Variable:
    """Ones in the run-time shape of x.

    Args:
        x: of any dtype and shape.

    Returns:
        Of the shape and dtype of x.
    """
    x = constant(x)
    if x.is_static:
        return constant(np.ones(x.dims), x.dtype)
    return expand_like(constant(1, x.dtype), x)


def _target(ref):
    """Return the shape of ref: numbers where all of them are known, else a Variable."""
    return whole(ref.dims) if ref.is_static else shape_of(ref)


@op
def unsqueeze(x: Operand, axis: Operand | None = None, *, axes: Operand | None = None) -> Variable:
    """Insert axes of size 1; `axis`, a number or several, are their positions in the result.

    Args:
        x: of any dtype.
        axes: another name of `axis`.

    Returns:
        X with as many axes more.

    Raises:
        ShapeError: a position is outside the result.
        TypeError: there is no axis, or both axis and axes are given.
    """
    axis = one_of(axis, axes)
    if axis is None:
        raise TypeError("unsqueeze: the position of the new axis is missing")
    return apply("Unsqueeze", x, _at_least_one(axis))


@op
def squeeze(x: Operand, axis: Operand | None = None, *, axes: Operand | None = None) -> Variable:
    """Remove axes of size 1: these, or all that are known to have it if none is given.

    Args:
        x: of any dtype.
        axis: an axis or several.
        axes: another name of `axis`.

    Returns:
        X without these axes.

    Raises:
        ShapeError: x has no such axis, or its size is not 1.
        TypeError: both axis and axes are given.
    """
    x, axis = constant(x), one_of(axis, axes)
    if axis is None:
        axis = [k for k, d in enumerate(x.dims) if d == 1]
        if not axis:
            return x
    return apply("Squeeze", x, _at_least_one(axis))


@op
def transpose(x: Operand, order: Sequence[int] | None = None) -> Variable:
    """Permute the axes; reverse them if no order is given.

    Args:
        x: of any dtype.
        order: the axes of x, as they follow each other in the result.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: the order is no permutation of the axes.
    """
    return apply("Transpose", x, perm=None if order is None else [int(k) for k in order])


@op
def matrix_transpose(x: Operand) -> Variable:
    """Swap the last two axes: transpose each matrix of a stack, `x.mT` of PyTorch.

    Args:
        x: of any dtype, [..., n, m].

    Returns:
        [..., m, n].

    Raises:
        ShapeError: x has less than two axes.
    """
    x = constant(x)
    if x.rank < 2:
        raise ShapeError(f"{x!r} has no two axes")
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return transpose(x, order)


@op
def concat(inputs: Sequence[Operand], axis: int = 0) -> Variable:
    """Join Variables along an axis.

    Args:
        inputs: Variables of one dtype, whose sizes differ along the axis only.

    Returns:
        Of the same dtype.

    Raises:
        ShapeError: there is nothing to join, there is no such axis, or other sizes differ.
    """
    parts = [constant(x) for x in inputs]
    if not parts:
        raise ShapeError("there is nothing to join")
    sizes = [x.dims[axis_of(x, axis)] for x in parts]
    dims = None
    if any(isinstance(d, str) for d in sizes):
        dims = list(parts[0].dims)
        dims[axis] = sizes[0] if len(sizes) == 1 else fresh_dim()
    return apply("Concat", *parts, axis=axis, known=dims)


@op
def split(x: Operand, sizes: int | Sequence[int | Variable], axis: int = 0) -> tuple[Variable, ...]:
    """Split x into a tuple of pieces of these sizes along an axis.

    One number is the size of each piece, as in PyTorch; the last one is smaller if the axis is no
    multiple of it. (`chunk` takes the number of pieces.)

    Args:
        x: of any dtype.
        sizes: integers that add up to the size of the axis, Variables among them, or one integer.

    Returns:
        A tuple of Variables.

    Raises:
        ShapeError: x has no such axis, or the sizes do not add up; or there is one size, which is
            not positive or for an axis whose size is known at run time only.
    """
    x, axis = constant(x), axis_of(constant(x), axis)
    listed: Any = sizes_of_pieces(x, axis, int(sizes)) if isinstance(sizes, Integral) else sizes
    pieces = apply("Split", x, shape_operand(listed), outputs=len(listed), axis=axis)
    return pieces if isinstance(pieces, tuple) else (pieces,)


def sizes_of_pieces(x: Variable, axis: int, most: int) -> list[int]:
    """Return the sizes of as few pieces of an axis as have `most` elements or fewer each."""
    size = as_number(x.dims[axis])
    if most < 1:
        raise ShapeError(f"a size of pieces is positive, not {most}")
    if size is None:
        raise ShapeError(
            f"pieces of {most} of axis {axis} of {describe(x)}, whose number is not known\n"
            "  hint: chunk() takes a number of pieces"
        )
    return [min(most, size - first) for first in range(0, size, most)] or [0]


@op
def slice(
    x: Operand,
    starts: Operand,
    ends: Operand,
    axis: Operand | None = None,
    steps: Operand | None = None,
    *,
    axes: Operand | None = None,
) -> Variable:
    """Take x[start:end:step] along each of the axes; bounds may lie beyond the axis, as in NumPy.

    Each argument is a number, or a list or int64 Variable with one for each axis; without axes
    they are for the first ones.

    Args:
        x: of any dtype.
        starts: the first index along each axis.
        ends: the index behind the last one.
        axis: an axis or several.
        steps: distances, 1 by default.
        axes: another name of `axis`.

    Returns:
        Of the dtype of x.

    Raises:
        TypeError: both axis and axes are given.
    """
    x = constant(x)
    given = (starts, ends, one_of(axis, axes), steps)
    bounds = [v if v is None else _at_least_one(v) for v in given]
    if steps is not None:
        bounds[1] = _ends(x, *bounds)
    y = apply("Slice", x, *bounds)
    single = [a for a in _single(*bounds) if -x.rank <= a < x.rank and as_number(y.dims[a]) is None]
    if not single:
        return y
    dims = list(y.dims)
    for a in single:
        dims[a] = open_dim()
    return refined(y, dims)


def _single(starts, ends, axes, steps):
    """Return the axes of which a slice takes at most one element, such as x[:1] and x[-1:].

    A run-time size of that is no name like others: it is 1, and broadcasts.
    """
    if any(v is not None and v.value is None for v in (starts, ends, axes, steps)):
        return []
    count = starts.value.size
    axes = range(count) if axes is None else axes.value.tolist()
    steps = [1] * count if steps is None else steps.value.tolist()
    bounds = zip(axes, starts.value.tolist(), ends.value.tolist(), steps, strict=True)
    found = []
    for a, first, end, step in bounds:
        from_end = first < 0
        if from_end and end >= np.iinfo(np.int32).max:
            end = 0  # counted from the end of the axis
        elif from_end != (end < 0):
            continue
        if 0 < end - first <= step:
            found.append(a)
    return found


def _ends(x, starts, ends, axes, steps):
    """Return ends with which ONNX's Slice takes what NumPy takes.

    Where steps go back, it moves a start before the first element to that element, and ONNX Runtime
    reads the largest int32 or int64 as "to the first element": NumPy takes nothing in both cases.
    """
    if differ(starts, ends) or differ(steps, ends):
        return ends  # the error is that of the operator
    if steps.value is not None and (steps.value > 0).all():
        return ends
    if axes is None:
        count = starts.dims[0]
        axes = whole(range(count)) if isinstance(count, int) else arange(size_of(starts, 0))
    nothing = np.array(np.iinfo(np.int32).max - 1, ends.dtype)
    if all(v.value is not None for v in (starts, ends, axes, steps)):
        known = [x.dims[axis_of(x, a)] for a in axes.value.tolist()]
        least = np.array([d if isinstance(d, int) else 1 for d in known])
        before = (steps.value < 0) & (starts.value < -least)
        if x.is_static or not before.any():
            return constant(np.where(before, nothing, np.minimum(ends.value, nothing)), ends.dtype)
    sizes = apply("Gather", shape_of(x), axes)
    before = logical_and(less_than(steps, 0), less_than(cast(starts, np.int64), -sizes))
    return minimum(where(before, nothing, ends), nothing)


@op
def depth_to_space(x: Operand, block: int, mode: str = "DCR") -> Variable:
    """Pixel shuffle: move channels into blocks of pixels, [N, C, H, W] to [N, C/b^2, H b, W b].

    Mode DCR reads the channel axis as (row, column, channel); CRD, PyTorch's order, as
    (channel, row, column).

    Args:
        x: numbers [N, C, H, W].
        block: the length b of a block's side.
        mode: "DCR" or "CRD".

    Returns:
        [N, C/b^2, H b, W b].

    Raises:
        GraphError: there is no such mode.
        ShapeError: x is no image, or has no multiple of b^2 channels.
    """
    if mode not in ("DCR", "CRD"):
        raise GraphError(f"the mode is DCR or CRD, not {mode!r}")
    return apply("DepthToSpace", x, blocksize=block, mode=mode)


@op
def space_to_depth(x: Operand, block: int) -> Variable:
    """Pixel unshuffle: move blocks of pixels into channels, the inverse of `depth_to_space`.

    Args:
        x: numbers [N, C, H, W].
        block: the length b of a block's side.

    Returns:
        [N, C b^2, H/b, W/b].

    Raises:
        ShapeError: x is no image, or its sizes are no multiples of b.
    """
    return apply("SpaceToDepth", x, blocksize=block)


@op
def flatten(x: Operand, axis: int = 1) -> Variable:
    """Flatten to a matrix: the axes before `axis` become its rows, the others its columns.

    Args:
        x: of any dtype.

    Returns:
        A matrix of the dtype of x.

    Raises:
        ShapeError: x has no such axis.
    """
    return apply("Flatten", x, axis=axis)


@op
def arange(
    start: Operand | None = None, limit: Operand | None = None, step: Operand = 1
) -> Variable:
    """Integers start, start + step, … before the limit, int64; of one number it is the limit.

    Args:
        start: an integer, or an integer Variable of one element; 0 if it is left out.
        limit: the same.
        step: the same, not 0.

    Returns:
        Int64 [n].

    Raises:
        DTypeError: an argument is no integer.
        ShapeError: an argument has several elements.
        TypeError: there is no limit.
        ValueError: the step is 0.
    """
    if limit is None:
        start, limit = 0, start
    if limit is None:
        raise TypeError("arange: the limit is missing")
    numbers = (
        whole_number(0 if start is None else start, "the start"),
        whole_number(limit, "the limit"),
        whole_number(step, "the step"),
    )
    known: list[Any] = [None if n.value is None else int(n.value.item()) for n in numbers]
    if known[2] == 0:
        raise ValueError("arange: the step is not 0")
    if None not in known and len(range(*known)) <= _LISTED:
        return constant(np.arange(*known, dtype=np.int64))
    return apply("Range", *numbers)


def _at_least_one(values):
    values = shape_operand(values)
    if values.rank:
        return values
    return reshape(values, [1]) if values.value is None else constant(values.value.reshape(1))
