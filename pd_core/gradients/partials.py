"""The gradients that one node passes on to its inputs, by its rule."""

from collections.abc import Container, Sequence

from ..graph.checks import differ
from ..graph.errors import GraphError, NoGradient
from ..graph.node import Node, refined
from ..graph.site import site_text
from ..graph.variable import Variable
from .registry import rule_of


def partials(
    node: Node, dys: Sequence[Variable | None], wanted: Container[Variable]
) -> list[Variable | None]:
    """Return the gradients of a node's inputs from those of its outputs; None for no gradient.

    Only inputs that are `wanted` have any. NoGradient names the node and its line.
    """
    if all(dy is None for dy in dys):
        return [None] * len(node.inputs)
    try:
        pairs = zip(node.inputs, rule_of(node)(node, *dys), strict=True)
        made = [None if x not in wanted else g() if callable(g) else g for x, g in pairs]
    except NoGradient as error:
        if "\n" in str(error):  # it names a node in the body of this one already
            raise
        where = f"\n  node   built at {site_text(node.site)}"
        raise NoGradient(f"{node.op_type}: {error}{where}") from None
    return [
        None if g is None else _shaped(g, x, node) for x, g in zip(node.inputs, made, strict=True)
    ]


def _shaped(g: Variable, x: Variable, node: Node) -> Variable:
    """Give a gradient the sizes of its variable, also where inference lost them."""
    if differ(g, x):
        raise GraphError(f"the rule of {node.op_type} gave {g!r} for {x!r}")
    if g.dims != x.dims and g.node is not None:
        return refined(g, x.dims)
    return g
