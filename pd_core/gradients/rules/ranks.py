"""Derivatives of sums over the ranks of a job."""

from ... import ops
from ...graph.node import Node
from ...graph.variable import Variable
from ...ops.ranks import weighted_sum_over_ranks
from ..registry import Gradients, gradient


@gradient("SumOverRanks")
def sum_over_ranks(node: Node, dy: Variable) -> Gradients:
    """Sum up the gradients of all ranks: each has a part in what the others compute.

    What is differentiated is sum_r w_r cost_r. Of y_r = sum_q x_q the derivative by x_q is
    sum_r w_r dy_r, which rank q divides by w_q; that of y_r = sum_q w_q x_q / w_r is sum_r dy_r.
    """
    is_weighted = node.attributes.get("weighted")
    return [ops.sum_over_ranks(dy) if is_weighted else weighted_sum_over_ranks(dy)]
