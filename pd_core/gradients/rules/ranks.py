"""Derivatives of sums over the ranks of a job."""

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable
from ..registry import Gradients, gradient


@gradient("SumOverRanks")
def sum_over_ranks(node: Node, dy: Variable) -> Gradients:
    """Sum up the gradients of all ranks: each has a part in what the others compute."""
    return [ops.sum_over_ranks(dy)]
