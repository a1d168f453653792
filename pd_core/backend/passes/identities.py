"""Operators that only the backward pass tells from their first input."""

from collections.abc import Sequence

from ...graph.rewrite import rewrite
from ...graph.variable import Variable

FORWARD_IDENTITY = frozenset(
    {"Identity", "StopGradient", "StraightThrough", "ClipGradient", "ScaleGradient"}
)


def without_identities(targets: Sequence[Variable]) -> list[Variable]:
    """Return the targets with the first input in the place of each of these operators."""
    return rewrite(targets, lambda node, inputs: inputs[:1], only=FORWARD_IDENTITY)
