"""Rows that are added up where an index says: the gradient of reading rows by an index."""

import numpy as np

from ...node import apply

_LARGEST = np.iinfo(np.int32).max


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
    if index.node is None or index.node.op_type != "Expand":
        return None
    column = index.node.inputs[0]
    return column if column.rank == 2 and column.dims[1] == 1 else None


def _flat(x, total=None):
    known = None if total is None else (total,)
    return apply("Reshape", x, np.array([-1], np.int64), known=known)


_INT32 = 6
