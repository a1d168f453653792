"""Products of matrices that may be empty, which kernels of ONNX Runtime 1.31 for CPUs get wrong.

Over no elements a sum is 0: where a vector or a stack with a transposed factor takes part, they
leave the result as the memory was, and a single matrix beside a stack makes the result single, too.
Beside a stack of none it is an error.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply, refined
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs
from .context import Context, Outputs
from .empty import has_elements


def column_of_vector(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Multiply a computed matrix with a column in the place of a vector.

    Where the matrix is transposed, ONNX Runtime 1.31 fuses that with the product, and leaves it out
    beside a vector; it also finds a Transpose behind operators that it moves or removes.
    """
    a, b = inputs
    if b.rank != 1 or a.rank < 2 or a.node is None:
        return None
    y = apply("MatMul", a, ops.unsqueeze(b, 1))
    return [refined(ops.squeeze(y, [-1]), node.outputs[0].dims)]


def product_if_any(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute a product whose operands may be empty in a form that the kernels get right."""
    a, b = inputs
    if has_elements(a) and has_elements(b):
        return None
    if a.dtype.kind == "u":  # of which there are kernels, but not over no elements
        a, b = (ops.cast(x, f"i{x.dtype.itemsize}") for x in inputs)
    y = _product(a, b)
    if y is None and a.dtype == node.outputs[0].dtype:
        return None
    y = ops.cast(apply("MatMul", a, b) if y is None else y, node.outputs[0].dtype)
    return [refined(y, node.outputs[0].dims)]


def _product(a, b):
    rows, columns = a.symbolic_dims, b.symbolic_dims
    inner = rows[-1] if isinstance(rows[-1], int) else columns[-2 if b.rank > 1 else 0]
    if a.rank == 1 or b.rank == 1:
        return _of_vectors(a, b)
    if 0 in (*rows, *columns):
        return _nothing(a, b)
    y = _aligned(a, b, inner) if rows[:-2] != columns[:-2] and b.rank > 2 else None
    if isinstance(inner, int) or a.rank == b.rank == 2:
        return y
    if not _is_turned(a) and not _is_turned(b):
        return y
    # a branch: to choose between elements would take longer than many of these products
    return ops.cond(
        ops.size_of(a, a.rank - 1) > 0,
        lambda: apply("MatMul", _again(a), _again(b)) if y is None else y,
        lambda: _nothing(a, b),
    )


def _nothing(a, b):
    """The product over no elements: zeros in its shape."""
    return ops.reduce_sum(a, -1, keep_dim=True) * ops.reduce_sum(b, -2, keep_dim=True)


def _again(x):
    """A transposition once more, inside of a branch, where it is one kernel with the product."""
    return apply("Transpose", x.node.inputs[0], **x.node.attributes) if _is_turned(x) else x


def _is_turned(x):
    return is_output_of(x, "Transpose")


def _of_vectors(a, b):
    """The product of a vector, as of a matrix of one row or one column."""
    if a.rank == b.rank == 1:
        return None  # a sum, which is right
    x = ops.unsqueeze(a, 0) if a.rank == 1 else a
    y = ops.unsqueeze(b, 1) if b.rank == 1 else b
    z = _product(x, y)
    return ops.squeeze(ops.matmul(x, y) if z is None else z, -2 if a.rank == 1 else -1)


def _aligned(a, b, inner):
    """The product of stacks of which one is repeated: with a matrix for each, or none for none."""
    stacks = [apply("Shape", x, end=x.rank - 2) for x in (a, b)]
    if isinstance(inner, int):
        stacks = [ops.minimum(s, 1) for s in stacks]
    matrix = np.array([1, 1])
    x, y = (
        ops.expand(v, ops.concat([s, matrix])) if _repeats(v, other, inner) else v
        for v, other, s in ((a, b, stacks[1]), (b, a, stacks[0]))
    )
    return None if (x, y) == (a, b) else apply("MatMul", x, y)


def _repeats(x, other, inner):
    """Whether x is repeated along an axis of another stack, and that may go wrong.

    Over no elements it does; else only where the other stack has none.
    """
    return any(
        (k > x.rank or x.dims[-k] == 1) and other.dims[-k] != 1
        for k in range(3, other.rank + 1)
        if not (isinstance(inner, int) and isinstance(other.dims[-k], int))
    )
