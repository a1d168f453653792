"""Batch-first recurrent layers: ONNX Runtime has kernels for the time-first layout only."""

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs
from .context import Context, Outputs

_BATCH_FIRST = {0: (1, 0, 2), 5: (1, 0, 2), 6: (1, 0, 2)}  # X and the initial states


def steps_first(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Transpose around a batch-first layer; keep one that is time-first."""
    if not node.attributes.get("layout", 0):
        return None
    attributes = {k: v for k, v in node.attributes.items() if k != "layout"}
    transposed = [_transposed(x, _BATCH_FIRST.get(k)) for k, x in enumerate(inputs)]
    outputs = apply(node.op_type, *transposed, outputs=len(node.outputs), **attributes)
    y, *states = outputs if isinstance(outputs, tuple) else (outputs,)
    return [_transposed(y, (2, 0, 1, 3)), *(_transposed(s, (1, 0, 2)) for s in states)]


def _transposed(x, order):
    return x if x is None or order is None else ops.transpose(x, order)
