"""Operators that only the backward pass tells from their first input."""

from collections.abc import Sequence

from ...graph.node import Node
from ...graph.rewrite import rewrite
from ...graph.variable import Variable, is_open

FORWARD_IDENTITY = frozenset(
    {"Identity", "StopGradient", "StraightThrough", "GammaDraw", "ClipGradient", "ScaleGradient"}
)


def without_identities(targets: Sequence[Variable]) -> list[Variable]:
    """Return the targets with the first input in the place of each of these operators."""

    def first(node, inputs):
        return None if opens_sizes(node) else inputs[:1]

    return rewrite(targets, first, only=FORWARD_IDENTITY)


def opens_sizes(node: Node) -> bool:
    """Return whether an output may have sizes of 1 that the input is said not to have."""
    pairs = zip(node.inputs[0].dims, node.outputs[0].dims, strict=False)
    return node.op_type == "Identity" and any(is_open(e) and d != e for d, e in pairs)
