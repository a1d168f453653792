"""Programs: what runs an evaluation."""

from collections.abc import Container, Mapping, Sequence, Set
from typing import Any
from weakref import ref

import numpy as np

from ..backend.base import SeamExchange
from ..graph.variable import Variable
from .draws import initial_value
from .feeds import fed_shape
from .inputs import NO_INPUTS, Inputs
from .programs import Compiled
from .structure import Structure
from .values import Values


class Program:
    """A compiled graph, bound to the variables that it runs on, and what else is stored after it.

    Holds neither targets nor nodes, and variables weakly, so that a graph without other references
    is freed. `changes` are the new values of variables; those that are constants no graph computes.
    `is_new` if it was made for these very targets; errors name their lines if it `has_lines`. The
    `inputs` are empty where whoever runs it knows the order of its feeds. Of variables `kept` the
    values before a run are, but for tables whose rows it writes; of those `written` they are not.
    """

    def __init__(
        self,
        compiled: Compiled,
        structure: Structure,
        changes: Mapping[Variable, Variable | None],
        is_new: bool,
        inputs: Inputs = NO_INPUTS,
        kept: Container[Variable] = (),
    ):
        leaves = structure.leaves
        states = [leaves[k] for k in compiled.states]
        updated = [leaves[k] for k in compiled.updated]
        self.compiled, self.is_new, self.operators = compiled, is_new, compiled.operators
        self.has_lines = is_new and not compiled.is_resized
        # references to Variables, which the targets keep alive
        self.states: list[Any] = [ref(v) for v in states]
        self.updated: list[Any] = [ref(v) for v in updated]
        self.constants: list[tuple[Any, np.ndarray]] = [
            (ref(v), new.value)
            for v, new in changes.items()
            if new is not None and new.value is not None
        ]
        self.redrawn: list[Any] = [ref(v) for v, new in changes.items() if new is None]
        self.draws: list[Any] = [structure.draws[k] for k in compiled.draws]
        graph = compiled.graph
        self.executable = None if graph is None else graph.bind(states, updated, kept)
        written = () if self.executable is None else self.executable.written
        self.written: Set[Any] = frozenset([self.updated[k] for k in written])
        self.inputs = inputs
        self._covered: set[tuple] = set()  # shapes of feeds that it is right for
        self.started: object = None  # the `Values.epoch` in which all states had a value
        # whether a setting has changed that is a constant of the program
        self.is_outdated = False
        for v in structure.constants:
            v.storage.setting.steps.add(self)
            self.is_outdated = self.is_outdated or not v.storage.setting.is_constant

    @property
    def repeats(self) -> bool:
        """Whether it is the same with the next feeds: nothing else is read or stored."""
        only = not (self.constants or self.redrawn or self.inputs.held)
        return self.executable is not None and only

    def covers(self, arrays: Sequence[Any]) -> bool:
        """Return whether it is right for feeds of these sizes, see `Compiled.covers`."""
        if not self.compiled.lengths:
            return True
        shapes = tuple([a.shape if type(a) is np.ndarray else fed_shape(a) for a in arrays])
        if shapes not in self._covered:
            if not self.compiled.covers(shapes):
                return False
            self._covered.add(shapes)
        return True

    def takes(self, fed: Mapping[Variable, np.ndarray]) -> bool:
        """Return whether it is right for feeds of these sizes."""
        if not self.compiled.lengths:
            return True
        held = self.inputs.held
        return self.covers([fed[v] if v in fed else held[v] for v in self.inputs.fed])

    def run(
        self,
        values: Values,
        arrays: list[Any],
        draws: Sequence[Any] | None = None,
        exchange: SeamExchange | None = None,
        keep: bool = False,
        steps: int = 0,
    ) -> list[Any]:
        """Return the fetches for feeds in the order of the program; store the new values.

        `draws` are the streams of random numbers, by default its own. `exchange` replaces the
        values at its seam. With `keep` the fetches stay on the device. `steps` is how many it
        takes, if it takes several at once.
        """
        if self.started is not values.epoch:
            values.start(self)
        streams = self.draws if draws is None else draws
        rows = values.draw_rows(streams, steps) if streams else None
        drawn = self.redrawn and [
            (v(), initial_value(values.seed, v(), v().initial)) for v in self.redrawn
        ]
        if self.updated:
            values.version += 1
        results: list[Any] = []
        if self.executable is not None:
            results = self.executable.run(arrays, values.arrays, rows, exchange, keep)
        for stream in streams:
            if isinstance(stream, int):
                values.draws[stream] += steps or 1
        counts = values.counts
        counts["evaluations"] += 1
        counts["operators"] += self.operators * (steps or 1)
        counts["fed"] += len(arrays)
        counts["fetched"] += len(results)
        for reference, array in self.constants:
            values.store(reference(), array)
        for v, array in drawn:
            values.store(v, array)
        return results

    def peek(self, values: Values, fed: Mapping[Variable, np.ndarray]) -> list[Any]:
        """Return the fetches for feeds; neither an evaluation nor a random number counts."""
        with values.uncounted():
            return self.run(values, self.inputs.arrays(fed))
