"""The history of L-BFGS: the curvature that the last iterations have seen."""

from collections.abc import Mapping
from math import prod

import numpy as np

from ..graph.errors import GraphError
from ..graph.variable import Variable, static
from ..run.session import Session
from .tracing import state


class History:
    """Steps s and changes of the gradient y of the last iterations, [K, n] each."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self.steps, self.changes = arrays["steps"], arrays["changes"]
        self.last_direction, self.last_gradient = arrays["direction"], arrays["gradient"]
        self.iterations, self.pairs = int(arrays["iterations"]), int(arrays["pairs"])
        self.length, self.scale = float(arrays["length"]), float(arrays["scale"])

    def direction(self, g: np.ndarray) -> np.ndarray:
        """Count an iteration, take its gradient [n] into account; return the direction."""
        self.iterations += 1
        if self.iterations == 1:
            self.scale, self.pairs, direction = 1.0, 0, -g
        else:
            self._add(self.last_direction * self.length, g - self.last_gradient)
            direction = self._two_loops(g)
        self.last_direction, self.last_gradient = direction, g
        return direction

    def _add(self, s, y):
        curvature = float(y @ s)
        if curvature <= 1e-10:
            return
        if self.pairs == len(self.steps):
            self.steps, self.changes = (np.roll(a, -1, 0) for a in (self.steps, self.changes))
            self.pairs -= 1
        self.steps[self.pairs], self.changes[self.pairs] = s, y
        self.pairs += 1
        self.scale = curvature / float(y @ y)

    def _two_loops(self, g):
        """-H g for the inverse Hessian H (algorithm 7.4)."""
        pairs = list(zip(self.steps, self.changes, strict=True))[: self.pairs]
        q, factors = -g, []
        for s, y in reversed(pairs):
            factor = float(s @ q) / float(y @ s)
            q = q - y * factor
            factors.append(factor)
        q = q * self.scale
        for (s, y), factor in zip(pairs, reversed(factors), strict=True):
            q = q + s * (factor - float(y @ q) / float(y @ s))
        return q


class KeptHistory:
    """The history of an optimizer as state of sessions."""

    def __init__(self, name: str, parameters: list[Variable], history_size: int):
        self.parameters = parameters
        n = sum(size_of(w) for w in parameters)
        shapes: dict[str, tuple[int, ...]] = {
            "steps": (history_size, n),
            "changes": (history_size, n),
            "direction": (n,),
        }
        shapes |= {"gradient": (n,), "length": (), "scale": ()}
        self.variables = {k: state(f"{name}/{k}", d, "float64") for k, d in shapes.items()}
        for key in ("iterations", "pairs"):
            self.variables[key] = state(f"{name}/{key}", (), "int64")

    def check(self, parameters: list[Variable]) -> None:
        """Raise a GraphError if these are other parameters."""
        if [id(w) for w in parameters] != [id(w) for w in self.parameters]:
            old, new = ([w.name for w in ws] for ws in (self.parameters, parameters))
            raise GraphError(f"LBFGSOptimizer: the history is of {old}, not of {new}")

    def load(self, session: Session) -> History:
        """Return the history in a session."""
        return History({key: session.get(v) for key, v in self.variables.items()})

    def store(self, session: Session, history: History) -> None:
        """Store a history in a session."""
        arrays = {"steps": history.steps, "changes": history.changes}
        arrays |= {"direction": history.last_direction, "gradient": history.last_gradient}
        for key in ("length", "scale", "iterations", "pairs"):
            arrays[key] = getattr(history, key)
        for key, array in arrays.items():
            session.set(self.variables[key], array)


def size_of(w: Variable) -> int:
    """Return the number of elements of a parameter."""
    return prod(static(w.dims))
