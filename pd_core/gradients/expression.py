"""Derivatives of operators that are written in other operators.

Such an operator is expressed with op functions, and the expression is differentiated in its place:
second derivatives follow, and what the backward pass needs of the forward one is computed by it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..graph.arrays import is_float
from ..graph.node import Node
from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .engine import gradients
from .registry import Gradients, claim, describe_function, expressions, gradient_rules

_Function = TypeVar("_Function", bound=Callable)


def expression(*op_types: str, replace: bool = False) -> Callable[[_Function], _Function]:
    """Register fn(attributes, *inputs) -> outputs as what these operators compute.

    The inputs are those of the node, None where an optional one is left out, and may be fewer
    than the operator takes; the outputs are all that it can have, in its order, or the only one.
    ValueError if an operator has a derivative, unless `replace`.
    """

    def register(express: _Function) -> _Function:
        claim(op_types, describe_function(express), replace)
        expressions.update(dict.fromkeys(op_types, express))
        gradient_rules.update(dict.fromkeys(op_types, _rule))
        return express

    return register


def expressed(node: Node) -> tuple[Variable, ...]:
    """Compute all outputs that the operator of a node can have, with other operators."""
    return _outputs(node, node.inputs)


def _outputs(node: Node, inputs: Sequence[Variable]) -> Any:
    outputs = expressions[node.op_type](node.attributes, *inputs)
    return (outputs,) if isinstance(outputs, Variable) else tuple(outputs)


def _rule(node: Node, *dys: Variable | None) -> Gradients:
    """Differentiate the expression on placeholders: an input may depend on another one."""
    placeholders = [_placeholder(x) for x in node.inputs]
    pairs = zip(_outputs(node, placeholders), dys, strict=False)  # the last outputs may be left out
    outputs, seeds = zip(*((y, dy) for y, dy in pairs if dy is not None), strict=True)
    floats = [v for v in placeholders if v is not None and is_float(v.dtype)]
    partials = gradients(outputs, floats, seeds)
    actual = {v: x for v, x in zip(placeholders, node.inputs, strict=True) if v is not x}
    present = [g for g in partials if g is not None]
    substituted = iter(substitute(present, actual, stop={*actual, *seeds}))
    by_placeholder = {
        v: None if g is None else next(substituted) for v, g in zip(floats, partials, strict=True)
    }
    return [by_placeholder.get(v) for v in placeholders]


def _placeholder(x: Variable) -> Variable:
    """Return a new Variable of x's type if x is a float; sizes and other integers as they are."""
    if x is None or not is_float(x.dtype):
        return x
    return Variable.of(x.dims, x.dtype, x.name)
