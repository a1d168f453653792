"""Values of all processes that train together, in the middle of a graph."""

import numpy as np

from ..graph.errors import DTypeError
from ..graph.node import composite
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant

_synchronized: list[bool] = []


@op
def sum_over_ranks(x: Operand) -> Variable:
    """Return the sum of floats x over the ranks of `pd.distributed`, the same on all of them.

    The program pauses there, and all ranks must come to the same place. Its gradient sums up the
    gradients of all ranks, with the weights that they have in the mean where that is not of equal
    ones, see `distributed.set_batch_size`. On one process, and in exported models, it is x.

    Args:
        x: float32 or float64 of any shape.

    Returns:
        Of the shape and dtype of x.

    Raises:
        DTypeError: x has another dtype.
    """
    x = constant(x)
    if x.dtype not in (np.float32, np.float64):
        raise DTypeError(f"sum_over_ranks: takes float32 or float64, not {x!r}")
    return composite("SumOverRanks", x, types=[(x.dims, x.dtype)])


def weighted_sum_over_ranks(x: Variable) -> Variable:
    """Return the sum of derivatives x over the ranks, each with the weight of its gradients.

    It is divided by the weight of this rank: what is computed of it is a part of this rank's
    gradients, which will be multiplied by that. With equal weights it is `sum_over_ranks`.
    """
    return composite("SumOverRanks", x, types=[(x.dims, x.dtype)], weighted=True)


def synchronize_batch_norm(on: bool) -> None:
    """Let batch normalizations that are built from now on use the statistics of all ranks."""
    _synchronized[:] = [True] if on else []


def batch_norm_is_synchronized() -> bool:
    """Return whether batch normalizations use the statistics of all ranks."""
    return bool(_synchronized)
