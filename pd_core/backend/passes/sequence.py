"""Packed sequences as ONNX operators: gathers, after a row for the places that hold no token."""

import math

import numpy as np

from ...graph.node import apply, refined
from ...graph.variable import constant, fresh_dim


def padded_again(node, inputs):
    """What was padded, packed and padded once more: fill where there is no token."""
    if node.op_type != "PadRows":
        return None
    packed, index, places = inputs
    if packed.node is None or packed.node.op_type != "PackRows":
        return None
    padded, *where = packed.node.inputs
    if where[0] is not index or where[1] is not places:
        return None
    there = apply("Less", index, apply("Size", places))
    if padded.rank > index.rank:
        there = apply("Unsqueeze", there, np.arange(index.rank, padded.rank))
    fill = constant(node.attributes["fill"], padded.dtype)
    made = apply("Where", there, padded, fill)
    made = refined(made, node.outputs[0].dims)
    return (made,)


def pad_rows(node, inputs, sizes, seed):
    """The rows and one of `fill`, gathered."""
    values, index, _ = inputs
    return (_padded(values, index, node.attributes["fill"]),)


def pack_rows(node, inputs, sizes, seed):
    """The rows of the flattened places, gathered."""
    padded, index, places = inputs
    padded = _flattened(padded, index) if index.rank > 1 else padded
    return (apply("Gather", padded, places),)


def pad_parts(node, inputs, sizes, seed):
    """The rows and one of zeros, gathered for each part; without zeros, the last row for that."""
    values, _, *indices = inputs
    if node.attributes["zeros"]:
        values = _with_row(values, 0.0)
    else:
        last = apply("Sub", apply("Shape", values, start=0, end=1), np.int64(1))
        indices = [apply("Min", index, last) for index in indices]
    return tuple(apply("Gather", values, index) for index in indices)


def pack_parts(node, inputs, sizes, seed):
    """The rows of all parts back to back, gathered."""
    places, *rest = inputs
    half = len(rest) // 2
    parts = [_flattened(*pair) for pair in zip(rest[:half], rest[half:], strict=True)]
    return (apply("Gather", apply("Concat", *parts, axis=0), places),)


def exchange_rows(node, inputs, sizes, seed):
    """The rows and one of zeros, gathered."""
    values, index, _ = inputs
    return (_padded(values, index, 0.0),)


def segment_sum(node, inputs, sizes, seed):
    """The sum over the padded form."""
    values, index, _ = inputs
    axes = np.array([1], np.int64)
    return (apply("ReduceSum", _padded(values, index, 0.0), axes, keepdims=0),)


def repeat_rows(node, inputs, sizes, seed):
    """The row of each owner; after a row of zeros where there may be none."""
    rows, _, owner = inputs
    if node.attributes["holes"]:
        return (_padded(rows, owner, 0.0),)
    return (apply("Gather", rows, owner),)


def segment_max(node, inputs, sizes, seed):
    """The maximum over the padded form; zero where there is nothing."""
    values, index, _, _, lengths = inputs
    axes = np.array([1], np.int64)
    found = apply("ReduceMax", _padded(values, index, -np.inf), axes, keepdims=0)
    some = apply("Greater", lengths, np.int64(0))
    if values.rank > 1:
        some = apply("Unsqueeze", some, np.arange(1, values.rank))
    return (apply("Where", some, found, constant(0, values.dtype)),)


def _flattened(padded, index):
    """The axes of a padded tensor that are those of its index, as one."""
    rows = apply("Reshape", apply("Size", index), np.array([1]))
    shape = apply("Concat", rows, apply("Shape", padded, start=index.rank), axis=0)
    known = (fresh_dim(), *padded.dims[index.rank :])
    return apply("Reshape", padded, shape, known=known, allowzero=1)


def _padded(values, index, fill):
    """The rows and one of `fill`, gathered."""
    return apply("Gather", _with_row(values, fill), index)


def _with_row(values, fill):
    """The rows, and one more of `fill`."""
    return apply("Concat", values, _row(values, fill), axis=0)


def _row(values, fill):
    sizes = values.dims[1:]
    if all(isinstance(d, int) for d in sizes) and math.prod(sizes) <= _SMALL:
        return constant(np.full((1, *sizes), fill), values.dtype)
    tail = apply("Shape", values, start=1) if values.rank > 1 else np.zeros(0, np.int64)
    shape = apply("Concat", np.array([1], np.int64), tail, axis=0)
    return apply("Expand", constant(fill, values.dtype), shape, known=(1, *sizes))


_SMALL = 10_000  # elements of a row that a model may hold as a constant
