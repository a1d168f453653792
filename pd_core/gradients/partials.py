"""The gradients that one node passes on to its inputs, by its rule."""

from collections.abc import Container, Sequence
from contextvars import ContextVar

from ..graph.checks import differ
from ..graph.errors import GraphError, NoGradient
from ..graph.node import Node, refined, serials, with_dims
from ..graph.site import site_text
from ..graph.variable import Variable
from .registry import rule_of

# What is read by the bodies and segments that are differentiated, and needs no gradient.
_unwanted: ContextVar[frozenset[Variable]] = ContextVar("pd_core.unwanted", default=frozenset())


def is_unwanted(x: Variable) -> bool:
    """Return whether a body or segment that is differentiated reads x, which needs no gradient."""
    return x in _unwanted.get()


def partials(
    node: Node, dys: Sequence[Variable | None], wanted: Container[Variable]
) -> list[Variable | None]:
    """Return the gradients of a node's inputs from those of its outputs; None for no gradient.

    Only inputs that are `wanted` have any. NoGradient names the node and its line.
    """
    if all(dy is None for dy in dys):
        return [None] * len(node.inputs)
    is_whole = not node.blocks and node.op_type != "Recompute"  # no graph of its own
    token = None if is_whole else _unwanted.set(_unwanted_within(node, wanted))
    first = next(serials)  # what has a node before that, such as one of dys, is not of this rule
    try:
        pairs = zip(node.inputs, rule_of(node)(node, *dys), strict=True)
        made = [None if x not in wanted else g() if callable(g) else g for x, g in pairs]
    except NoGradient as error:
        if "\n" in str(error):  # it names a node in the body of this one already
            raise
        where = f"\n  node   built at {site_text(node.site)}"
        raise NoGradient(f"{node.op_type}: {error}{where}") from None
    finally:
        if token is not None:
            _unwanted.reset(token)
    return [
        None if g is None else _shaped(g, x, node, first)
        for x, g in zip(node.inputs, made, strict=True)
    ]


def _unwanted_within(node: Node, wanted: Container[Variable]) -> frozenset[Variable]:
    """The inputs of a node without gradients, and the block inputs that have their values."""
    outer = _unwanted.get()
    needless = {x for x in node.inputs if x is not None and (x not in wanted or x in outer)}
    pairs = [p for b in node.blocks.values() for p in zip(b.captured, node.captures, strict=True)]
    if node.op_type == "Scan":
        slices = node.attributes["num_scan_inputs"]
        end = len(node.inputs) - len(node.captures)
        sliced = node.blocks["body"].block_inputs[-slices:]
        pairs += zip(sliced, node.inputs[end - slices : end], strict=True)
    return outer.union(needless, (v for v, x in pairs if x in needless))


def _shaped(g: Variable, x: Variable, node: Node, first: int) -> Variable:
    """Give a gradient the sizes of its variable, also where inference lost them.

    `first` is the number before those of the nodes that the rule has built.
    """
    if differ(g, x):
        raise GraphError(f"the rule of {node.op_type} gave {g!r} for {x!r}")
    if g.dims != x.dims and g.node is not None:
        return (refined if g.node.serial > first else with_dims)(g, x.dims)
    return g
