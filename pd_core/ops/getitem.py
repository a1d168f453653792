"""NumPy's indexing of Variables: x[0], x[1:3], x[..., None], x[mask], x[rows, columns]."""

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.checks import whole
from ..graph.errors import ShapeError
from ..graph.op import op
from ..graph.recording import recorder
from ..graph.variable import Operand, Variable, constant, describe
from .gather import gather, gather_nd, nonzero, scatter
from .math import add, cast
from .operator import apply
from .shape import (
    arange,
    concat,
    expand_like,
    reshape,
    reshape_like,
    size,
    slice,
    transpose,
    unsqueeze,
    zeros_like,
)

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_Slice = builtins.slice


def get_item(x: Operand, key: Any) -> Variable:
    """Return x[key] as NumPy does; Variables are indexed by `x[key]`.

    The key is an int, a slice, `...`, None, an array or list of ints or bools, or a tuple of these;
    int scalars, bounds of slices, int and bool arrays may also be Variables. Arrays and ints beside
    them are broadcast; a mask selects as many elements as are true at run time. Gradients flow to
    the elements that are read.

    Raises IndexError where an int lies outside a known size or there are more entries than axes,
    TypeError for entries of another type, and ShapeError for masks and arrays that do not fit.
    """
    x = constant(x)
    return _read(x, _entries(x, key))


def _read(x, entries):
    """The elements of x at the entries of a key."""
    x = _sliced(x, entries)
    kept = [entry for entry in entries if entry is not None]
    arrays = [k for k, entry in enumerate(kept) if isinstance(entry, Variable)]
    if any(kept[k].rank for k in arrays):
        return _by_arrays(x, entries, kept, arrays)
    for axis in reversed(arrays):
        x = gather(x, kept[axis], axis)
    return _with_new_axes(x, [e for e in entries if not isinstance(e, Variable)])


@op
def index_update(x: Operand, key: Any, value: Operand) -> Variable:
    """Return a copy of x with x[key] set to the value, which is broadcast to its shape.

    The key is one of `get_item`. Of elements that are set twice one value is kept, any of them.

    Args:
        x: of any dtype.
        key: what stands in brackets, `x[key]`.
        value: broadcasts to x[key].

    Returns:
        Of the shape and dtype of x.

    Raises:
        IndexError: there are more indices than axes, or several `...`.
    """
    return _written(x, key, value, "none")


@op
def index_add(x: Operand, key: Any, value: Operand) -> Variable:
    """Return a copy of x with the value added to x[key]; elements named twice get both.

    The key is one of `get_item`, and the value is broadcast to the shape of x[key].

    Args:
        x: numbers of any shape.
        key: what stands in brackets, `x[key]`.
        value: broadcasts to x[key].

    Returns:
        Of the shape and dtype of x.

    Raises:
        IndexError: there are more indices than axes, or several `...`.
    """
    return _written(x, key, value, "add")


@op
def scatter_nd(x: Operand, index: Operand, values: Operand, reduction: str = "none") -> Variable:
    """Copy x and set x[index[i, 0], index[i, 1], ...] to values[i] for each row of an index.

    The index is int [..., k], values are [..., *x.shape[k:]].
    With the reduction `add`, `mul`, `max` or `min` the old and the new value are combined instead.

    Args:
        x: of any dtype.
        index: integers [..., k].
        values: [..., *x.shape[k:]].
        reduction: None, "add", "mul", "max" or "min".

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: the rows of the index have no known length.
    """
    index = cast(whole(index), np.int64)
    if not index.rank or not isinstance(index.dims[-1], int):
        raise ShapeError(f"scatter_nd: an index {describe(index)}, whose rows have no known length")
    if reduction == "none":
        return apply("ScatterND", x, index, values)
    # not ScatterND, whose CPU kernel races on duplicates
    columns = tuple(gather(index, k, -1) for k in range(index.dims[-1]))
    return _written(x, columns, values, reduction)


def _written(x, key, value, reduction):
    x = constant(x)
    if x.is_static:
        positions = constant(np.arange(np.prod(x.dims, dtype=int)).reshape(x.dims))
    else:
        positions = reshape_like(arange(size(x)), x)
    positions = _read(positions, _entries(x, key))
    value = expand_like(constant(value, x.dtype), positions)
    flat = scatter(reshape(x, [-1]), reshape(positions, [-1]), reshape(value, [-1]), 0, reduction)
    return reshape_like(flat, x)


# ---- the entries of a key


def _entries(x, key):
    """The key with an entry for each axis of x, beside the None of new axes.

    An entry is a slice, or a Variable of int64; masks are the indices of their true elements.
    """
    key = list(key) if isinstance(key, tuple) else [key]
    masks = [_mask(entry) for entry in key]
    ranks = [
        0 if entry is None or entry is Ellipsis else 1 if mask is None else mask.rank
        for entry, mask in zip(key, masks, strict=True)
    ]
    dots = [k for k, entry in enumerate(key) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has at most one `...`")
    missing = x.rank - sum(ranks)
    if missing < 0:
        raise IndexError(f"too many indices, {sum(ranks)} for {describe(x)}")
    at = dots[0] if dots else len(key)
    key[at : at + 1] = masks[at : at + 1] = [...] * missing
    entries: list[Any] = []
    axis = 0
    for entry, mask in zip(key, [None if m is Ellipsis else m for m in masks], strict=True):
        if entry is None:
            entries.append(None)
            continue
        if mask is not None:
            entries += _true_indices(x, axis, mask)
        else:
            entries.append(_Slice(None) if entry is Ellipsis else _entry(x, axis, entry))
        axis += 1 if mask is None else mask.rank
    return entries


def _mask(entry):
    """The entry as a bool Variable; None if it is none."""
    if isinstance(entry, (bool, np.bool_)):
        raise TypeError("a bool is no index\n  hint: unsqueeze() adds an axis, where() selects")
    if isinstance(entry, Variable):
        return entry if entry.dtype.kind == "b" else None
    if isinstance(entry, (list, np.ndarray)) and np.asarray(entry).dtype.kind == "b":
        return constant(np.asarray(entry))
    return None


def _true_indices(x, axis, mask):
    for k, d in enumerate(mask.dims):
        if isinstance(d, int) and isinstance(x.dims[axis + k], int) and d != x.dims[axis + k]:
            raise ShapeError(f"a mask {describe(mask)} for axes from {axis} on of {describe(x)}")
    if mask.value is not None:
        return [constant(k.astype(np.int64)) for k in np.nonzero(mask.value)]
    true = nonzero(mask)
    return [gather(true, k) for k in range(mask.rank)]


def _entry(x, axis, entry):
    """An entry for one axis: a slice, or an int64 Variable of indices."""
    if isinstance(entry, _Slice):
        return entry
    if isinstance(entry, (list, np.ndarray)) and not np.size(entry):
        entry = np.zeros(np.shape(entry), np.int64)
    if not isinstance(entry, (Variable, np.ndarray, int, np.integer, Sequence)) or (
        isinstance(entry, str)
    ):
        raise TypeError(f"an index is an int, slice, `...`, None or array, not {entry!r}")
    v = entry if isinstance(entry, Variable) else _constant(entry)
    if v.dtype.kind not in "iu":
        raise TypeError(f"an index is a whole number, not {entry!r}")
    size = x.dims[axis]
    if v.value is not None and isinstance(size, int):
        outside = v.value[(v.value < -size) | (v.value >= size)]
        if outside.size:
            raise IndexError(
                f"index {outside.flat[0]} is out of range for axis {axis} of {describe(x)}"
            )
    return cast(v, np.int64)


def _constant(entry):
    """A number or array as a Variable; one that a recorded line changes is no constant."""
    v = constant(entry)
    recording = recorder()
    return v if recording is None or v.dtype.kind not in "iu" else recording.changing(v)


# ---- reading


def _sliced(x, entries):
    """x cut along the axes whose entry is a slice."""
    starts, ends, axes, steps = [], [], [], []
    for axis, entry in enumerate(e for e in entries if e is not None):
        if not isinstance(entry, _Slice) or entry == _Slice(None):
            continue
        step = 1 if entry.step is None else entry.step
        if isinstance(step, Variable) or not isinstance(step, (int, np.integer)):
            raise TypeError(f"the step of a slice is an int, not {step!r}")
        if step == 0:
            raise ValueError("the step of a slice is not 0")
        step = _within_int64(step)
        begin, end = (0, _LAST) if step > 0 else (_LAST, _FIRST)
        starts.append(begin if entry.start is None else entry.start)
        ends.append(end if entry.stop is None else entry.stop)
        axes.append(axis)
        steps.append(step)
    if not axes:
        return x
    return slice(x, _bounds(starts), _bounds(ends), axes, steps)


def _bounds(values):
    """Bounds of slices: a list of ints, or an int64 Variable if one of them is a Variable."""
    for v in values:
        if _kind(v) not in "iu" or (isinstance(v, Variable) and v.dims not in ((), (1,))):
            raise TypeError(f"a bound of a slice is a whole number, not {v!r}")
    if not any(isinstance(v, Variable) for v in values):
        return _constant([_within_int64(v) for v in values])
    parts = [v if isinstance(v, Variable) else constant(_within_int64(v)) for v in values]
    return concat([reshape(cast(v, np.int64), [1]) for v in parts])


def _kind(v):
    """The kind of the dtype of a bound; Python's integers have any size."""
    if isinstance(v, Variable):
        return v.dtype.kind
    return "i" if type(v) is int else np.asarray(v).dtype.kind


def _within_int64(bound):
    return min(max(int(bound), _FIRST), _LAST)


def _by_arrays(x, entries, kept, arrays):
    """x[key] with arrays among the entries: their axes are replaced by those of the arrays.

    The new axes stand where the arrays were, or first if something stood between them, as NumPy has
    it.
    """
    indices = _broadcast([kept[k] for k in arrays])
    count = indices[0].rank
    positions = [k for k, entry in enumerate(entries) if isinstance(entry, Variable)]
    adjacent = positions == list(range(positions[0], positions[-1] + 1))
    if len(arrays) == 1:
        x, at = gather(x, indices[0], arrays[0]), arrays[0]
    else:
        others = [k for k in range(len(kept)) if k not in arrays]
        x = gather_nd(
            transpose(x, [*arrays, *others]), concat([unsqueeze(k, -1) for k in indices], -1)
        )
        at = 0
    first = sum(e is not None for e in entries[: positions[0]]) if adjacent else 0
    if at != first:
        order = list(range(x.rank))
        moved = order[at : at + count]
        del order[at : at + count]
        order[first:first] = moved
        x = transpose(x, order)
    rest = [entry for entry in entries if not isinstance(entry, Variable)]
    before = positions[0] if adjacent else 0
    return _with_new_axes(x, [*rest[:before], *[...] * count, *rest[before:]])


def _broadcast(indices):
    """Index Variables broadcast to one shape."""
    if len(indices) == 1:
        return indices
    if all(v.value is not None for v in indices):
        try:
            return [constant(a) for a in np.broadcast_arrays(*(v.value for v in indices))]
        except ValueError:
            shapes = " and ".join(map(describe, indices))
            raise ShapeError(f"index arrays {shapes} do not broadcast") from None
    if any(v.rank for v in indices) and len({v.dims for v in indices}) > 1:
        zeros = zeros_like(indices[0])
        for v in indices[1:]:
            zeros = add(zeros, zeros_like(v))
        return [add(v, zeros) for v in indices]
    return indices


def _with_new_axes(x, entries):
    """x with an axis of size 1 for each None among the entries of its axes."""
    axes = [k for k, entry in enumerate(entries) if entry is None]
    return unsqueeze(x, axes) if axes else x


def rows(x: Variable) -> list[Variable]:
    """Return x[0], x[1], …; TypeError if their number is not known."""
    if not x.dims:
        raise TypeError(f"{x!r} is a scalar and has no rows")
    return [get_item(x, k) for k in range(len(x))]
