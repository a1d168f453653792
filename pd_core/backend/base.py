"""What a backend is: it turns a Graph into an Executable and owns the values on a device."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..graph.variable import Variable


@dataclass(frozen=True)
class Graph:
    """A program: what is fed, what is stored, what comes out, and what is stored anew.

    `feeds` are inputs of the program that stand for the variables `fed`. `states` are persistent
    variables, inputs too; `updates` pairs of (persistent variable, its new value). `seed` is the
    int64 input of a program that draws random numbers: for each stream in `draws` a row (session
    seed, how often it was drawn from). `sizes` are run-time sizes seen so far, a hint for the
    choice of lowerings, never a promise. `equal` are pairs of sizes that are taken to be equal.
    """

    fed: tuple[Variable, ...]
    feeds: tuple[Variable, ...]
    states: tuple[Variable, ...]
    fetches: tuple[Variable, ...]
    updates: tuple[tuple[Variable, Variable], ...] = ()
    seed: Variable | None = None
    draws: tuple[int, ...] = ()
    sizes: dict = field(default_factory=dict)
    equal: tuple = ()

    @property
    def outputs(self) -> tuple[Variable, ...]:
        """Fetches, then new values."""
        return (*self.fetches, *(new for _, new in self.updates))

    @property
    def inputs(self) -> tuple[Variable, ...]:
        """Feeds, then stored values, then the seed."""
        return (*self.feeds, *self.states, *([self.seed] if self.seed is not None else []))


class Executable(Protocol):
    """A compiled Graph."""

    def run(self, feeds: list[np.ndarray], values: "Values") -> list[np.ndarray]:
        """Fetches for these feeds; new values of the updated states are stored in `values`."""


class Values(Protocol):
    """The device values of persistent variables, one set per session."""

    def __contains__(self, variable: Variable) -> bool: ...

    def variables(self) -> list[Variable]: ...

    def set(self, variable: Variable, array: np.ndarray, copy: bool = True): ...

    def numpy(self, variable: Variable) -> np.ndarray: ...

    def before(self, variable: Variable) -> np.ndarray | None: ...


class Backend(Protocol):
    """A runtime on a device."""

    def compile(self, graph: Graph) -> Executable: ...

    def values(self) -> Values: ...
