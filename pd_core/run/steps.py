"""Several steps in one call: feeds with a first axis of steps, and the program that scans them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..backend.base import Backend
from ..backend.scanned import scanned
from ..graph.errors import BackendError, FeedError, OutOfRange, ShapeError
from ..graph.node import ancestors
from ..graph.recording import not_recording
from ..graph.update import Update
from ..graph.variable import Variable, describe
from .calls import Call, Outgrown
from .changes import changes_of, computed_changes
from .compiler import Compiler
from .failures import failure
from .feeds import Feeds, feed_array, variable
from .fusion import asked
from .index_errors import kind_of_index_error
from .programs import Compiled, Source
from .request import Request, request_of
from .targets import Targets, computed_variables, flatten, restructure
from .values import Values

Stacks = Mapping[Any, np.ndarray]  # by Variable: arrays with a first axis of steps


def run_steps(session: Any, targets: Targets, feeds: Feeds, training: bool | None) -> Any:
    """Evaluate targets once for each entry along the first axis of the feeds; see `Session`.

    The steps are evaluated one by one where there is work between them: inside
    `pd.check_numerics()`, `pd.profile()` and `exchanging`, in a job of several processes, and if a
    target was recorded in `pd.guard()`, stores a constant or draws initial values.
    """
    flat: list[Variable | Update] = []
    flatten(targets, flat)
    stacks = _stacked_feeds(feeds, lambda: computed_variables(flat))
    if not session.observers.is_active(session):
        compilers = session.compilers
        compiler = compilers.usual if asked.get() is None else compilers.current
        steps: Steps | None = compiler.call(flat, stacks, training, Steps)
        steps = steps or _new_steps(session, flat, stacks, training)
        if steps is not None:
            try:
                try:
                    results = _run(steps, session.store, stacks)
                except Outgrown:
                    steps = _new_steps(session, flat, stacks, training)
                    assert steps is not None
                    results = _run(steps, session.store, stacks)
            except BackendError as error:
                raise _failure(error, session, flat, stacks, training) from error.__cause__
            return restructure(targets, iter(results))
    single = [_step(session, k, flat, fed, training) for k, fed in enumerate(_each_step(stacks))]
    stacked = (
        None if values[0] is None else np.stack(values) for values in zip(*single, strict=True)
    )
    return restructure(targets, stacked)


def _run(steps: "Steps", values: Values, stacks: Stacks) -> list[Any]:
    """The values of the targets, beside what `pd.guard()` has recorded, if it has."""
    return (steps.run if values.recorded is None else steps.run_beside)(values, stacks)


def _step(
    session: Any,
    number: int,
    flat: list[Variable | Update],
    fed: Mapping[Variable, np.ndarray],
    training: bool | None,
) -> list[Any]:
    """The values of one step; an index that is outside names the step."""
    try:
        return session.eval(flat, fed, training)
    except OutOfRange as error:
        raise OutOfRange(f"step {number}: {error}") from error.__cause__


def _failure(
    error: BackendError,
    session: Any,
    flat: Sequence[Variable | Update],
    stacks: Stacks,
    training: bool | None,
) -> BackendError:
    """The error of a program of several steps: an index that is outside names its step."""
    # without its line, which is that of the loop over the steps, and without its number, which
    # does not say whose it is
    kind = kind_of_index_error(error)
    unplaced = BackendError(kind or error.text)
    for k, fed in enumerate(_each_step(stacks) if kind else ()):
        found = failure(unplaced, session, request_of(flat, fed, training))
        if found is not unplaced:
            return OutOfRange(f"step {k}: {found}")
    return error


def _new_steps(
    session: Any, flat: Sequence[Variable | Update], stacks: Stacks, training: bool | None
) -> "Steps | None":
    """A new program of several steps; None for targets that are evaluated one by one."""
    compiler, request = session.compiler, request_of(flat, next(_each_step(stacks)), training)
    one_by_one = request.key("steps one by one")
    if compiler.cache.get(one_by_one):
        return None
    if _is_scannable(request):
        with not_recording():
            program = Compiler(session.backend, None, _scanned).new(request)
        if program.repeats and (program.inputs.fed or program.draws):
            steps = Steps(program, flat, request)
            compiler.remember(steps, flat, stacks, training, request)
            return steps
    compiler.cache.add(one_by_one, True, request.owners())
    return None


def _is_scannable(request: Request) -> bool:
    """Whether steps depend on each other by computed values alone.

    Constants that are stored, variables that are drawn again, and values that other processes take
    part in are seen to between steps.
    """
    changes = changes_of(request.updates)
    if any(new is None or new.value is not None for new in changes.values()):
        return False
    order = ancestors([*request.fetches, *(new for _, new in computed_changes(changes))])
    return not any(node.op_type == "SumOverRanks" for node in order)


def _scanned(backend: Backend, source: Source) -> Compiled:
    """The program of several steps from the graph of one.

    Errors name the lines of the graph that it is compiled for: nothing shares it.
    """
    graph, seam = source.graph(backend)
    scan = Compiled(backend, scanned(backend.prepared(graph)), seam, source.structure)
    scan.operators = len(ancestors(graph.outputs))
    return scan


def _stacked_feeds(
    feeds: Feeds, targets: Callable[[], Sequence[Variable]]
) -> dict[Variable, np.ndarray]:
    """Return feeds of several steps as {Variable: array [steps, ...]}.

    FeedError or ShapeError where a value does not fit its variable, or where two feeds have
    different numbers of steps.
    """
    arrays: dict[Variable, np.ndarray] = {}
    for key, value in feeds.items():
        v = key if isinstance(key, Variable) else variable(key, targets)
        if v in arrays:
            raise FeedError(f"{v!r} is fed twice, once by its name")
        try:
            arrays[v] = feed_array(v, value, lead=1)
        except ShapeError:
            raise ShapeError(
                f"run_steps: {v.name}: fed an array of {list(np.shape(value))}, "
                f"each step of it is {describe(v)}"
            ) from None
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


def _each_step(arrays: Stacks) -> Iterator[dict[Any, np.ndarray]]:
    """Yield the feeds of each step."""
    for k in range(len(next(iter(arrays.values())))):
        yield {v: np.asarray(a[k]) for v, a in arrays.items()}


class Steps(Call):
    """A call of `run_steps`: several steps in one run of a program."""

    def run(self, values: Values, feeds: Mapping[Any, Any]) -> list[Any]:
        """Return the values of the targets for each step, None for Updates."""
        arrays = self.arrays(feeds)
        results = self.program.run(values, arrays, steps=len(next(iter(feeds.values()))))
        for k, v in self.kept:
            values.fetched[v()] = results[k][-1]
        return [None if k is None else results[k] for k in self.places]

    def arrays(self, feeds: Mapping[Any, Any]) -> list[np.ndarray]:
        """Return the arrays that the program reads; ShapeError where they do not fit each other."""
        arrays, program = list(feeds.values()), self.program
        shapes = tuple([a.shape[1:] for a in arrays])
        if shapes not in self.shapes or self.packed.lengths:
            for fed in _each_step(feeds):
                checked = {v: feed_array(v, a) for v, a in fed.items()}
                if not program.covers(program.inputs.arrays(checked)):
                    raise Outgrown
            self.shapes.add(shapes)
        return [arrays[k] for k in self.order]
