"""The verdicts on operators: a rule, a zero derivative, or undefined with the reason.

A rule is fn(node, *output gradients) -> one entry per input: a Variable, None for no gradient,
or a function without arguments that builds it, called only where it is wanted.
"""

import numpy as np

from .. import ops
from ..graph.errors import NoGradient
from ..graph.node import apply
from ..graph.variable import is_open

gradient_rules = {}
zeros = set()
reasons = {}


def gradient(*op_types):
    """Register a rule for these operators."""

    def register(rule):
        gradient_rules.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def elementwise(op_type, *partials):
    """A rule from one partial(inputs..., y, dy) per input; stretched axes are summed away."""

    def rule(node, dy):
        y = node.outputs[0]
        return [
            None if p is None else lambda p=p, x=x: unbroadcast(p(*node.inputs, y, dy), x)
            for p, x in zip(partials, node.inputs, strict=True)
        ]

    gradient_rules[op_type] = rule


def zero(*op_types):
    """Operators whose derivative is zero wherever it exists: a gradient stops there."""
    zeros.update(op_types)


def undefined(reason, *op_types):
    """Operators that have no gradient here, and why."""
    reasons.update(dict.fromkeys(op_types, reason))


def rule_of(node):
    """The rule for a node; NoGradient where there is none."""
    if node.op_type not in gradient_rules:
        raise NoGradient(reasons.get(node.op_type, "it has no gradient rule"))
    return gradient_rules[node.op_type]


def unbroadcast(g, x):
    """Sum g over the axes along which x was stretched to g's shape."""
    lead = g.rank - x.rank
    pairs = list(zip(x.dims, g.dims[lead:], strict=True))
    if any(is_open(d) and d != e for d, e in pairs):
        return unbroadcast_late(g, x)
    stretched = [lead + i for i, (d, e) in enumerate(pairs) if d == 1 and e != 1]
    if lead == 0 and stretched:
        return ops.reduce_sum(g, stretched, keep_dim=True)
    if not lead:
        return g
    return ops.reshape_like(ops.reduce_sum(g, [*range(lead), *stretched]), x)


def unbroadcast_late(g, x):
    """The same where only the sizes at run time say along which axes."""
    lead = g.rank - x.rank
    ones = ops.reshape(ops.nonzero(ops.equal(ops.shape_of(x), 1)), [-1])
    axes = ops.concat([np.arange(lead), ones + lead])
    return ops.reshape_like(apply("ReduceSum", g, axes, noop_with_empty_axes=1, known=g.dims), x)


def again(node, *inputs, op_type=None, outputs=1, **attributes):
    """The operator of a node, or one like it, on other inputs and with some other attributes."""
    return apply(
        op_type or node.op_type,
        *inputs,
        outputs=outputs,
        opset=node.opset,
        **{**node.attributes, **attributes},
    )
