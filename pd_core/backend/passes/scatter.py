"""Rows added to a table by an index: the gradient of an embedding."""

import numpy as np
from onnx import TensorProto

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, Variable, static
from .context import Context, Outputs

_LARGEST = np.iinfo(np.int32).max


def scattered_once(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Scatter into one table instead of the sum of two: the gradient of a table that was gathered
    from in several places.
    """
    if node.op_type != "Add" or not all(map(_is_scattered, inputs)):
        return None
    (zeros, *first), (_, *second) = (x.node.inputs for x in inputs)
    axes = {x.node.attributes.get("axis", 0) for x in inputs}
    if len(axes) > 1 or first[0].dtype != second[0].dtype or inputs[0].dims != inputs[1].dims:
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


def is_zero(x: Variable) -> bool:
    """Whether x holds zeros only, as far as the graph shows."""
    while x.value is None and (is_output_of(x, "Expand") or is_output_of(x, "Reshape")):
        x = x.node.inputs[0]
    return x.value is not None and not x.value.any()


def _joined(a, b, axis):
    """Concatenate along an axis; columns expanded to the width of the rows are joined before."""
    columns = [_column(x) for x in (a, b)]
    if axis == 0 and all(c is not None for c in columns) and a.dims[1:] == b.dims[1:]:
        column = apply("Concat", *columns, axis=0)
        shape = ops.concat([ops.size_of(column, 0), apply("Shape", a, start=1)])
        return apply("Expand", column, shape, known=(column.dims[0], *a.dims[1:]))
    return apply("Concat", a, b, axis=axis)


def add_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Add rows to a matrix as numbers to a flat vector, at indices that are computed before.

    ONNX Runtime's CPU kernel computes the offset of each number, which takes a fifth of the time
    along one axis of what it takes along two.
    """
    if node.op_type != "ScatterElements" or node.attributes.get("reduction") != "add":
        return None
    x, index, values = inputs
    column = _column(index)
    if column is None or x.rank != 2 or node.attributes.get("axis", 0) != 0:
        return None
    if not isinstance(x.dims[1], int) or values.dims[1] != x.dims[1]:
        return None
    return (added_flat(x, column, values),)


def added_flat(x: Variable, column: Variable, values: Variable) -> Variable:
    """Return x [V, W] plus the rows of values [N, W] at the index of each, [N, 1], added flat."""
    height, (width,) = x.dims[0], static(x.dims[1:])
    columns, total = np.arange(width, dtype=np.int64), None
    if isinstance(height, int):
        total = height * width
        if total <= _LARGEST:
            column = apply("Cast", column, to=TensorProto.INT32)
            columns = columns.astype(np.int32)
    index = _flat(column * width + columns)
    y = ops.scatter_add(_flat(x, total), index, _flat(values))
    return apply("Reshape", y, np.array([-1, width], np.int64), known=x.dims)


def added_rows(inputs: Inputs) -> tuple[Variable, Variable, int] | None:
    """Return the index [N, 1], the rows [N, W] and the height V that `added_flat` was given.

    `inputs` are those of its ScatterElements. None for any other, and if x is not of zeros.
    """
    x, index, values = inputs
    if not all(is_output_of(v, "Reshape") for v in (index, values)):
        return None
    offsets, values = index.node.inputs[0], values.node.inputs[0]
    if not is_output_of(offsets, "Add") or not is_output_of(offsets.node.inputs[0], "Mul"):
        return None
    starts, columns = offsets.node.inputs
    column, width = starts.node.inputs
    size, known = x.dims[0], values.dims[-1]
    if values.rank != 2 or not isinstance(size, int) or not is_zero(x):
        return None
    if not isinstance(known, int) or not known:
        return None
    if not _equals(width, known) or not _equals(columns, np.arange(known)):
        return None
    return column, values, size // known


def _equals(x, value):
    return x.value is not None and np.array_equal(x.value, value)


def _column(index):
    """The index [N, 1] of rows that was expanded to their width; None if none was."""
    if not is_output_of(index, "Expand"):
        return None
    column = index.node.inputs[0]
    return column if column.rank == 2 and column.dims[1] == 1 else None


def _flat(x, total=None):
    known = None if total is None else (total,)
    return apply("Reshape", x, np.array([-1], np.int64), known=known)
