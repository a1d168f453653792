"""Copies and rearrangements: tile, stack, flip, roll, triangles, grids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..graph.checks import axis_of, whole
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply, refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, fresh_dim
from .gather import gather
from .math import cast, equal, maximum, mod, where
from .reduce import Axes
from .shape import (
    arange,
    axes_of,
    concat,
    expand,
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
from .sizes import TargetShape, shape_operand

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
    x = constant(x)
    if isinstance(repeats, Variable):
        return apply("Tile", x, repeats)
    given: Any = repeats
    times: Any = shape_operand(given)[0].value
    counts = list(given) if times is None else np.atleast_1d(times).tolist()
    counts = [1] * (x.rank - len(counts)) + counts
    if len(counts) > x.rank:
        x = unsqueeze(x, list(range(len(counts) - x.rank)))
    times, several = shape_operand(counts)
    if several is None:
        return apply("Tile", x, times)
    known = [_times(d, n) for d, n in zip(x.dims, several, strict=True)]
    return apply("Tile", x, times, known=known)


def _times(size, count):
    """A size as often as a count says."""
    if isinstance(size, int) and isinstance(count, int):
        return size * count
    return count if size == 1 else size if count == 1 else fresh_dim()


@op
def repeat(x: Operand, count: int, axis: int = 0) -> Variable:
    """Repeat each slice of an axis `count` times: [a, b] to [a, a, b, b].

    Args:
        x: of any dtype.
        count: an integer.

    Returns:
        Of the dtype of x.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    if isinstance(x.dims[axis], int):
        return gather(x, np.repeat(np.arange(x.dims[axis]), count), axis)
    ones = [1] * (axis + 1)
    wide = expand(unsqueeze(x, axis + 1), [*ones, count, *[1] * (x.rank - axis - 1)])
    head, size, tail = (
        slice(shape_of(x), [a], [b], [0])
        for a, b in ((0, axis), (axis, axis + 1), (axis + 1, _LAST))
    )
    # a size of 0 is meant: without allowzero it would be that of the same axis of `wide`
    return apply("Reshape", wide, concat([head, size * count, tail]), allowzero=1)


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
    """Split x into `count` equal pieces along an axis.

    Args:
        x: of any dtype.

    Returns:
        A list of `count` Variables.

    Raises:
        ShapeError: x has no such axis, or its size is no multiple.
    """
    x = constant(x)
    axis = axis_of(x, axis)
    size = x.dims[axis]
    if count < 1 or not isinstance(size, int) or size % count:
        raise ShapeError(f"{count} equal pieces of axis {axis} of {describe(x)}")
    return split(x, [size // count] * count, axis)


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
def roll(x: Operand, shift: int | Sequence[int], axis: Axes | None = None) -> Variable:
    """Shift elements along axes; those that leave at the end come in at the beginning.

    Without an axis x is rolled as if it were flat. Several shifts are for several axes.

    Args:
        x: of any dtype.
        shift: an integer, or one for each axis.
        axis: an axis or several.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    if axis is None:
        flat = roll(reshape(x, [-1]), int(np.sum(shift)), 0)
        return reshape_like(flat, x)
    shifts, axes = np.broadcast_arrays(shift, axis)
    for s, a in zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True):
        a = axis_of(x, a)
        size = x.dims[a]
        if isinstance(size, int):
            start = whole([size - s % size if size else 0])
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
def triu(x: Operand, k: int = 0) -> Variable:
    """Upper triangles of the matrices [..., n, m]: elements below diagonal k become 0.

    Args:
        x: numbers or bools [..., n, m].

    Returns:
        Of the shape and dtype of x.
    """
    return apply("Trilu", x, np.int64(k), upper=1)


@op
def tril(x: Operand, k: int = 0) -> Variable:
    """Lower triangles of the matrices [..., n, m]: elements above diagonal k become 0.

    Args:
        x: numbers or bools [..., n, m].

    Returns:
        Of the shape and dtype of x.
    """
    return apply("Trilu", x, np.int64(k), upper=0)


@op
def diagonal(x: Operand, k: int = 0) -> Variable:
    """Diagonals of the matrices [..., n, m], of known n and m: [..., d].

    Args:
        x: of any dtype, [..., n, m].
        k: which diagonal, above the main one, or below if it is negative.

    Returns:
        [..., d].

    Raises:
        ShapeError: x are no matrices, or n or m is not known.
    """
    x = constant(x)
    n, m = x.dims[-2:] if x.rank > 1 else (None, None)
    if not isinstance(n, int) or not isinstance(m, int):
        raise ShapeError(f"takes matrices of known sizes, not {describe(x)}")
    flat = reshape(x, [*[0] * (x.rank - 2), n * m]) if x.rank > 2 else reshape(x, [n * m])
    count = max(0, min(n + min(k, 0), m - max(k, 0)))
    return gather(flat, max(k, -k * m) + np.arange(count) * (m + 1), -1)


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
        return apply("EyeLike", zeros([n, n if m is None else m], dtype))
    return cast(constant(np.eye(n, m)), dtype)


@op
def linspace(start: float, end: float, count: int, dtype: DTypeLike = "float32") -> Variable:
    """`count` evenly spaced numbers from start to end, both included.

    Args:
        start: a number.
        end: a number.
        count: the number of numbers.
        dtype: a float dtype.

    Returns:
        [count].

    Raises:
        TypeError: `start` or `end` is no number, such as a Variable; `count` is no integer.
        ValueError: `count` is negative.
    """
    if count < 0:
        raise ValueError(f"linspace: count is not negative, {count}")
    return constant(np.linspace(start, end, count), dtype)


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
