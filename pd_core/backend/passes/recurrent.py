"""Recurrent layers with the batch in front: ONNX Runtime has kernels for steps in front only."""

from ...graph.node import apply

_BATCH_FIRST = {0: (1, 0, 2), 5: (1, 0, 2), 6: (1, 0, 2)}  # X and the initial states


def steps_first(node, inputs, sizes, seed):
    """The same layer between transpositions; None if its steps are in front already."""
    if not node.attributes.get("layout", 0):
        return None
    attributes = {k: v for k, v in node.attributes.items() if k != "layout"}
    inputs = [_turned(x, _BATCH_FIRST.get(k)) for k, x in enumerate(inputs)]
    y, *states = _listed(apply(node.op_type, *inputs, outputs=len(node.outputs), **attributes))
    return [_turned(y, (2, 0, 1, 3)), *(_turned(s, (1, 0, 2)) for s in states)]


def _turned(x, order):
    return x if x is None or order is None else apply("Transpose", x, perm=list(order))


def _listed(found):
    return found if isinstance(found, tuple) else (found,)
