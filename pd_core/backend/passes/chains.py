"""Chains of matrix products in the order that takes fewer multiplications."""

from ... import ops
from ...graph.node import Node
from ...graph.rewrite import is_matrix_transposed, is_output_of
from ...graph.variable import Inputs, Variable
from .context import Context, Outputs


def reassociated(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute (P Q) R as P (Q R), and L (P Q) as (L P) Q, where P Q is read by such products alone.

    These are the gradients of the factors of a low-rank matrix, in which P Q would be the gradient
    of the matrix itself, as large as it and as expensive as the product of the forward pass.
    """
    if inputs != node.inputs or any(x.rank != 2 for x in inputs):
        return None
    for k, x in enumerate(inputs):
        factors = _factors(x, context)
        if factors is None or not _is_cheaper(x, context):
            continue
        p, q = factors
        if k == 0:
            return (ops.matmul(p, ops.matmul(q, inputs[1])),)
        return (ops.matmul(ops.matmul(inputs[0], p), q),)
    return None


def _factors(x: Variable, context: Context) -> tuple[Variable, Variable] | None:
    """Return matrices whose product is x, which may be transposed, else None."""
    if is_output_of(x, "MatMul"):
        p, q = x.node.inputs
        return (p, q) if p.rank == q.rank == 2 else None
    if not _is_transposed(x) or context.uses[x.node.inputs[0]] != 1:
        return None
    factors = _factors(x.node.inputs[0], context)
    if factors is None:
        return None
    p, q = map(_transposed, factors)
    return q, p


def _is_transposed(x):
    return x.rank == 2 and is_matrix_transposed(x)


def _transposed(x):
    return x.node.inputs[0] if _is_transposed(x) else ops.transpose(x, [1, 0])


def _is_cheaper(x, context):
    """Check whether all readers of a product together cost less than the product."""
    readers = context.readers[x]
    if x in context.targets or len(readers) != context.uses[x]:
        return False
    rows, columns = (context.size(d) for d in x.dims)
    total = 0
    for reader in readers:
        if reader.op_type != "MatMul" or reader.inputs[0] is reader.inputs[1]:
            return False
        first = reader.inputs[0] is x
        other = reader.inputs[1] if first else reader.inputs[0]
        width = context.size(other.dims[1 if first else 0]) if other.rank == 2 else None
        if None in (rows, columns, width) or _factors(other, context) is not None:
            return False
        total += width * (rows + columns)
    return total < rows * columns
