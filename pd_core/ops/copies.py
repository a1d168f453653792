"""Copies and rearrangements: tile, stack, flip, roll, triangles, grids."""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import axis_of, sizes_differ, whole
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply, refined
from ..graph.op import op
from ..graph.recording import as_number
from ..graph.variable import Operand, Variable, constant, describe, fresh_dim
from .gather import gather, scatter_add
from .math import add, cast, equal, logical_and, maximum, minimum, mod, where
from .reduce import Axes, cum_sum, reduce_sum
from .shape import (
    arange,
    axes_of,
    concat,
    expand,
    ones_like,
    reshape,
    reshape_like,
    shape_of,
    size_of,
    slice,
    split,
    squeeze,
    transpose,
    unsqueeze,
)
from .sizes import TargetShape, shape_operand, whole_number

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@op
def tile(x: Operand, repeats: TargetShape) -> Variable:
    """Repeat x as a whole, `repeats` times along each axis; an int64 Variable may say how often.

    Fewer numbers than axes are for the last ones, as in NumPy.

    Args:
        x: of any dtype.
        repeats: an integer for each axis, or an int64 Variable.

    Returns:
        Of the dtype of x.
    """
    x, times = constant(x), shape_operand(repeats)
    if not times.rank:
        times = reshape(times, [1])
    count = times.dims[0]
    if isinstance(count, int) and count < x.rank:
        times = concat([whole([1] * (x.rank - count)), times])
    elif isinstance(count, int) and count > x.rank:
        x = unsqueeze(x, list(range(count - x.rank)))
    return apply("Tile", x, times)


@op
def repeat(x: Operand, count: Operand, axis: int = 0) -> Variable:
    """Repeat each slice of an axis `count` times: [a, b] to [a, a, b, b].

    A vector has a count for each slice: [a, b] by [1, 2] becomes [a, b, b].

    Args:
        x: of any dtype.
        count: an integer, not negative, or one for each slice; Variables, too.

    Returns:
        Of the dtype of x.

    Raises:
        DTypeError: a count is no integer.
        ShapeError: x has no such axis, or the counts are not as many as its slices.
        ValueError: a count is negative.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    given = count if isinstance(count, Variable) else whole(count)
    if given.rank == 1 and (given.dims != (1,) or x.dims[axis] == 1):
        return gather(x, _owners(x, given, axis), axis)
    times = whole_number(given, "the count")
    size, number = x.dims[axis], None if times.value is None else int(times.value.item())
    if number is not None and number < 0:
        raise ValueError(f"repeat: a count is not negative, {number}")
    if isinstance(size, int) and number is not None:
        return gather(x, np.repeat(np.arange(size), number), axis)
    lead, rest = [1] * (axis + 1), [1] * (x.rank - axis - 1)
    target: list[int | Variable] = [*lead, times, *rest]
    wide = expand(unsqueeze(x, axis + 1), target)
    sizes = [d if isinstance(d, int) else size_of(x, k) for k, d in enumerate(x.dims)]
    sizes[axis] = sizes[axis] * times
    # a size of 0 is meant: without allowzero it would be that of the same axis of `wide`
    return apply("Reshape", wide, shape_operand(sizes), allowzero=1)


def _owners(x, counts, axis):
    """The index of the slice that each slice of the result repeats."""
    if counts.dtype.kind not in "iu":
        raise DTypeError(f"counts are integers, not {describe(counts)}")
    if sizes_differ(counts.dims[0], x.dims[axis]):
        raise ShapeError(f"{describe(counts)} counts for axis {axis} of {describe(x)}")
    if counts.value is not None:
        if (counts.value < 0).any():
            raise ValueError(f"repeat: a count is not negative, {counts.value.min()}")
        return whole(np.repeat(np.arange(counts.value.size), counts.value))
    counts = cast(counts, np.int64)
    ends = cum_sum(counts)
    total = reduce_sum(counts, [0], keep_dim=True)
    # the number of slices that end at or before a place; the last ones end behind all places
    ended = scatter_add(expand(whole([0]), total + 1), ends, ones_like(ends))
    return slice(cum_sum(ended), [0], total, [0])


@op
def stack(inputs: Sequence[Operand], axis: int = 0) -> Variable:
    """Join Variables of one shape along a new axis.

    Args:
        inputs: Variables of one shape and dtype.

    Returns:
        One axis more than the inputs have.

    Raises:
        ShapeError: there is nothing to stack, the shapes differ, or there is no such axis.
    """
    parts = [constant(x) for x in inputs]
    if not parts:
        raise ShapeError("there is nothing to stack")
    for x in parts[1:]:
        if x.rank != parts[0].rank:
            raise ShapeError(f"{describe(parts[0])} and {describe(x)} have different shapes")
    rank = parts[0].rank + 1
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of a stack of {describe(parts[0])}, which has {rank} axes")
    return concat([unsqueeze(x, axis % rank) for x in parts], axis % rank)


@op
def unstack(x: Operand, axis: int = 0) -> tuple[Variable, ...]:
    """Take all slices along an axis of known size, without that axis: the inverse of `stack`.

    Args:
        x: of any dtype.

    Returns:
        A list of Variables.

    Raises:
        ShapeError: x has no such axis, or its size is not known.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    size = x.dims[axis]
    if not isinstance(size, int):
        raise ShapeError(f"the size of axis {axis} of {describe(x)} is not known")
    return tuple(squeeze(part, axis) for part in split(x, [1] * size, axis)) if size else ()


@op
def chunk(x: Operand, count: int, axis: int = 0) -> tuple[Variable, ...]:
    """Split x into `count` pieces along an axis, or fewer: those before the last one are equal.

    As in PyTorch a piece has size / count elements, rounded up, until there are no more: 5 pieces
    of 12 elements have 3, 3, 3 and 3, and 5 of 13 have 3, 3, 3, 3 and 1. Of a size that only runs
    know there are `count` pieces, of which the last ones may be empty.

    Args:
        x: of any dtype.
        count: the number of pieces.

    Returns:
        A tuple of `count` Variables or fewer.

    Raises:
        ShapeError: x has no such axis, or the count is not positive.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    if count < 1:
        raise ShapeError(f"a number of pieces is positive, not {count}")
    size = as_number(x.dims[axis])
    if size == 0:
        return split(x, [0] * count, axis)
    if size is not None:
        return split(x, -(-size // count), axis)
    each = [*x.dims[:axis], fresh_dim(), *x.dims[axis + 1 :]]
    total = size_of(x, axis)
    step = (total + (count - 1)) // count
    ends = [minimum(step * k, total) for k in range(count + 1)]
    sizes = concat([end - first for first, end in pairwise(ends)])
    pieces = apply("Split", x, sizes, outputs=count, axis=axis, known=[each] * count)
    return pieces if isinstance(pieces, tuple) else (pieces,)


@op
def flip(x: Operand, axis: Axes | None = None) -> Variable:
    """Reverse the order of elements along axes, all of them if None.

    Args:
        x: of any dtype.
        axis: an axis or several.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    axes = axes_of(x, axis)
    n = len(axes)
    return slice(x, [_LAST] * n, [_FIRST] * n, axes, [-1] * n) if axes else x


@op
def roll(
    x: Operand, shift: int | Variable | Sequence[int | Variable], axis: Axes | None = None
) -> Variable:
    """Shift elements along axes; those that leave at the end come in at the beginning.

    Without an axis x is rolled as if it were flat. Several shifts are for several axes.

    Args:
        x: of any dtype.
        shift: an integer, or one for each axis; Variables, too.
        axis: an axis or several.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: a shift is no integer.
        ShapeError: x has no such axis, or there are not as many shifts as axes.
    """
    x = constant(x)
    given: list[Any] = list(shift) if isinstance(shift, (list, tuple, np.ndarray)) else [shift]
    shifts = [whole_number(s, "a shift") for s in given]
    if axis is None:
        return reshape_like(roll(reshape(x, [-1]), reduce(add, shifts), 0), x)
    axes = np.atleast_1d(axis).tolist()
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(f"{len(shifts)} shifts of {len(axes)} axes")
    times = max(len(shifts), len(axes))
    shifts, axes = (v * times if len(v) == 1 else v for v in (shifts, axes))
    for s, a in zip(shifts, axes, strict=True):
        a = axis_of(x, a)
        size = x.dims[a]
        if isinstance(size, int) and s.value is not None:
            start = whole([size - int(s.value.item()) % size if size else 0])
        else:  # a shift may be longer than the axis
            start = size_of(x, a) - mod(s, maximum(size_of(x, a), 1))
        last, others = slice(x, start, [_LAST], [a]), slice(x, [0], start, [a])
        x = apply("Identity", concat([last, others], a), known=x.dims)
    return x


@op
def move_axis(x: Operand, source: int, destination: int) -> Variable:
    """Move an axis to another position; the others keep their order.

    Args:
        x: of any dtype.
        source: an axis of x.
        destination: its place in the result.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    source, destination = axis_of(x, source), axis_of(x, destination)
    order = [k for k in range(x.rank) if k != source]
    order.insert(destination, source)
    return transpose(x, order)


@op
def swap_axes(x: Operand, a: int, b: int) -> Variable:
    """Exchange two axes.

    Args:
        x: of any dtype.
        a: an axis of x.
        b: an axis of x.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    order = list(range(x.rank))
    a, b = axis_of(x, a), axis_of(x, b)
    order[a], order[b] = b, a
    return transpose(x, order)


@op
def triu(x: Operand, k: int | Variable = 0) -> Variable:
    """Upper triangles of the matrices [..., n, m]: elements below diagonal k become 0.

    Args:
        x: numbers or bools [..., n, m].
        k: an integer, or an integer Variable of one element.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: k is no integer.
        ShapeError: k has several elements.
    """
    return apply("Trilu", x, whole_number(k, "k"), upper=1)


@op
def tril(x: Operand, k: int | Variable = 0) -> Variable:
    """Lower triangles of the matrices [..., n, m]: elements above diagonal k become 0.

    Args:
        x: numbers or bools [..., n, m].
        k: an integer, or an integer Variable of one element.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: k is no integer.
        ShapeError: k has several elements.
    """
    return apply("Trilu", x, whole_number(k, "k"), upper=0)


@op
def diagonal(x: Operand, k: int = 0) -> Variable:
    """Diagonals of the matrices [..., n, m]: [..., d].

    Args:
        x: of any dtype, [..., n, m].
        k: which diagonal, above the main one, or below if it is negative.

    Returns:
        [..., d]; d is 0 where the matrices have no such diagonal.

    Raises:
        ShapeError: x are no matrices.
    """
    x = constant(x)
    if x.rank < 2:
        raise ShapeError(f"takes matrices, not {describe(x)}")
    n, m = x.dims[-2:]
    lead = [d if isinstance(d, int) else size_of(x, a) for a, d in enumerate(x.dims[:-2])]
    if isinstance(n, int) and isinstance(m, int):
        flat = reshape(x, [*lead, n * m])
        count = max(0, min(n + min(k, 0), m - max(k, 0)))
        return gather(flat, max(k, -k * m) + np.arange(count) * (m + 1), -1)
    rows, columns = size_of(x, -2), size_of(x, -1)
    flat = apply("Reshape", x, shape_operand([*lead, rows * columns]), allowzero=1)
    length = minimum(rows + min(k, 0), columns - max(k, 0))
    places = arange(maximum(length, 0)) * (columns + 1) + (k if k >= 0 else columns * -k)
    y = gather(flat, places, -1)
    return refined(y, (*y.dims[:-1], n)) if n == m and not k else y


@op
def diag_embed(x: Operand, k: int = 0) -> Variable:
    """Matrices [..., n, n] with the vectors [..., n] on their diagonals, and zeros elsewhere.

    Args:
        x: numbers or bools [..., n].
        k: which diagonal, above the main one, or below if it is negative; n grows by its distance.

    Returns:
        [..., n + |k|, n + |k|], of the dtype of x.

    Raises:
        DTypeError: x is text.
        ShapeError: x has no axis.
    """
    x = constant(x)
    if not x.rank:
        raise ShapeError(f"takes vectors [..., n], not {describe(x)}")
    if x.dtype.kind not in "biuf":
        raise DTypeError(f"takes numbers or bools, not {describe(x)}")
    zero = constant(np.zeros((), x.dtype), x.dtype)
    beside = [*x.dims[:-1], abs(k)]
    if k and all_known(beside):
        more = constant(np.zeros(beside, x.dtype), x.dtype)
    elif k:
        more = expand(zero, concat([slice(shape_of(x), [0], [-1]), whole([abs(k)])]))
    longer = concat([x, more], -1) if k else x
    size = longer.dims[-1] if isinstance(longer.dims[-1], int) else size_of(longer, -1)
    places = arange(size)
    on_diagonal = equal(unsqueeze(places, 1) + k, places)
    # x[i] stands in row i of the diagonals above, and in column i of those below
    return where(on_diagonal, unsqueeze(longer, -1 if k >= 0 else -2), zero)


@op
def meshgrid(*inputs: Operand, indexing: str = "ij") -> tuple[Variable, ...]:
    """Coordinates of a grid, from those of each axis: n vectors give n arrays of rank n.

    With the indexing "xy" the first two axes are exchanged, as NumPy does by default.

    Args:
        inputs: vectors.
        indexing: "ij" or "xy".

    Returns:
        A list of Variables.

    Raises:
        ShapeError: an input is no vector.
        ValueError: the indexing is another one.
    """
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing is "ij" or "xy", not {indexing!r}')
    xs = [constant(x) for x in inputs]
    for x in xs:
        if x.rank != 1:
            raise ShapeError(f"takes vectors, not {describe(x)}")
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    sizes = [shape_of(xs[k]) for k in order]
    shape = concat(sizes) if sizes else None
    dims = [xs[k].dims[0] for k in order]
    grids = []
    for k, x in enumerate(xs):
        at = order.index(k)
        x = unsqueeze(x, [a for a in range(len(xs)) if a != at]) if len(xs) > 1 else x
        grids.append(apply("Expand", x, whole(dims) if all_known(dims) else shape, known=dims))
    return tuple(grids)


def all_known(dims: Sequence[object]) -> bool:
    """Return whether all sizes are numbers."""
    return all(isinstance(d, int) for d in dims)


@op
def eye(
    n: int | Variable, m: int | Variable | None = None, dtype: DTypeLike = "float32"
) -> Variable:
    """Identity matrix [n, n], or [n, m] with ones on its diagonal.

    Args:
        n: an integer, or a Variable that is one.
        m: the same, n by default.

    Returns:
        [n, m].

    Raises:
        TypeError: a size is no integer.
    """
    if isinstance(n, Variable) or isinstance(m, Variable):
        # ONNX Runtime has no kernel for bool and short integers
        return cast(apply("EyeLike", zeros([n, n if m is None else m])), dtype)
    return cast(constant(np.eye(n, m)), dtype)


@op
def linspace(
    start: Operand, end: Operand, count: int | Variable, dtype: DTypeLike = "float32"
) -> Variable:
    """`count` evenly spaced numbers from start to end, both included.

    Gradients flow to a start and an end that are Variables.

    Args:
        start: a number, or a Variable of one element.
        end: the same.
        count: the number of numbers, or an integer Variable of one element.
        dtype: a float dtype.

    Returns:
        [count].

    Raises:
        DTypeError: `count` is no integer.
        ShapeError: `start`, `end` or `count` has several elements.
        ValueError: `count` is negative.
    """
    number = whole_number(count, "the count")
    known = None if number.value is None else int(number.value.item())
    if known is not None and known < 0:
        raise ValueError(f"linspace: count is not negative, {known}")
    # numbers are rounded once, as NumPy's are
    exact = dtype if isinstance(start, Variable) or isinstance(end, Variable) else np.float64
    first, last = (_end(v, exact) for v in (start, end))
    if known is not None and first.value is not None and last.value is not None:
        return constant(np.linspace(first.value, last.value, known), dtype)
    places = arange(number)
    step = (last - first) / cast(maximum(number - 1, 1), exact)
    y = first + cast(places, exact) * step
    return cast(where(logical_and(equal(places, number - 1), number > 1), last, y), dtype)


def _end(value, dtype):
    """An end of a range, as a scalar."""
    v = cast(constant(value), dtype)
    if v.dims not in ((), (1,)):
        raise ShapeError(f"an end is one number, not {describe(v)}")
    return reshape(v, []) if v.rank else v


@op
def full(shape: TargetShape, value: Operand, dtype: DTypeLike = "float32") -> Variable:
    """One value in a shape, numbers or an int64 Variable.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.
        value: one number, bool or text.

    Returns:
        Of this shape, and of the dtype of the value if none is given.

    Raises:
        ShapeError: the shape is no vector.
    """
    return expand(constant(value, dtype), shape)


@op
def full_like(x: Operand, value: Operand, dtype: DTypeLike | None = None) -> Variable:
    """One value in the run-time shape of x.

    Args:
        x: of any dtype and shape.
        value: one number, bool or text.
        dtype: that of x by default.

    Returns:
        Of the shape of x, and of its dtype if none is given.

    Raises:
        ShapeError: the value has several elements.
    """
    x = constant(x)
    value = constant(value, x.dtype if dtype is None else dtype)
    if value.dims not in ((), (1,)):
        raise ShapeError(f"one value, not {describe(value)}")
    return refined(expand(value, whole(x.dims) if x.is_static else shape_of(x)), x.dims)


@op
def zeros(shape: TargetShape, dtype: DTypeLike = "float32") -> Variable:
    """Zeros in a shape, numbers or an int64 Variable.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of this shape and dtype.

    Raises:
        ShapeError: the shape is no vector.
    """
    return full(shape, 0, dtype)


@op
def ones(shape: TargetShape, dtype: DTypeLike = "float32") -> Variable:
    """Ones in a shape, numbers or an int64 Variable.

    Args:
        shape: sizes, Variables among them, or an int64 Variable.

    Returns:
        Of this shape and dtype.

    Raises:
        ShapeError: the shape is no vector.
    """
    return full(shape, 1, dtype)
