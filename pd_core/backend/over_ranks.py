"""Sums of arrays over the ranks that run the same program."""

from collections.abc import Callable, Sequence

import numpy as np

SumOverRanks = Callable[[Sequence[np.ndarray], Sequence[bool]], list[np.ndarray]]

_function: list[SumOverRanks] = []


def use_sum_over_ranks(function: SumOverRanks | None) -> None:
    """Set the function that sums up arrays in the middle of programs; None: there is one rank."""
    _function[:] = [] if function is None else [function]


def sum_over_ranks(arrays: Sequence[np.ndarray], weighted: Sequence[bool]) -> list[np.ndarray]:
    """Return the sums of these arrays and those of all other ranks.

    Those `weighted` are multiplied before by the weight of a rank's gradients in the mean, and
    divided by it again.
    """
    return _function[0](arrays, weighted) if _function else list(arrays)
