"""Derivatives of operators that are written in other operators.

Such an operator is expressed with op functions, and the expression is differentiated in its place:
second derivatives follow, and what the backward pass needs of the forward one is computed by it.
"""

from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .engine import gradients
from .registry import gradient_rules

expressions = {}


def expression(*op_types):
    """Register fn(attributes, *inputs) -> outputs as what these operators compute.

    The inputs are those of the node, None where an optional one is left out, and may be fewer
    than the operator takes; the outputs are all that it can have, in its order, or the only one.
    """

    def register(express):
        expressions.update(dict.fromkeys(op_types, express))
        gradient_rules.update(dict.fromkeys(op_types, _rule))
        return express

    return register


def expressed(node) -> tuple:
    """All outputs that the operator of a node can have, in other operators."""
    return _outputs(node, node.inputs)


def _outputs(node, inputs):
    found = expressions[node.op_type](node.attributes, *inputs)
    return (found,) if isinstance(found, Variable) else tuple(found)


def _rule(node, *dys):
    """Gradients of the expression, found on formals: an input may depend on another one."""
    formals = [_formal(x) for x in node.inputs]
    pairs = zip(_outputs(node, formals), dys, strict=False)  # the last outputs may be left out
    outputs, seeds = zip(*((y, dy) for y, dy in pairs if dy is not None), strict=True)
    floats = [v for v in formals if v is not None and v.dtype.kind == "f"]
    found = gradients(outputs, floats, seeds)
    actual = {v: x for v, x in zip(formals, node.inputs, strict=True) if v is not x}
    given = [g for g in found if g is not None]
    made = iter(substitute(given, actual, stop={*actual, *seeds}))
    partials = {v: None if g is None else next(made) for v, g in zip(floats, found, strict=True)}
    return [partials.get(v) for v in formals]


def _formal(x):
    """A stand-in for a float; sizes and the like stay what they are."""
    if x is None or x.dtype.kind != "f":
        return x
    return Variable.of(x.dims, x.dtype, x.name)
