"""Products of stacks of matrices with a transposed factor, in the order that is faster."""

from ... import ops
from ...graph.node import Node
from ...graph.rewrite import is_matrix_transposed, is_output_of, permutation
from ...graph.variable import Inputs
from .context import Context, Outputs


def exchange_factors(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute a transposition of aᵀ b as one of bᵀ a, where b has the fewer columns.

    ONNX Runtime copies the factor that is transposed. Such are the gradients of the values in
    attention, where a has a column for each key, and b one for each number of a value.
    """
    (x,) = inputs
    if not is_output_of(x, "MatMul") or context.uses[node.inputs[0]] != 1:
        return None
    transposed, b = x.node.inputs
    if not 3 <= x.rank == transposed.rank == b.rank or not is_matrix_transposed(transposed):
        return None
    rows, columns = context.size(x.dims[-2]), context.size(x.dims[-1])
    if rows is None or columns is None or columns >= rows:
        return None
    y = ops.matmul(ops.matrix_transpose(b), transposed.node.inputs[0])
    exchanged = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return (ops.transpose(y, [exchanged[k] for k in permutation(node)]),)
