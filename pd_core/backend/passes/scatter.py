"""Rows that are added up where an index says: the gradient of reading rows by an index."""

import numpy as np

from ...graph.node import apply, refined
from ...graph.rewrite import is_output_of

_LARGEST = np.iinfo(np.int32).max


def scattered_once(node, inputs):
    """The sum of two tables of zeros to which rows were added, as one: what a table gets that was
    read in several places."""
    if node.op_type != "Add" or not all(map(_is_scattered, inputs)):
        return None
    (zeros, *first), (_, *second) = (x.node.inputs for x in inputs)
    axes = {x.node.attributes.get("axis", 0) for x in inputs}
    kinds = {x.dtype for x in (first[0], second[0])}
    if len(axes) > 1 or len(kinds) > 1 or inputs[0].dims != inputs[1].dims:
        return None
    (axis,) = axes
    index, values = (_joined(a, b, axis) for a, b in zip(first, second, strict=True))
    y = apply("ScatterElements", zeros, index, values, axis=axis, reduction="add")
    y = refined(y, node.outputs[0].dims)
    return (y,)


def _is_scattered(x):
    """Whether x is zeros with something added."""
    if not is_output_of(x, "ScatterElements"):
        return False
    return x.node.attributes.get("reduction") == "add" and is_zero(x.node.inputs[0])


def is_zero(x):
    """Whether x holds zeros only, as far as the graph shows."""
    if x.value is None and is_output_of(x, "Expand"):
        x = x.node.inputs[0]
    return x.value is not None and not x.value.any()


def _joined(a, b, axis):
    """Both along an axis; columns that were stretched to the rows' width are joined before."""
    columns = [_column(x) for x in (a, b)]
    if axis == 0 and all(c is not None for c in columns) and a.dims[1:] == b.dims[1:]:
        column = apply("Concat", *columns, axis=0)
        shape = apply("Concat", apply("Shape", column, start=0, end=1), _tail(a), axis=0)
        return apply("Expand", column, shape, known=(column.dims[0], *a.dims[1:]))
    return apply("Concat", a, b, axis=axis)


def _tail(x):
    return apply("Shape", x, start=1)


def add_rows(node, inputs):
    """Rows added to a matrix, as numbers added to a vector at places that are worked out before.

    ONNX Runtime's CPU kernel finds the place of each number anew, which takes a fifth of the time
    along one axis of what it takes along two.
    """
    if node.op_type != "ScatterElements" or node.attributes.get("reduction") != "add":
        return None
    x, index, values = inputs
    column = _column(index)
    if column is None or x.rank != 2 or node.attributes.get("axis", 0) != 0:
        return None
    height, width = x.dims
    if not isinstance(width, int) or values.dims[1] != width:
        return None
    places, total = np.arange(width, dtype=np.int64), None
    if isinstance(height, int):
        total = height * width
        if total <= _LARGEST:
            column, places = apply("Cast", column, to=_INT32), places.astype(np.int32)
    places = _flat(apply("Add", apply("Mul", column, column.dtype.type(width)), places))
    y = apply("ScatterElements", _flat(x, total), places, _flat(values), axis=0, reduction="add")
    return (apply("Reshape", y, np.array([-1, width], np.int64), known=x.dims),)


def _column(index):
    """The index [N, 1] of rows that was stretched to their width; None if none was."""
    if not is_output_of(index, "Expand"):
        return None
    column = index.node.inputs[0]
    return column if column.rank == 2 and column.dims[1] == 1 else None


def _flat(x, total=None):
    known = None if total is None else (total,)
    return apply("Reshape", x, np.array([-1], np.int64), known=known)


_INT32 = 6
