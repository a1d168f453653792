"""Packed sequences as ONNX operators: gathers, with a row appended for the padding."""

import math

import numpy as np

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.variable import Inputs, constant, fresh_dim
from .context import Context, Outputs
from .integers import whole_numbers


def padded_again(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Mask a padded tensor that was packed and is padded once more, instead of two gathers."""
    if node.op_type != "PadRows":
        return None
    packed, index, inverse = inputs
    if packed.node is None or packed.node.op_type != "PackRows":
        return None
    padded, other_index, other_inverse = packed.node.inputs
    if other_index is not index or other_inverse is not inverse:
        return None
    is_token = index < ops.size(inverse)
    if padded.rank > index.rank:
        is_token = ops.unsqueeze(is_token, np.arange(index.rank, padded.rank))
    fill = constant(node.attributes["fill"], padded.dtype)
    made = apply("Where", is_token, padded, fill)
    made = refined(made, node.outputs[0].dims)
    return (made,)


def pad_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a gather of the rows and a row of `fill`."""
    values, index, _ = inputs
    return (_padded(values, index, node.attributes["fill"]),)


def pack_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a gather from the flattened positions."""
    padded, index, inverse = inputs
    padded = _flattened(padded, index) if index.rank > 1 else padded
    return (apply("Gather", padded, inverse),)


def pad_chunks(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a gather for each part; padding is a row of zeros, or any row without `zeros`."""
    values, _, *indices = inputs
    if node.attributes["zeros"]:
        values = _with_row(values, 0.0)
    else:
        last = ops.size_of(values, 0) - 1
        indices = [ops.minimum(index, last) for index in indices]
    return tuple(apply("Gather", values, index) for index in indices)


def pack_chunks(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a gather from the concatenated parts."""
    inverse, *rest = inputs
    half = len(rest) // 2
    parts = [_flattened(*pair) for pair in zip(rest[:half], rest[half:], strict=True)]
    return (apply("Gather", ops.concat(parts), inverse),)


def permute_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a gather of the rows and a row of zeros."""
    values, index, _ = inputs
    return (_padded(values, index, 0.0),)


def segment_sum(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to the sum over the padded form."""
    values, index, _ = inputs
    y = ops.reduce_sum(_padded(values, index, 0.0), 1)
    return whole_numbers(y.node, y.node.inputs, context) or (y,)


def repeat_rows(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to a gather by owner, with a row of zeros where there may be none."""
    rows, _, owner = inputs
    if node.attributes["holes"]:
        return (_padded(rows, owner, 0.0),)
    return (apply("Gather", rows, owner),)


def segment_max(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to the maximum over the padded form; zero for empty sequences."""
    values, index, _, _, lengths = inputs
    largest = ops.reduce_max(_lowest_padded(values, index, context), 1)
    has_tokens = lengths > 0
    if values.rank > 1:
        has_tokens = ops.unsqueeze(has_tokens, np.arange(1, values.rank))
    return (ops.where(has_tokens, largest, 0),)


def segment_arg_max(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to the first maximum over the padded form."""
    values, index = inputs
    return (ops.arg_max(_lowest_padded(values, index, context), 1),)


def _lowest_padded(values, index, context):
    """The rows padded with -inf, once for a maximum and its index.

    One step longer than the index: ArgMax takes no axis without elements.
    """

    def make():
        step = ops.concat([ops.size_of(index, 0), np.ones(1, np.int64)])
        nothing = apply("Expand", ops.size_of(values, 0), step, known=(index.dims[0], 1))
        return _padded(values, ops.concat([index, nothing], 1), -np.inf)

    return context.cached(("padded with -inf", values, index), make)


def _flattened(padded, index):
    """A padded tensor with the axes of its index merged into one."""
    rows = ops.reshape(ops.size(index), [1])
    shape = ops.concat([rows, apply("Shape", padded, start=index.rank)])
    known = (fresh_dim(), *padded.dims[index.rank :])
    return apply("Reshape", padded, shape, known=known, allowzero=1)


def _padded(values, index, fill):
    """The rows and one of `fill`, gathered by an index in which the padding is the last row."""
    return apply("Gather", _with_row(values, fill), index)


def _with_row(values, fill):
    """The rows and one of `fill`."""
    return ops.concat([values, _row(values, fill)])


def _row(values, fill):
    sizes = values.dims[1:]
    if all(isinstance(d, int) for d in sizes) and math.prod(sizes) <= _SMALL:
        return constant(np.full((1, *sizes), fill), values.dtype)
    tail = apply("Shape", values, start=1) if values.rank > 1 else np.zeros(0, np.int64)
    shape = ops.concat([np.array([1], np.int64), tail])
    return apply("Expand", constant(fill, values.dtype), shape, known=(1, *sizes))


_SMALL = 10_000  # elements of a row that a model may hold as a constant
