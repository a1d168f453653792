"""The interfaces of a backend, which compiles Graphs and holds values on a device."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np

from ..graph.node import ancestors
from ..graph.variable import Dim, Variable

# A number and sizes, whose product a program takes to be at most so much.
Length = tuple[int, tuple[str, ...], int]


@dataclass(frozen=True)
class Graph:
    """A graph to compile: its feeds, states, fetches and updates.

    `feeds` are the inputs of the program for the variables `fed`. `states` are persistent
    variables, inputs too; `updates` are pairs of (persistent variable, its new value). `seed` is
    the int64 input of a program that draws random numbers, with a row for each stream in `draws`:
    session seed, number of draws so far, and the key of the stream unless it is a constant. `sizes`
    are run-time sizes seen so far: hints for the choice of lowerings, never guarantees. `equal` are
    pairs of sizes that must be equal at run time. `prepared` tells that the operators are those of
    a device already, which are for `lengths` that hold by the hints.
    """

    fed: tuple[Variable, ...]
    feeds: tuple[Variable, ...]
    states: tuple[Variable, ...]
    fetches: tuple[Variable, ...]
    updates: tuple[tuple[Variable, Variable], ...] = ()
    seed: Variable | None = None
    draws: tuple[int, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    equal: tuple[tuple[Dim, Dim], ...] = ()
    prepared: bool = False
    lengths: tuple[Length, ...] = ()

    @property
    def outputs(self) -> tuple[Variable, ...]:
        """Fetches, then new values."""
        return (*self.fetches, *(new for _, new in self.updates))

    @property
    def inputs(self) -> tuple[Variable, ...]:
        """Feeds, then stored values, then the seed."""
        return (*self.feeds, *self.states, *([self.seed] if self.seed is not None else []))

    @cached_property
    def bytes(self) -> int:
        """The size of all values that the operators compute, with the sizes seen so far."""
        results = (y for node in ancestors(self.outputs) for y in node.outputs)
        return sum(_bytes(y, self.sizes) for y in results)


def _bytes(v, sizes):
    dims = v.symbolic_dims
    return prod(d if isinstance(d, int) else sizes.get(d, 1) for d in dims) * v.dtype.itemsize


@dataclass(frozen=True)
class Seam:
    """Values after which a step pauses, to exchange them.

    They are computed in so many `divisions`, one after the other, so that the first ones may be
    exchanged while the rest is computed.
    """

    values: tuple[Variable, ...] = ()
    divisions: int = 1

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


NO_SEAM = Seam()


class SeamExchange(Protocol):
    """Callbacks of a program for the values at its seam."""

    def __call__(self, arrays: list) -> list:
        """Return replacements for all values, after the last division."""

    def start(self, arrays: dict[int, Any]) -> None:
        """Take the values of a division, by their indices in the seam, before the next one runs."""

    def on_device(self, values: list, device: str) -> list | None:
        """Return replacements for all values where they are; None if it takes arrays only.

        They are OrtValues in the memory of `device`, such as cuda, and so are the replacements.
        """


class Executable(Protocol):
    """A program on the values of certain variables.

    Of its updates those `written`, by index, are written over the values before.
    """

    written: Sequence[int]

    def run(
        self,
        feeds: list[np.ndarray],
        values: "Values",
        seed: np.ndarray | None = None,
        exchange: SeamExchange | None = None,
        keep: bool = False,
    ) -> list[Any]:
        """Return the fetches for these feeds, and store the new values of variables in `values`.

        `exchange` replaces the values at the seam of the program. With
        `keep` the fetches stay on the device: arrays, or what may be fed like them and has a method
        `numpy()`.
        """


class Program(Protocol):
    """A compiled Graph, for its own variables or others of the same types.

    It is right for feeds with sizes that its `lengths` hold for.
    """

    lengths: list[Length]

    def bind(
        self,
        states: Sequence[Variable],
        updated: Sequence[Variable],
        kept: Container[Variable] = (),
    ) -> Executable:
        """Return an executable on these variables, in the order of the graph's states, updates.

        Of those `kept` the values before a run are, where only whole ones are written.
        """


class Values(Protocol):
    """The device values of persistent variables, one set per session."""

    def __contains__(self, variable: Variable) -> bool: ...

    def variables(self) -> list[Variable]:
        """Return the variables that have a value."""

    def set(self, variable: Variable, array: np.ndarray, copy: bool = True) -> None:
        """Store an array of the variable's shape and dtype; without a copy it may be the value."""

    def numpy(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value on the host."""

    def view(self, variable: Variable) -> np.ndarray:
        """Return the value to be read until the next step, without a copy if it is on the host."""

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return a copy of the value before the last step that wrote it; None if it is not kept."""

    def release(self, variable: Variable) -> Any:
        """Return the value before the last step, which no later step may write to."""

    def kept(self, variable: Variable) -> Any:
        """Return what is stored of a variable, for `put_back` once `set` has replaced it."""

    def put_back(self, variable: Variable, kept: Any) -> None:
        """Store again what `kept` returned; None for no value."""


class Backend(Protocol):
    """A runtime on a device.

    `layouts` are passes on the graph before its composites become ONNX operators, `kernels` the
    forms (`passes/forms.py`) that inference programs use.
    """

    device: str
    layouts: tuple[Any, ...]
    kernels: Mapping[str, Any]

    def prepared(self, graph: Graph) -> Graph:
        """Return the same program with the operators that are fast on the device."""

    def compile(self, graph: Graph, seam: Seam = NO_SEAM) -> Program:
        """Compile a graph; `seam` are values of it that may be exchanged while it runs."""

    def values(self) -> Values:
        """Return an empty set of values on the device."""

    def sites(
        self, graph: Graph, seam: Seam = NO_SEAM
    ) -> list[list[tuple[str, tuple[str, int] | None]]]:
        """Return (name, line that built it) of each operator of each stage, in program order."""
