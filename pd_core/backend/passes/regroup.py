"""Sums and products in a loop regrouped, so that what depends on no state stands together.

(r + p) + q becomes r + (p + q) where only r belongs to the recurrence: then p + q can be computed
before the loop, for all steps at once. The same for products.
"""

from collections import Counter

from ...graph.node import ancestors, apply, rebuilt, refined
from ...graph.rewrite import rewrite

_ASSOCIATIVE = ("Add", "Mul")


def regroup(outputs, states, inputs):
    """The outputs of a loop's body, with its sums and products regrouped around the states."""
    bound = set(states)
    uses = Counter(outputs)
    for node in ancestors(outputs, stop=set(inputs)):
        uses.update(x for x in node.inputs if x is not None)
        if not bound.isdisjoint(node.inputs):
            bound.update(node.outputs)

    def rule(node, inputs):
        made = _regrouped(node, inputs, bound, uses)
        if made is not None:
            made = (made,)
        elif inputs != node.inputs and not node.blocks:
            made = rebuilt(node, inputs).outputs
        for old, new in zip(node.outputs, made or (), strict=False):
            uses[new] = uses[old]
            if old in bound:
                bound.add(new)
        return made

    return rewrite(outputs, rule, set(inputs))


def _regrouped(node, inputs, bound, uses):
    """r op (p op q) for (r op p) op q, or None where the node is not of that form."""
    inner, q = _parted(node.op_type, inputs, bound)
    if inner is None or uses[inner] > 1 or inner.node is None:
        return None
    if inner.node.op_type != node.op_type:
        return None
    r, p = _parted(node.op_type, inner.node.inputs, bound)
    if r is None or not _of_size(r, node.outputs[0].dims):
        return None
    made = apply(node.op_type, r, apply(node.op_type, p, q))
    made = refined(made, node.outputs[0].dims)
    return made


def _of_size(x, dims):
    """Whether x is not stretched to reach these sizes; names of sizes that meet are equal."""
    return x.rank == len(dims) and all(d != 1 or e == 1 for d, e in zip(x.dims, dims, strict=True))


def _parted(op_type, inputs, bound):
    """(the operand of the recurrence, the other), or (None, None)."""
    if op_type not in _ASSOCIATIVE:
        return None, None
    a, b = inputs
    if (a in bound) == (b in bound):
        return None, None
    return (a, b) if a in bound else (b, a)
