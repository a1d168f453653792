"""Several steps in one call: feeds with a first axis of steps, and the program that scans them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike

from ..backend.base import NO_SEAM, Backend, Seam
from ..backend.scanned import scanned
from ..graph.errors import BackendError, FeedError, OutOfRange, ShapeError
from ..graph.node import ancestors
from ..graph.update import Update
from ..graph.variable import Variable, describe
from .calls import Call, Outgrown
from .failures import failure
from .feeds import Feeds, feed_array, variable
from .index_errors import kind_of_index_error
from .programs import Program, ProgramCache, build_graph
from .step import Step, changes_of, computed_changes
from .structure import Structure
from .targets import Targets, computed_variables, flatten, restructure


def run_steps(session: Any, targets: Targets, feeds: Feeds, training: bool | None) -> Any:
    """Evaluate targets once for each entry along the first axis of the feeds; see `Session`.

    The steps are evaluated one by one where there is work between them: inside `pd.guard()`,
    `pd.check_numerics()`, `pd.profile()` and `exchanging`, in a job of several processes, and if a
    target stores a constant or draws initial values.
    """
    flat: list[Variable | Update] = []
    flatten(targets, flat)
    stacks = _stacked_feeds(feeds, lambda: computed_variables(flat))
    first, *_ = stacks.values()
    if not session.is_observed():
        chunk = _chunk(session, flat, stacks, training)
        if chunk.fits():
            try:
                try:
                    results = session.repeat(chunk, stacks, len(first))
                except Outgrown:
                    chunk = _chunk(session, flat, stacks, training, anew=True)
                    results = session.repeat(chunk, stacks, len(first))
                return restructure(targets, iter(results))
            except BackendError as error:
                raise _failure(error, session, flat, stacks, training) from error.__cause__
    steps = [_step(session, k, flat, fed, training) for k, fed in enumerate(_each_step(stacks))]
    stacked = (
        None if values[0] is None else np.stack(values) for values in zip(*steps, strict=True)
    )
    return restructure(targets, stacked)


def _step(session, number, flat, fed, training):
    """The values of one step; an index that is outside names the step."""
    try:
        return session.eval(flat, fed, training)
    except OutOfRange as error:
        raise OutOfRange(f"step {number}: {error}") from error.__cause__


def _failure(error, session, flat, stacks, training):
    """The error of a program of several steps: an index that is outside names its step."""
    updates = [t for t in flat if isinstance(t, Update)]
    fetches = [t for t in flat if isinstance(t, Variable)]
    training = bool(updates) if training is None else training
    # without its line, which is that of the loop over the steps, and without its number, which
    # does not say whose it is
    kind = kind_of_index_error(error)
    unplaced = BackendError(kind or error.text)
    for k, fed in enumerate(_each_step(stacks) if kind else ()):
        found = failure(unplaced, session, True, fetches, updates, NO_SEAM, fed, training)
        if found is not unplaced:
            return OutOfRange(f"step {k}: {found}")
    return error


def _chunk(session, flat, stacks, training, anew=False):
    """The Chunk of targets and feeds in a session; one that is made `anew` takes its place."""
    key = (tuple(map(ref, flat)), tuple(map(ref, stacks)), (), training, "steps")
    chunk = session.calls.get(key)
    if anew or chunk is None or (chunk.repeats and not chunk.fits()):
        chunk = _new_chunk(session.backend, flat, next(_each_step(stacks)), training)
        session.calls.add(key, chunk)
    return chunk


def _new_chunk(backend, flat, fed, training):
    updates = list(dict.fromkeys(t for t in flat if isinstance(t, Update)))
    fetches = list(dict.fromkeys(t for t in flat if isinstance(t, Variable)))
    if not _is_scannable(fetches, updates):
        return OneByOne()
    if training is None:
        training = any(u.training for u in updates)
    step = Step(backend, fetches, updates, fed, training, programs=ChunkPrograms())
    return Chunk(step, flat, fetches, list(fed))


def _is_scannable(fetches, updates):
    """Whether steps depend on each other by computed values alone.

    Constants that are stored, variables that are drawn again, and values that other processes take
    part in are seen to between steps.
    """
    changes = changes_of(updates)
    if any(new is None or new.value is not None for new in changes.values()):
        return False
    order = ancestors([*fetches, *(new for _, new in computed_changes(changes))])
    return not any(node.op_type == "SumOverRanks" for node in order)


def _stacked_feeds(
    feeds: Feeds, targets: Callable[[], Sequence[Variable]]
) -> dict[Variable, np.ndarray]:
    """Return feeds of several steps as {Variable: array [steps, ...]}.

    FeedError or ShapeError where a value does not fit its variable, or where two feeds have
    different numbers of steps.
    """
    arrays: dict[Variable, np.ndarray] = {}
    for key, value in feeds.items():
        v = variable(key, targets)
        if v in arrays:
            raise FeedError(f"{v!r} is fed twice, once by its name")
        arrays[v] = _stack(v, value)
    if not arrays:
        raise FeedError("run_steps: the feeds say how many steps to run, and nothing is fed")
    first, *others = arrays
    for v in others:
        if len(arrays[v]) != len(arrays[first]):
            raise ShapeError(
                f"run_steps: {v.name} is fed {len(arrays[v])} steps, "
                f"{first.name} is fed {len(arrays[first])}"
            )
    if not len(arrays[first]):
        raise ShapeError(f"run_steps: {first.name} is fed no steps")
    return arrays


def _stack(v: Variable, value: ArrayLike) -> np.ndarray:
    """A value as an array of the dtype of v, with a first axis of steps."""
    steps = Variable.of(("steps", *v.dims), v.dtype, v.name)
    try:
        return feed_array(steps, value)
    except ShapeError:
        raise ShapeError(
            f"run_steps: {v.name}: fed an array of {list(np.shape(value))}, "
            f"each step of it is {describe(v)}"
        ) from None


def _each_step(arrays: Mapping[Variable, np.ndarray]) -> Iterator[dict[Variable, np.ndarray]]:
    """Yield the feeds of each step."""
    for k in range(len(next(iter(arrays.values())))):
        yield {v: np.asarray(a[k]) for v, a in arrays.items()}


class OneByOne:
    """In the place of a Chunk: targets whose steps are evaluated one by one."""

    repeats = False

    def fits(self) -> bool:
        """Return False."""
        return False


class ChunkPrograms(ProgramCache):
    """Compiler of the program of several steps from the graph of one.

    It is no cache: an error names the lines of the graph that it was compiled for.
    """

    def get(self, structure: Structure, fed: Mapping[Variable, np.ndarray]) -> None:
        return None

    def compile(
        self,
        backend: Backend,
        structure: Structure,
        targets: tuple[Sequence[Variable], Sequence[tuple[Variable, Variable]], Seam],
        fed: dict[Variable, np.ndarray],
        training: bool,
    ) -> Program:
        graph, seam = build_graph(*targets, fed, training, backend, structure.constants)
        program = Program(backend, scanned(backend.prepared(graph)), seam, structure)
        program.operators = len(ancestors(graph.outputs))
        return program


class Chunk(Call):
    """An evaluation of several steps in one run of a program."""

    def __init__(
        self,
        step: Step,
        flat: Sequence[Variable | Update],
        fetches: Sequence[Variable],
        fed: Sequence[Variable],
    ):
        super().__init__(step, flat, fetches, fed)
        self.repeats = self.repeats and bool(step.fed or step.draws)

    def arrays(self, feeds: Mapping[Any, Any]) -> list[np.ndarray]:
        """Return the arrays that the program reads; ShapeError where they do not fit each other."""
        arrays = list(feeds.values())
        shapes = tuple([a.shape[1:] for a in arrays])
        if shapes not in self.shapes or self.step.packed.lengths:
            for fed in _each_step(feeds):
                checked = {v: feed_array(v, a) for v, a in fed.items()}
                if not self.step.covers(checked):
                    raise Outgrown
                self.step.check(checked)
            self.shapes.add(shapes)
        return [arrays[k] for k in self.order]
