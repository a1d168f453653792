"""The derivative of each operator: a gradient rule, zero, or undefined with the reason.

A rule is fn(node, *output gradients) -> one entry per input: a Variable, None for no gradient,
or a function without arguments that builds it, called only if that gradient is needed.

An operator has one of them. A second registration is a ValueError that names the operator and both
functions; `replace=True` puts the new one in the place of the former one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np

from .. import ops
from ..graph.errors import NoGradient
from ..graph.formulas import formulas
from ..graph.node import Node, apply
from ..graph.site import is_internal
from ..graph.variable import Operand, Variable, is_open

Gradients = Sequence[Variable | Callable[..., Variable | None] | None]  # what a rule returns
Rule = Callable[..., Gradients]
Attributes = Mapping[str, Any]  # of a node, by name
_Function = TypeVar("_Function", bound=Callable)

gradient_rules: dict[str, Rule] = {}
expressions = formulas  # see `expression`; each has a rule too
zeros: set[str] = set()  # operators with a zero derivative
reasons: dict[str, str] = {}  # by operator: why it has no gradient

# Operators whose integers stand for floats: a gradient that comes to these is an error, no zero.
QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear")
ROUNDED = "it rounds to integers; gradients pass it to a DequantizeLinear of the same scale alone"


def gradient(*op_types: str, replace: bool = False) -> Callable[[_Function], _Function]:
    """Register a rule for these operators; ValueError if one has a derivative, unless `replace`."""

    def register(rule: _Function) -> _Function:
        claim(op_types, describe_function(rule), replace)
        gradient_rules.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def elementwise(
    op_type: str, *partials: Callable[..., Variable] | None, replace: bool = False
) -> None:
    """Register one partial(inputs..., y, dy) per input; broadcast axes are summed away.

    A partial is None where an input has no gradient. ValueError if it has a derivative,
    unless `replace`.
    """

    def rule(node: Node, dy: Variable) -> Gradients:
        y = node.outputs[0]
        return [
            None if p is None else lambda p=p, x=x: unbroadcast(p(*node.inputs, y, dy), x)
            for p, x in zip(partials, node.inputs, strict=True)
        ]

    rule.partials = partials  # type: ignore[attr-defined]  # for describe_function
    claim([op_type], describe_function(rule), replace)
    gradient_rules[op_type] = rule


def zero(*op_types: str, replace: bool = False) -> None:
    """Register operators whose derivative is zero wherever it exists: backpropagation stops there.

    ValueError if one has a derivative, unless `replace`.
    """
    claim(op_types, "a zero derivative", replace)
    zeros.update(op_types)


def undefined(reason: str, *op_types: str, replace: bool = False) -> None:
    """Register operators without a gradient; `reason` is the text of the NoGradient error.

    ValueError if one has a derivative, unless `replace`.
    """
    claim(op_types, f"no gradient ({reason})", replace)
    reasons.update(dict.fromkeys(op_types, reason))


def claim(op_types: Sequence[str], derivative: str, replace: bool) -> None:
    """Clear the way for a derivative of these operators: drop the former one, or refuse.

    `derivative` describes the new one in the error.
    """
    for op_type in () if replace else op_types:
        former = _derivative(op_type)
        if former is not None:
            raise ValueError(
                f"{op_type} has {former} already, and is registered again with {derivative}\n"
                "  hint: replace=True puts the new one in its place"
            )
    for op_type in op_types:
        for table in (gradient_rules, expressions, reasons):
            table.pop(op_type, None)
        zeros.discard(op_type)


def _derivative(op_type: str) -> str | None:
    """The derivative of an operator in words, or None."""
    if op_type in expressions:
        return describe_function(expressions[op_type])
    if op_type in gradient_rules:
        return describe_function(gradient_rules[op_type])
    if op_type in zeros:
        return "a zero derivative"
    return f"no gradient ({reasons[op_type]})" if op_type in reasons else None


def describe_function(function: Callable) -> str:
    """Describe a rule, with the line of its code: `the rule clip (…/math.py:78)`."""
    first = _first_partial(function)
    name = getattr(first, "__name__", repr(first))
    code = getattr(first, "__code__", None)
    return f"the rule {name}" + (f" ({code.co_filename}:{code.co_firstlineno})" if code else "")


def _first_partial(function: Callable | None) -> Any:
    """The first partial of a rule that consists of such, else the rule."""
    return next((p for p in getattr(function, "partials", ()) if p is not None), function)


def is_ours(op_type: str) -> bool:
    """Return whether the rule of an operator is a function of our packages."""
    function = expressions.get(op_type) or gradient_rules.get(op_type)
    code = getattr(_first_partial(function), "__code__", None)
    return code is not None and is_internal[code.co_filename]


def rule_of(node: Node) -> Rule:
    """Return the rule for a node; NoGradient if there is none."""
    if node.op_type not in gradient_rules:
        raise NoGradient(reasons.get(node.op_type, "it has no gradient rule"))
    return gradient_rules[node.op_type]


def unbroadcast(g: Variable, x: Variable) -> Variable:
    """Sum g over the axes along which x was broadcast to g's shape."""
    lead = g.rank - x.rank
    pairs = list(zip(x.dims, g.dims[lead:], strict=True))
    if any(is_open(d) and d != e for d, e in pairs):
        return unbroadcast_at_runtime(g, x)
    broadcast = [lead + i for i, (d, e) in enumerate(pairs) if d == 1 and e != 1]
    if lead == 0 and broadcast:
        return ops.reduce_sum(g, broadcast, keep_dim=True)
    if not lead:
        return g
    return ops.reshape_like(ops.reduce_sum(g, [*range(lead), *broadcast]), x)


def unbroadcast_at_runtime(g: Variable, x: Variable) -> Variable:
    """`unbroadcast` for axes that are known to be broadcast only from the sizes at run time."""
    lead = g.rank - x.rank
    ones = ops.reshape(ops.nonzero(ops.equal(ops.shape_of(x), 1)), [-1])
    axes = ops.concat([np.arange(lead), ones + lead])
    return ops.reshape_like(apply("ReduceSum", g, axes, noop_with_empty_axes=1, known=g.dims), x)


@overload
def reapply(
    node: Node,
    *inputs: Operand | None,
    op_type: str | None = None,
    outputs: Literal[1] = 1,
    **attributes: Any,
) -> Variable: ...
@overload
def reapply(
    node: Node,
    *inputs: Operand | None,
    op_type: str | None = None,
    outputs: int,
    **attributes: Any,
) -> tuple[Variable, ...]: ...
def reapply(
    node: Node,
    *inputs: Operand | None,
    op_type: str | None = None,
    outputs: int = 1,
    **attributes: Any,
) -> Variable | tuple[Variable, ...]:
    """Apply the operator of a node, or `op_type`, to other inputs, with some attributes changed."""
    return apply(
        op_type or node.op_type,
        *inputs,
        outputs=outputs,
        opset=node.opset,
        **{**node.attributes, **attributes},
    )


def compared(node: Node, inputs: Sequence[Any]) -> list[Any]:
    """Return the result of a node and its inputs, as numbers of which equal ones are equal.

    Where a device has no kernels for float16, ONNX Runtime computes in float32, and rounds what is
    an output of the program alone: an element differs from a maximum that it is. So the result is
    computed from the same float32 numbers again.
    """
    if not any(x is not None and x.dtype == np.float16 for x in inputs):
        return [node.outputs[0], *inputs]
    wide = [
        ops.cast(x, np.float32) if x is not None and x.dtype == np.float16 else x for x in inputs
    ]
    dims = node.outputs[0].dims
    return [reapply(node, *wide, known=dims), *wide]
