"""Steps: prepared evaluations of targets, and the cache of them that a session holds."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM, Backend, Seam, SeamExchange, Values
from ..graph.errors import GraphError, ShapeError
from ..graph.node import ancestors
from ..graph.update import Update
from ..graph.variable import Dim, Variable
from .packed_feeds import PackedFeeds
from .programs import ProgramCache, program_cache
from .structure import Structure

Changes: TypeAlias = dict[Variable, Variable | None]  # new values, None to draw the initial value


class Step:
    """The evaluation of certain targets: a program, the variables it runs on, and what else is set.

    Holds neither the targets nor their nodes, so that a graph without other references is freed.
    `seam` are values after which the evaluation pauses, to exchange them. `recorded` are
    `recorded_values` of the targets. Its program is one of `programs`, by default of those of the
    device.
    """

    def __init__(
        self,
        backend: Backend,
        fetches: Sequence[Variable],
        updates: Sequence[Update],
        fed: dict[Variable, np.ndarray],
        training: bool,
        seam: Seam = NO_SEAM,
        recorded: Mapping[Variable, np.ndarray] = MappingProxyType({}),
        programs: ProgramCache | None = None,
    ):
        changes = changes_of(updates)
        computed = computed_changes(changes)
        self.constants = [
            (v, new.value)
            for v, new in changes.items()
            if new is not None and new.value is not None
        ]
        self.redrawn = [v for v, new in changes.items() if new is None]
        structure = Structure(fetches, computed, seam, {*fed, *recorded}, training)
        cache = program_cache(backend) if programs is None else programs
        self.held = {v: v.held for v in structure.leaves if v.held is not None and v not in fed}
        self.held.update(recorded)
        every = {**fed, **self.held} if self.held else fed
        program = cache.get(structure, every)
        self.compiled = program is None
        if program is None:
            targets = fetches, computed, seam
            program = cache.compile(backend, structure, targets, every, training)
        self.program = program
        self.fed = [structure.leaves[k] for k in program.fed]
        states = [structure.leaves[k] for k in program.states]
        updated = [structure.leaves[k] for k in program.updated]
        # references to Variables, which the targets keep alive
        self.states: list[Any] = [ref(v) for v in states]
        self.updated: list[Any] = [ref(v) for v in updated]
        self.draws = [structure.draws[k] for k in program.draws]
        self.changes = bool(computed)
        self.operators = program.operators
        equal = (
            [d if k is None else structure.sizes[k] for d, k in pair] for pair in program.equal
        )
        self.equal: list[tuple[Dim, Dim]] = [(a, b) for a, b in equal]
        self.packed = PackedFeeds(fed, self.equal)
        compiled = program.compiled
        self.executable = None if compiled is None else compiled.bind(states, updated)
        self.checked: set[tuple] = set()  # shapes of feeds that fit each other
        self.covered: set[tuple] = set()  # shapes of feeds that the program is right for
        self.initialized = False  # whether all states have a value; they never lose it
        settings = [v.setting for v in structure.constants]
        for setting in settings:
            setting.steps.add(self)
        # whether a setting has changed that is a constant of the program
        self.is_outdated = not all(setting.is_constant for setting in settings)

    def covers(self, fed: Mapping[Variable, np.ndarray]) -> bool:
        """Return whether the program is right for these feeds, see `Program.covers`."""
        if not self.program.lengths:
            return True
        shapes = tuple([np.shape(fed[v] if v in fed else self.held[v]) for v in self.fed])
        if shapes not in self.covered:
            if not self.program.covers(shapes):
                return False
            self.covered.add(shapes)
        return True

    def run(
        self,
        fed: Mapping[Variable, np.ndarray],
        values: Values,
        seed: np.ndarray | None,
        exchange: SeamExchange | None = None,
    ) -> list[np.ndarray]:
        """Return the fetches for these feeds; computed new values are stored in `values`.

        ShapeError where the feeds do not fit each other.
        """
        if self.executable is None:
            return []
        arrays = [fed[v] if v in fed else self.held[v] for v in self.fed]
        self.check({**self.held, **fed} if self.held else fed)
        return self.executable.run(arrays, values, seed, exchange)

    def check(self, fed: Mapping[Variable, np.ndarray]) -> None:
        """Raise a ShapeError where arrays for the variables that are read do not fit each other."""
        shapes = tuple([fed[v].shape for v in self.fed])
        if shapes not in self.checked:
            self._check_sizes(shapes)
            self.checked.add(shapes)
        if self.packed.lengths:
            self.packed.check(fed)

    def _check_sizes(self, shapes):
        """Check that sizes which the graph requires to be equal are equal in these feeds."""
        sizes: dict[Dim, int] = {}
        origin: dict[Dim, str] = {}  # the feed of each size
        for v, shape in zip(self.fed, shapes, strict=True):
            for d, n in zip(v.dims, shape, strict=True):
                if sizes.setdefault(d, n) != n:
                    raise ShapeError(f"feeds disagree: {origin[d]} has {sizes[d]}, {v!r} has {n}")
                origin.setdefault(d, repr(v))
        for a, b in self.equal:
            left, right = (d if isinstance(d, int) else sizes.get(d) for d in (a, b))
            if left is not None and right is not None and left != right:
                feeds = " and ".join(origin[d] for d in (a, b) if d in origin)
                raise ShapeError(f"sizes {left} and {right} must be equal, from the feeds {feeds}")


class StepCache:
    """The steps of a session; beyond the limit the least recently used is dropped.

    A check or a repeated call may take the place of a step. Targets are held weakly: when a target
    is freed its steps are dropped at once.
    """

    def __init__(self, limit: int = 256):
        self.limit = limit
        self.steps: OrderedDict[Hashable, tuple[Any, list[ref]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.steps)

    def get(self, key: Hashable) -> Any:
        """Return the step of a `step_key`, None if there is none yet."""
        entry = self.steps.get(key)
        if entry is None:
            return None
        self.steps.move_to_end(key)
        return entry[0]

    def add(self, key: tuple, step: Any) -> None:
        """Add the step of a `step_key`."""
        # a target may be freed at any point of any thread, so its callback must be atomic
        drop = partial(_drop, ref(self), key)
        self.steps[key] = step, [ref(target(), drop) for group in key[:3] for target in group]
        if len(self.steps) > self.limit:
            self.steps.popitem(last=False)

    def clear(self) -> None:
        """Drop all steps."""
        self.steps.clear()


def step_key(
    fetches: Sequence[Variable],
    updates: Sequence[Update],
    fed: Iterable[Variable],
    training: bool,
    seam: Seam = NO_SEAM,
) -> tuple:
    """Return the key of a step: two evaluations with the same key are the same step."""
    frozen = tuple(v.trainable for u in updates for v in u.owners)
    targets = tuple(map(ref, fetches)), tuple(map(ref, updates))
    return *targets, frozenset(map(ref, fed)), frozen, training, len(seam) and seam.divisions


def _drop(cache, key, _):
    owner = cache()
    if owner is not None:
        owner.steps.pop(key, None)


def recorded_values(
    fetches: Sequence[Variable], updates: Sequence[Update], fed: Mapping[Variable, Any]
) -> dict[Variable, np.ndarray]:
    """Return the values of what targets read that was recorded inside `pd.guard()`.

    They are those of their lines, whatever has changed since.
    """
    targets = [*fetches, *(new for _, new in computed_changes(changes_of(updates)))]
    read, fed_behind = list(targets), set(fed)
    for node in ancestors(targets, fed):
        inputs = [x for x in node.inputs if x is not None]
        if any(x in fed_behind or x.is_feed for x in inputs):
            fed_behind.update(node.outputs)
        if not hasattr(node, "alive"):
            read += inputs
    return {v: v.numpy() for v in read if v.is_recorded and v not in fed_behind}


def _frozen(assignment):
    return assignment.owner is not None and not assignment.owner.trainable


def changes_of(updates: Sequence[Update]) -> Changes:
    """Return {variable: its new value, or None to draw its initial value} of all updates.

    GraphError where two of them change one variable.
    """
    active = [(a.variable, a.value) for u in updates for a in u.assignments if not _frozen(a)]
    redrawn = [(v, None) for u in updates for v in u.initialize]
    changes: Changes = {}
    for v, new in active + redrawn:
        if changes.setdefault(v, new) is not new:
            raise GraphError(f"two updates of {v!r} in one evaluation")
    return changes


def computed_changes(changes: Changes) -> list[tuple[Variable, Variable]]:
    """The changes that a program computes: not constants, which are stored as they are."""
    return [(v, new) for v, new in changes.items() if new is not None and new.value is None]
