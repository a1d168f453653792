"""Programs: compiled graphs, found by structure, one store for all sessions of a device."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import numpy as np

from ..backend import program
from ..backend.base import Graph
from ..graph.node import ancestors
from ..graph.variable import Variable
from .structure import Structure


class Program:
    """A compiled graph; feeds, states and sizes by their places in a `Structure`."""

    def __init__(self, backend, graph: Graph, seam, structure: Structure):
        place = {v: k for k, v in enumerate(structure.leaves)}
        size = {d: k for k, d in enumerate(structure.sizes)}
        stream = {key: k for k, key in enumerate(structure.draws)}
        self.fed = [place[v] for v in graph.fed]
        self.states = [place[v] for v in graph.states]
        self.updated = [place[v] for v, _ in graph.updates]
        self.draws = [stream[key] for key in graph.draws]
        # sizes that only the lowered graph has keep their names, which are its own
        self.equal = [tuple((d, size.get(d)) for d in pair) for pair in graph.equal]
        self.operators = len(ancestors(graph.outputs))
        self.compiled = backend.compile(graph, seam) if graph.outputs else None


class Programs:
    """The programs of a device; beyond a limit the one that was used longest ago goes.

    A step keeps the program that it runs, so that a limit costs at most another compilation.
    """

    def __init__(self, limit: int = 128):
        self.limit = limit
        self._programs: OrderedDict[tuple, Program] = OrderedDict()
        self._lock = Lock()

    def get(self, structure: Structure) -> Program | None:
        """The program of a structure, if it is compiled."""
        with self._lock:
            found = self._programs.get(structure.key)
            if found is not None:
                self._programs.move_to_end(structure.key)
            return found

    def add(self, structure: Structure, made: Program):
        """Keep a program."""
        with self._lock:
            self._programs[structure.key] = made
            if len(self._programs) > self.limit:
                self._programs.popitem(last=False)

    def clear(self):
        """Forget all programs; steps keep theirs."""
        with self._lock:
            self._programs.clear()


_stores: dict[str, Programs] = {}


def programs_of(device: str) -> Programs:
    """The store of a device, which all sessions on it share."""
    return _stores.setdefault(device, Programs())


def graph_of(
    fetches: Sequence[Variable],
    updates: Sequence[tuple[Variable, Variable]],
    seam: Sequence[Variable],
    fed: dict[Variable, np.ndarray],
    training: bool,
) -> tuple[Graph, tuple[Variable, ...]]:
    """The graph to compile, and the values in it behind which a step may stop."""
    sizes = {d: n for v, a in fed.items() for d, n in zip(v.dims, a.shape, strict=True)}
    sizes = {d: n for d, n in sizes.items() if isinstance(d, str)}
    return program.build_step(fetches, updates, seam, list(fed), training, sizes)
