"""Many rows added to a table by an index, as products of blocks: the gradient of an embedding.

ONNX Runtime's ScatterElements adds number by number, in one thread. Sorted by index, rows of the
same index are neighbours; in blocks of them, the product with a matrix of 0 and 1 (are the indices
of two rows equal) adds them up. What is left to scatter is a row for each border of blocks.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, constant
from .context import Context, Outputs
from .scatter import added_flat, added_rows

_BLOCK = 32  # rows; of 16, 32 and 64 the fastest
_FEWEST = 1 << 18  # numbers from which it is faster
_LARGEST = np.iinfo(np.int32).max


def add_rows_in_blocks(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Add rows to a table of zeros by blocks, if the program has last been run with many of them.

    A row that is not finite may make others NaN, in the same columns.
    """
    added = added_rows(inputs) if node.op_type == "ScatterElements" else None
    if added is None:
        return None
    column, values, height = added
    elements = context.elements(values) or 0
    if elements < _FEWEST or values.dtype not in (np.float32, np.float64):
        return None
    index = ops.reshape(column, [-1])
    y = _sum_by_index(ops.where(index < 0, index + height, index), values, height)
    return (apply("Reshape", y, np.array([-1], np.int64), known=node.outputs[0].dims),)


def _sum_by_index(index, values, height):
    """The sum of the rows of values [N, W] that have each index: [height, W]."""
    count, width = ops.reshape(ops.size(index), [1]), values.dims[1]
    ordered, order = apply("TopK", index, count, outputs=2, axis=0, largest=0)
    last = ops.scatter(np.full(height, -1), ordered, ops.arange(count), reduction="max")
    rest = ops.mod(-count, _BLOCK)
    ordered, order = ops.pad(ordered, [0], rest, -1), ops.pad(order, [0], rest)
    blocks = _reshaped(ordered, -1, _BLOCK)
    rows = _reshaped(ops.gather(values, order), -1, _BLOCK, width)
    short = ops.cast(blocks, np.int32) if height <= _LARGEST else blocks
    is_same = ops.equal(ops.unsqueeze(short, 2), ops.unsqueeze(short, 1))
    sums = ops.matmul(ops.cast(is_same, values.dtype), rows)  # at each row, those like it
    none = constant(np.zeros((1, width)), values.dtype)
    flat = ops.concat([_reshaped(sums, -1, width), none])
    table = ops.gather(flat, ops.where(last < 0, ops.size(ordered), last))
    return _with_borders(table, blocks, sums)


def _with_borders(table, blocks, sums):
    """Add what a block has of an index that the next one begins with; the table has the last."""
    ends = ops.slice(blocks, [0, _BLOCK - 1], [-1, _BLOCK], [0, 1])
    starts = ops.slice(blocks, [1, 0], [_LARGEST, 1], [0, 1])
    rows = ops.squeeze(ops.slice(sums, [0, _BLOCK - 1], [-1, _BLOCK], [0, 1]), [1])
    rows = ops.where(ops.equal(ends, starts), rows, 0.0)
    return added_flat(table, ends, rows)


def _reshaped(x, *sizes):
    return apply("Reshape", x, np.array(sizes, np.int64))
