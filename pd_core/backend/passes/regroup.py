"""Reassociation of sums and products in a loop, so that more of it can leave the loop.

(r + p) + q becomes r + (p + q) where only r belongs to the recurrence: then p + q can be computed
before the loop, for all steps at once. The same for products.
"""

from collections import Counter
from collections.abc import Sequence

from ...graph.node import ancestors, apply, rebuilt, refined
from ...graph.rewrite import rewrite
from ...graph.variable import Variable

_ASSOCIATIVE = ("Add", "Mul")


def regroup(
    outputs: Sequence[Variable], states: Sequence[Variable], inputs: Sequence[Variable]
) -> list[Variable]:
    """Return the outputs of a loop's body, with its sums and products regrouped by the states."""
    bound = set(states)
    uses = Counter(outputs)
    for node in ancestors(outputs, stop=set(inputs)):
        uses.update(x for x in node.inputs if x is not None)
        if not bound.isdisjoint(node.inputs):
            bound.update(node.outputs)

    def rule(node, inputs):
        y = _regrouped(node, inputs, bound, uses)
        if y is not None:
            replaced = (y,)
        elif inputs != node.inputs and not node.blocks:
            replaced = rebuilt(node, inputs).outputs
        else:
            return None
        for old, new in zip(node.outputs, replaced, strict=True):
            uses[new] = uses[old]
            if old in bound:
                bound.add(new)
        return replaced

    return rewrite(outputs, rule, set(inputs))


def _regrouped(node, inputs, bound, uses):
    """r op (p op q) for (r op p) op q, or None where the node is not of that form."""
    inner, q = _operands(node.op_type, inputs, bound)
    if inner is None or uses[inner] > 1 or inner.node is None:
        return None
    if inner.node.op_type != node.op_type:
        return None
    r, p = _operands(node.op_type, inner.node.inputs, bound)
    if r is None or not _has_dims(r, node.outputs[0].dims):
        return None
    made = apply(node.op_type, r, apply(node.op_type, p, q))
    made = refined(made, node.outputs[0].dims)
    return made


def _has_dims(x, dims):
    """Whether x needs no broadcasting to these sizes; sizes of different names are equal here."""
    return x.rank == len(dims) and all(d != 1 or e == 1 for d, e in zip(x.dims, dims, strict=True))


def _operands(op_type, inputs, bound):
    """(the operand that depends on a state, the other), or (None, None)."""
    if op_type not in _ASSOCIATIVE:
        return None, None
    a, b = inputs
    if (a in bound) == (b in bound):
        return None, None
    return (a, b) if a in bound else (b, a)
