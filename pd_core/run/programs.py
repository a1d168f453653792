"""Compiled graphs, cached by structure; the sessions of a device share one cache."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

from ..backend import program
from ..backend.base import Backend, Graph, Seam
from ..backend.passes.forms import NO_KERNELS
from ..graph.node import ancestors, known_orders
from ..graph.update import Update
from ..graph.variable import Dim, Variable, size_reads
from .feeds import fed_shape
from .garbage import rare_collections
from .resizing import Templates
from .structure import Structure


class Compiled:
    """A compiled graph; feeds, states and sizes are indices into the lists of a `Structure`.

    `sizes` are those that it was compiled for, and `lengths` what it has taken for short: a number
    and sizes, each as (feed, axis), whose product is at most so much. `is_resized` if it was made
    of a program for other sizes, whose lines it has.
    """

    is_resized = False

    def __init__(self, backend: Backend, graph: Graph, seam: Seam, structure: Structure):
        leaf = {v: k for k, v in enumerate(structure.leaves)}
        size: dict[Dim, int] = {d: k for k, d in enumerate(structure.sizes)}
        stream = {key: k for k, key in enumerate(structure.draws)}
        self.fed = [leaf[v] for v in graph.fed]
        self.states = [leaf[v] for v in graph.states]
        self.updated = [leaf[v] for v, _ in graph.updates]
        self.draws = [stream[key] for key in graph.draws]
        # (size, its index; None for a size that only the lowered graph has, which keeps its name)
        self.equal = [tuple((d, size.get(d)) for d in pair) for pair in graph.equal]
        self.operators = len(ancestors(graph.outputs))
        self.bytes = graph.bytes
        reads = size_reads.get()
        if reads is not None:
            results = [y for node in ancestors(graph.outputs) for y in node.outputs]
            reads.results.update([(y.symbolic_dims, y.dtype.itemsize) for y in results])
        self.graph = backend.compile(graph, seam) if graph.outputs else None
        self.sizes = {size[d]: n for d, n in graph.sizes.items() if d in size}
        at = {d: (k, axis) for k, v in enumerate(graph.fed) for axis, d in enumerate(v.dims)}
        lengths = self.graph.lengths if self.graph is not None else ()
        self.lengths = [(known, [at[d] for d in dims], most) for known, dims, most in lengths]

    def covers(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Return whether what the program takes for short is short in feeds of these shapes."""
        return all(
            known * prod(shapes[k][axis] for k, axis in places) <= most
            for known, places, most in self.lengths
        )


class ProgramCache:
    """The programs of a device by structure: those that steps hold, and the last that were used.

    A program has memory and threads of its own for as long as it exists. A step holds its program
    and is dropped with its graph; so that a loop that builds its graph anew in every iteration
    finds its programs, the last ones used stay, up to a number and to a limit of bytes, those of
    all intermediate values. A `few` stay in any case, as many as such a loop uses in turn.
    """

    def __init__(self, limit: int = 16, limit_bytes: int = 1 << 28, few: int = 4):
        self.limit, self.limit_bytes, self.few = limit, limit_bytes, few
        self._programs: WeakValueDictionary[tuple, Compiled] = WeakValueDictionary()
        self._recent: OrderedDict[tuple, Compiled] = OrderedDict()
        self.templates = Templates()
        self._lock = Lock()

    def get(self, structure: Structure, fed: Mapping[Variable, np.ndarray]) -> Compiled | None:
        """Return the program of a structure that covers feeds; None if there is none yet."""
        with self._lock:
            program = self._programs.get(structure.key)
            if program is None:
                return None
            if program.lengths:
                leaves = [structure.leaves[k] for k in program.fed]
                if not program.covers([fed_shape(fed[v]) for v in leaves]):
                    return None
            self._use(structure.key, program)
            return program

    def add(self, structure: Structure, compiled: Compiled) -> None:
        """Add the program of a structure."""
        with self._lock:
            self._programs[structure.key] = compiled
            self._use(structure.key, compiled)

    def _use(self, key: tuple, program: Compiled) -> None:
        self._recent[key] = program
        self._recent.move_to_end(key)
        total = sum(p.bytes for p in self._recent.values())
        while len(self._recent) > self.limit or (
            total > self.limit_bytes and len(self._recent) > self.few
        ):
            total -= self._recent.popitem(last=False)[1].bytes

    def least(self, structure: Structure) -> dict[str, int]:
        """Return the sizes that another program of a structure has to cover."""
        before = self._programs.get(structure.key)
        return {} if before is None else {structure.sizes[k]: n for k, n in before.sizes.items()}

    def clear(self) -> None:
        """Drop all programs; steps keep theirs, and no other step finds them."""
        with self._lock:
            self._programs.clear()
            self._recent.clear()
        self.templates.clear()


@dataclass(frozen=True)
class Source:
    """What a program is compiled from: fetches, updates and a seam, for feeds like these.

    `targets` are the Updates among them, `least` sizes that it has to cover at the least.
    """

    structure: Structure
    fetches: Sequence[Variable]
    updates: Sequence[tuple[Variable, Variable]]
    seam: Seam
    fed: dict[Variable, np.ndarray]
    training: bool
    targets: Sequence[Update] = ()
    least: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fetches: Sequence[Variable],
        updates: Sequence[tuple[Variable, Variable]],
        seam: Seam,
        fed: dict[Variable, np.ndarray],
        training: bool,
    ) -> "Source":
        """Return it with the structure of these."""
        structure = Structure(fetches, updates, seam, fed, training)
        return cls(structure, fetches, updates, seam, fed, training)

    def hints(self) -> dict[str, int]:
        """Return the run-time sizes of the fed arrays, or those that it has to cover."""
        return {
            d: max(n, self.least.get(d, 0))
            for v, a in self.fed.items()
            for d, n in zip(v.dims, fed_shape(a), strict=True)
            if isinstance(d, str)
        }

    def graph(self, backend: Backend) -> tuple[Graph, Seam]:
        """Return the graph to compile, and what the values of the seam have become in it.

        The shapes of the fed arrays are hints for the choice of lowerings. Constants of the
        Structure take the place of settings.
        """
        kernels = NO_KERNELS if self.training or self.updates else backend.kernels
        return program.build_step(
            self.fetches,
            self.updates,
            self.seam,
            list(self.fed),
            self.training,
            self.hints(),
            backend.layouts,
            kernels,
            self.structure.constants,
        )


def compiled(backend: Backend, source: Source) -> Compiled:
    """Return a program for a backend."""
    with rare_collections(), known_orders():
        graph, seam = source.graph(backend)
        return Compiled(backend, graph, seam, source.structure)


_caches: dict[tuple, ProgramCache] = {}


def clear_program_caches() -> None:
    """Drop the programs of all devices that no step holds."""
    for cache in list(_caches.values()):
        cache.clear()


def program_cache(backend: Backend) -> ProgramCache:
    """Return the cache that all sessions on a device share, if they compile alike."""
    alike = backend.device, backend.layouts, getattr(backend, "fused", False)
    return _caches.setdefault(alike, ProgramCache())
