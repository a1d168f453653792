"""What a backend is: it turns a Graph into an Executable and owns the values on a device."""

from collections.abc import Callable, Sequence
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
    seed, how often it was drawn from, and the key of the stream unless it is a constant). `sizes`
    are run-time sizes seen so far, a hint for the choice of lowerings, never a promise. `equal` are
    pairs of sizes that are taken to be equal.
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
    """A program on the values of certain variables."""

    def run(
        self,
        feeds: list[np.ndarray],
        values: "Values",
        seed: np.ndarray | None = None,
        exchange: Callable[[list], list] | None = None,
    ) -> list[np.ndarray]:
        """Fetches for these feeds; new values of the updated variables are stored in `values`."""


class Program(Protocol):
    """A compiled Graph, for any variables of the types of its own."""

    def bind(self, states: Sequence[Variable], updated: Sequence[Variable]) -> Executable: ...


class Values(Protocol):
    """The device values of persistent variables, one set per session."""

    def __contains__(self, variable: Variable) -> bool: ...

    def variables(self) -> list[Variable]: ...

    def set(self, variable: Variable, array: np.ndarray, copy: bool = True): ...

    def numpy(self, variable: Variable) -> np.ndarray: ...

    def before(self, variable: Variable) -> np.ndarray | None: ...


class Backend(Protocol):
    """A runtime on a device."""

    def compile(self, graph: Graph, seam: Sequence[Variable] = ()) -> Program: ...

    def values(self) -> Values: ...
