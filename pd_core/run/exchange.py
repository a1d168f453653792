"""Gradients on their way from the backward pass to the update."""

from collections.abc import Callable, Sequence

import numpy as np

from ..graph.errors import FeedError
from ..graph.update import Update
from .feeds import feed_array


class Exchange:
    """A user's function of {parameter: gradient}, as one of the arrays of a step.

    `seam` are the Variables of the gradients, in the order of the arrays.
    """

    def __init__(self, function: Callable[[dict], dict], updates: Sequence[Update]):
        self.function = function
        pairs = [(w, g) for update in updates for w, g in update.gradients if w.trainable]
        self.gradients = {}
        for w, g in pairs:
            if self.gradients.setdefault(w, g) is not g:
                raise FeedError(f"exchanging: two gradients of {w!r} in one step")
        self.seam = [v for g in self.gradients.values() for v in _listed(g)]

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        rest = iter(arrays)
        given = {w: _like(g, rest) for w, g in self.gradients.items()}
        returned = self.function(given)
        if set(returned) != set(given):
            raise FeedError("exchanging: the function returns the gradients that it was given")
        exchanged = []
        for w, g in self.gradients.items():
            values = returned[w] if isinstance(g, tuple) else [returned[w]]
            exchanged += [feed_array(v, a) for v, a in zip(_listed(g), values, strict=True)]
        return exchanged


def _listed(gradient):
    return gradient if isinstance(gradient, tuple) else (gradient,)


def _like(gradient, arrays):
    """One array, or a tuple of as many as the gradient has Variables."""
    if not isinstance(gradient, tuple):
        return next(arrays)
    return tuple([next(arrays) for _ in gradient])
