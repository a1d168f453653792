"""Exchange of gradients between the backward pass and the update."""

from collections.abc import Callable, Sequence

import numpy as np

from ..graph.errors import FeedError
from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import feed_array

# {parameter: gradient}; (rows, values) where the parameter is row-sparse
Gradients = dict[Variable, np.ndarray | tuple[np.ndarray, np.ndarray]]


class Exchange:
    """Adapter of a user's function on {parameter: gradient} to the list of arrays of a step.

    `seam` are the Variables of the gradients, in the order of the arrays.
    """

    def __init__(self, function: Callable[[Gradients], Gradients], updates: Sequence[Update]):
        self.function = function
        pairs = [(w, g) for update in updates for w, g in update.gradients if w.trainable]
        self.gradients: dict[Variable, Variable | tuple[Variable, ...]] = {}
        for w, g in pairs:
            if self.gradients.setdefault(w, g) is not g:
                raise FeedError(f"exchanging: two gradients of {w!r} in one step")
        self.seam = [v for g in self.gradients.values() for v in _as_tuple(g)]

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        remaining = iter(arrays)
        gradients = {w: _restructure(g, remaining) for w, g in self.gradients.items()}
        returned = self.function(gradients)
        if set(returned) != set(gradients):
            raise FeedError("exchanging: the function must return the gradients that it takes")
        exchanged = []
        for w, g in self.gradients.items():
            values = returned[w] if isinstance(g, tuple) else [returned[w]]
            exchanged += [feed_array(v, a) for v, a in zip(_as_tuple(g), values, strict=True)]
        return exchanged


def _as_tuple(gradient):
    return gradient if isinstance(gradient, tuple) else (gradient,)


def _restructure(gradient, arrays):
    """The next array, or a tuple of the next ones where the gradient is a tuple of Variables."""
    if not isinstance(gradient, tuple):
        return next(arrays)
    return tuple([next(arrays) for _ in gradient])
