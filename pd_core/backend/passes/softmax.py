"""The gradient of a softmax, also of one whose rows are the weights of a sum, as in attention."""

from ... import ops
from ...graph.node import Node
from ...graph.rewrite import is_matrix_transposed, is_output_of
from ...graph.variable import Inputs
from .context import Context, Outputs


def softmax_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """y (dy - sum(dy y))."""
    y, dy = inputs
    return (y * (dy - ops.reduce_sum(dy * y, node.attributes["axis"], keep_dim=True)),)


def softmax_grad_of_weights(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Y (dY - sum(dZ Z)) where Z = Y V is a product, and dY = dZ Vᵀ: sum(dY Y) of fewer numbers.

    By Dao et al. (2022), FlashAttention, section 3.1 of the backward pass.
    """
    y, dy = inputs
    if y is not node.inputs[0] or node.attributes["axis"] % y.rank != y.rank - 1:
        return None
    if not is_output_of(dy, "MatMul") or not is_matrix_transposed(dy.node.inputs[1]):
        return None
    dz, v = dy.node.inputs[0], dy.node.inputs[1].node.inputs[0]
    width, count = context.size(v.dims[-1]), context.size(y.dims[-1])
    if width is None or count is None or width >= count:
        return None
    for reader in context.readers[y]:
        if reader.op_type == "MatMul" and reader.inputs[0] is y and reader.inputs[1] is v:
            return (y * (dy - ops.reduce_sum(dz * reader.outputs[0], -1, keep_dim=True)),)
    return None
