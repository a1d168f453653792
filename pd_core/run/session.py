"""Sessions: owners of the values of persistent variables, and evaluation of targets."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, RLock
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from ..backend.base import NO_SEAM, Backend
from ..backend.named import named_backend
from ..graph.errors import BackendError, DTypeError, NotComputed, PlaceError, concise
from ..graph.handlers import check_takes
from ..graph.initializers import Initializer
from ..graph.names import clear_names, fresh_names
from ..graph.update import Update
from ..graph.variable import Variable
from .calls import Call, Outgrown, call_key
from .chunks import run_steps
from .draws import draw_rows, initial_value
from .exchange import Exchange, Gradients, draw_seed, local_update, shared_exchange
from .failures import failure
from .feeds import Feeds, check_persistent, feed_array, feed_arrays
from .freeing import Garbage, add_session
from .numerics.checking import check, is_checking
from .profiling.profile import current_profile, measured
from .recorded import Recorded
from .restoring import NotCopied, first_value, restorable, state_of, without_shards
from .step import Step, StepCache, recorded_values, step_key
from .supplied import supplied, values_are_supplied
from .targets import Targets, computed_variables, evaluation_method, flatten, restructure
from .touched import Touched
from .undo import Undo


class Session(NotCopied):
    """The values of persistent variables on one device, and evaluation with them.

    `device` is one of `pd.devices()`, such as `cpu` or `cuda:0`, or `auto` (CUDA if there is any,
    else the CPU and a warning) or `reference` (ONNX's own evaluator, slow). The same graph in two
    sessions has two sets of values. `seed` determines initial values and random draws.
    `check_numerics` checks every evaluation, as the context `pd.check_numerics()` does.
    `exact_convolutions` keeps a CPU from computing convolutions by Winograd's filtering, which is
    faster and rounds more: about 1e-5 of the largest result; by default PD_EXACT_CONVOLUTIONS=1 in
    the environment does. Threads may share a session: it evaluates for one at a time.
    """

    def __init__(
        self,
        device: str = "cpu",
        seed: int = 0,
        check_numerics: bool = False,
        exact_convolutions: bool | None = None,
    ):
        self.backend: Backend = named_backend(device, exact_convolutions)
        self.seed = seed
        self.check_numerics = check_numerics  # of all evaluations, see `numerics.check_numerics`
        self.draws: Counter[int] = Counter()  # of each stream of random numbers
        self.waiting: dict[str, np.ndarray] = {}  # of variables that `restore` did not find
        self.waiting_rows: dict[str, np.ndarray] = {}  # the same of sharded tables
        self.journals: list[Any] = []  # of each `Undo`, of the values before
        self.version = 0  # grows with every change of stored values
        self.touched = Touched()  # values that were changed outside of exchanged steps
        self._counts: Counter[str] = Counter()
        self._values = self.backend.values()
        self._steps, self.checks, self.needs = StepCache(), StepCache(), StepCache()
        self.calls = StepCache()
        self._fetched: WeakKeyDictionary[Variable, np.ndarray] = WeakKeyDictionary()
        self._garbage = Garbage()
        self._lock = RLock()
        self._exchange: Callable[[Gradients], Gradients] | None = None
        self.recorded: Recorded | None = None  # what `pd.guard()` has recorded
        # the state of optimizers that step inside `pd.guard()`
        self.optimizers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        add_session(self)

    def __repr__(self) -> str:
        return f"Session(device={self.device!r}, seed={self.seed})"

    @property
    def device(self) -> str:
        """The name of the device, such as `cpu` or `cuda:0`."""
        return self.backend.device

    @evaluation_method
    @concise
    def eval(
        self, targets: Targets, feeds: Feeds | None = None, training: bool | None = None
    ) -> Any:
        """Compute targets: Variables and Updates, alone or in lists, tuples and dicts.

        `feeds` maps Variables, or their names, to arrays; any variable may be fed, which cuts the
        graph there. Only what the targets need runs, once; all reads see the values from before
        the call, and all updates are stored together at its end. `training` selects the side of
        mode switches; by default it is whether a target is a training step.
        """
        flat: list[Variable | Update] = []
        flatten(targets, flat)
        key = call_key(flat, feeds, training)
        with self._lock:
            call = None if key is None or self.is_observed() else self.calls.get(key)
            if call is not None and call.fits():
                try:
                    return restructure(targets, iter(self.repeat(call, feeds or {})))
                except (BackendError, Outgrown):
                    call = None  # below, lines of operators are known, and other programs made
            return self._eval(targets, flat, feeds, training, key, call)

    @concise
    def run_steps(self, targets: Targets, feeds: Feeds, training: bool | None = None) -> Any:
        """Run several steps in one call, and return the targets of all of them.

        `feeds` maps variables to arrays with a first axis of steps, as long in all of them; each
        Variable among the targets gives such an array. Values, random draws, schedules and state of
        optimizers are those of so many calls of `eval`, to rounding; but one program goes from step
        to step, and if it fails nothing is stored. Shapes are the same in all steps. What belongs
        between steps, as inside `check_numerics` or `exchanging`, makes them run one by one.
        """
        with self._lock:
            self._check_open()
            return run_steps(self, targets, feeds, training)

    def is_observed(self) -> bool:
        """Return whether more than a program takes part in evaluations."""
        return (
            self.recorded is not None
            or self._exchange is not None
            or self.check_numerics
            or is_checking()
            or values_are_supplied()
            or current_profile() is not None
            or shared_exchange(self) is not None
        )

    def repeat(self, call: Call, feeds: Feeds, steps: int = 0) -> list[Any]:
        """Return the values of the flat targets of a Call; of a Chunk for so many steps."""
        self._check_open()
        step, arrays = call.step, call.arrays(feeds)
        if not step.initialized:
            self._start(step)
        draws = self.draw_rows(step.draws, steps) if step.draws else None
        results = call.run(arrays, self._values, draws)
        self.version += step.changes
        self._count(step, results, steps or 1)
        for k, v in call.kept:
            self._fetched[v()] = results[k][-1] if steps else results[k]
        return [None if k is None else results[k] for k in call.places]

    @measured
    def _eval(self, targets, flat, feeds, training, key, call):
        fed = feed_arrays(feeds, lambda: computed_variables(flat)) if feeds else {}
        updates = list(dict.fromkeys(t for t in flat if isinstance(t, Update)))
        fetches = list(dict.fromkeys(t for t in flat if isinstance(t, Variable)))
        if training is None:
            training = any(u.training for u in updates)
        self._check_open()
        if self.recorded is not None:
            self.recorded.flush()
        results = self._run(fetches, updates, fed, training)
        arrays = dict(zip(fetches, results, strict=True))
        for v, array in arrays.items():
            if not v.is_persistent:
                self._fetched[v] = array
        if key is not None and (call is None or call.repeats) and not self.is_observed():
            step = self._steps.get(step_key(fetches, updates, fed, training))
            if step is not None:
                self.calls.add(key, Call(step, flat, fetches, list(fed)))
        return restructure(targets, (arrays.get(t) for t in flat))

    def _run(self, fetches, updates, fed, training, computed=False):
        if not values_are_supplied():
            return self._evaluate(fetches, updates, fed, training, computed)
        with supplied(self, self._run, fetches, updates, fed, training) as fed:
            return self._evaluate(fetches, updates, fed, training, computed)

    def _evaluate(self, fetches, updates, fed, training, computed):
        shared = shared_exchange(self) if self._exchange is None else None
        function = self._exchange or shared
        exchange: Any = Exchange(function, updates) if function else None
        seam = NO_SEAM if exchange is None else exchange.seam
        if seam and shared is not None and shared.accumulating:
            return self._accumulate(shared, exchange, fetches, updates, fed, training)
        gradients = {} if exchange is None else exchange.gradients
        if self.check_numerics or is_checking():
            fed = {**fed, **recorded_values(fetches, updates, fed)}
            exchange = check(self, fetches, updates, fed, training, exchange)
        key = step_key(fetches, updates, fed, training, seam)
        profile = current_profile()
        steps = self._steps if profile is None else profile.steps_of(self)
        step = steps.get(key)
        if step is None or step.is_outdated or not step.covers(fed):
            recorded = recorded_values(fetches, updates, fed)
            programs = None if profile is None else profile.programs(updates)
            step = Step(self.backend, fetches, updates, fed, training, seam, recorded, programs)
            steps.add(key, step)
        if not step.initialized:
            self._start(step)
        if seam and shared is not None:
            shared.begin(step, updates, gradients, fed, computed)
        drawn = [(v, initial_value(self.seed, v, v.fill)) for v in step.redrawn]
        draws = self.draw_rows(step.draws)
        self.version += step.changes
        if self.recorded is not None:
            self.recorded.before_update(step.updated)
        try:
            results = step.run(fed, self._values, draws, exchange if seam else None)
        except BackendError as error:
            every = {**step.held, **fed}
            failed = failure(error, self, step.compiled, fetches, updates, seam, every, training)
            raise failed from error.__cause__
        if self.recorded is not None:
            self.recorded.after_update(step.updated)
        if shared is not None and not seam:
            self.touched.by_programs(step.updated)
        self._count(step, results)
        for v, array in (*step.constants, *drawn):
            self._store(v, array)
        return results

    def _accumulate(self, shared, exchange, fetches, updates, fed, training):
        """Compute the gradients of a step, to be exchanged with a later one, and no update."""
        every = list(dict.fromkeys([*fetches, *exchange.seam]))
        local = [local_update(u) for u in updates]
        results = self._evaluate(every, local, fed, training, False)
        arrays = dict(zip(every, results, strict=True))
        shared.accumulate(exchange.structured([arrays[v] for v in exchange.seam]))
        return [arrays[v] for v in fetches]

    def run_recorded(self, plan: Any, arrays: list, draws: Sequence) -> list[Any]:
        """Return the values of a plan of `pd_core.dynamic`, kept on the device."""
        self._check_open()
        if not plan.initialized:
            self.initialize([state() for state in plan.states])
            plan.initialized = True
        self.version += bool(plan.updated)
        results = []
        if plan.executable is not None:
            rows = self.draw_rows(draws) if draws else None
            results = plan.executable.run(arrays, self._values, rows, keep=True)
        counts = self._counts
        counts["compiled"] += plan.compiled
        counts["evaluations"] += 1
        counts["operators"] += plan.operators
        counts["fed"] += len(arrays)
        counts["fetched"] += len(results)
        for variable, array in plan.constants:
            self._store(variable(), array)
        if plan.updated and shared_exchange(self) is not None:
            self.touched.by_programs(plan.updated)
        return results

    @measured
    def apply(self, updates: Sequence[Update], fed: dict[Variable, Any]) -> None:
        """Evaluate updates from gradients that are computed, and may be on the device."""
        with self._lock:
            self._check_open()
            self._run([], updates, fed, True, computed=True)

    @property
    def has_own_exchange(self) -> bool:
        """Whether gradients go to a function of the user, inside of `exchanging`."""
        return self._exchange is not None

    @property
    def is_exchanging(self) -> bool:
        """Whether gradients are exchanged before the updates, see `exchanging`."""
        return self._exchange is not None or shared_exchange(self) is not None

    def exclusive(self) -> RLock:
        """Return the lock of the session: while it is held, no other thread evaluates with it."""
        return self._lock

    def current(self, variable: Variable, copy: bool = True) -> np.ndarray:
        """Return the stored value of a persistent variable; a view is to be read at once."""
        return self._values.numpy(variable) if copy else self._values.view(variable)

    def release(self, variable: Variable) -> Any:
        """Return the value before the last evaluation, which is not used for another step then."""
        return self._values.release(variable)

    def draw_rows(self, streams: Sequence[Any], steps: int = 0) -> np.ndarray | None:
        """Return (seed, place, stream) for each random draw of a program; see `draws`."""
        return draw_rows(draw_seed(self.seed), self.draws, streams, steps)

    def peek(self, step: Step, fed: dict[Variable, np.ndarray]) -> list[np.ndarray]:
        """Return the fetches of a step without updates; no random number counts as drawn."""
        with self._lock:
            if not step.initialized:
                self._start(step)
            return step.run(fed, self._values, self.draw_rows(step.draws))

    def _start(self, step):
        """Draw the initial values that the first run of a step reads."""
        self._counts["compiled"] += step.compiled
        self.initialize([state() for state in step.states])
        step.initialized = True

    def _count(self, step, results, steps=1):
        for draw in step.draws:
            if isinstance(draw, int):
                self.draws[draw] += steps
        counts = self._counts
        counts["evaluations"] += 1
        counts["operators"] += step.operators * steps
        counts["fed"] += len(step.fed)
        counts["fetched"] += len(results)

    @contextmanager
    def exchanging(self, exchange: Callable[[Gradients], Gradients]) -> Iterator[None]:
        """Call a function between the gradients and the update of every training step in a `with`.

        `exchange(gradients)` gets {parameter: gradient} of the trainable parameters of the step, as
        arrays, and returns the same with the gradients to update with; that of a `row_sparse`
        parameter is a pair (rows [K], values [K, ...]), whose number of rows may change. Clipping
        and regularizers are applied after it. A step without gradients is not affected.
        """
        check_takes("exchanging: the function", exchange, "gradients")
        outer, self._exchange = self._exchange, exchange
        try:
            yield
        finally:
            self._exchange = outer

    @contextmanager
    def replay(self, draws: Mapping[int, int]) -> Iterator[None]:
        """Repeat the random numbers from `draws` on in a `with`; they do not count as drawn.

        `draws` is an earlier copy of the attribute `draws`; other threads wait.
        """
        with self._lock:
            current, self.draws = self.draws, Counter(draws)
            try:
                yield
            finally:
                self.draws = current

    # ---- values

    def initialize(self, variables: Iterable[Variable]) -> None:
        """Draw the initial values of the variables that have none."""
        with self._lock:
            self._check_open()
            new = [v for v in dict.fromkeys(variables) if v not in self._values]
            if new:
                self._garbage.collect_before(new, self._values)
            for v in new:
                if v.setting is not None:
                    v.setting.sessions.add(self)
                self._store(v, first_value(self, v), first=True)

    def _store(self, v, array, copy=True, first=False):
        if self.recorded is not None and not first:
            self.recorded.before_store(v)
        for journal in self.journals:
            journal.values.setdefault(v, self._values.kept(v))
        self._counts["stored"] += 1
        self.version += 1
        if not first:
            self.touched.by_host(v)
        self._values.set(v, array, copy)

    def store_setting(self, variable: Variable, array: np.ndarray) -> None:
        """Store the number of a Setting, unless the session is closed."""
        with self._lock:
            if self._values is not None:
                self._values.set(variable, array)
                self.version += 1

    def stats(self) -> dict[str, int]:
        """Return counts of the work so far.

        They are `evaluations`, `compiled` programs, `operators` run, and arrays copied between
        host and device: `fed`, `fetched`, and persistent values `stored` and `read`. Training does
        not change the last two: parameters and slots stay on the device between steps.
        """
        names = "evaluations", "compiled", "operators", "fed", "fetched", "stored", "read"
        return {name: self._counts[name] for name in names}

    def redraw(self, variable: Variable, initializer: Initializer) -> None:
        """Store what an initializer draws for a persistent variable of floats."""
        check_persistent(variable)
        if variable.dtype.kind != "f":
            raise DTypeError(f"{variable!r} holds no floats to draw")
        self.set(variable, initial_value(self.seed, variable, initializer), copy=False)

    def has(self, variable: Variable) -> bool:
        """Return whether a persistent variable has a value already."""
        return variable in self._values

    def get(self, variable: Variable) -> np.ndarray:
        """Return the value of a persistent variable, initialised if it has none yet."""
        with self._lock:
            self.initialize([variable])
            if self.recorded is not None:
                self.recorded.flush()
            self._counts["read"] += 1
            return self._values.numpy(variable)

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return the value of a persistent variable before the last evaluation that changed it.

        None if it is not kept: after `set`, or where only some rows were written.
        """
        with self._lock:
            self._check_open()
            return self._values.before(variable)

    def set(self, variable: Variable, array: ArrayLike, copy: bool = True) -> None:
        """Store a value for a persistent variable.

        With `copy=False` the caller must not use the array again: it may become the value itself.
        """
        check_persistent(variable)
        array = feed_array(variable, array)
        with self._lock:
            self._check_open()
            self._store(variable, array, copy)

    def stored(self) -> list[Variable]:
        """Return the variables that have a value."""
        with self._lock:
            self._check_open()
            if self.recorded is not None:
                self.recorded.flush()  # what is recorded may give a variable its first value
            return [v for v in self._values.variables() if v.setting is None]

    @property
    def has_values(self) -> bool:
        """Whether any persistent variable has a value."""
        return self._values is not None and bool(self._values.variables())

    def values(self) -> dict[Variable, np.ndarray]:
        """Return all stored values, {Variable: array}."""
        with self._lock:
            return {v: self._values.numpy(v) for v in self.stored()}

    def load_values(self, values: Mapping[Variable, ArrayLike]) -> None:
        """Store the values {Variable: array}, such as `values()` of another session, or none."""
        with Undo(self):
            for v, array in values.items():
                self.set(v, array)

    def put_back(self, kept: Mapping[Variable, Any]) -> None:
        """Take values back to what a journal has kept of them, or to none."""
        for v, value in kept.items():
            if self.recorded is not None and v in self._values:
                self.recorded.before_store(v)
            self._values.put_back(v, value)
        self.version += 1
        if not all(v in self._values for v in kept):
            self._drop_steps()  # which know that their variables had values
            if self.recorded is not None:
                self.recorded.lost_values()

    def state(self) -> dict[str, Any]:
        """Return seed, draws and all stored values by name, for `restore`.

        Rows of sharded tables are not among them, only the names of the tables.
        """
        with self._lock:
            stored = self.stored()
            own = {v.name: self._values.numpy(v) for v in without_shards(stored)}
            values = {**self.waiting, **own}
            return state_of(self.seed, self.draws, values, stored)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state`, perhaps of another process that built the same graph.

        Values belong to the variables of their names; one that does not exist yet takes its value
        when it is first used. ShapeError, and nothing is changed, if a variable has another shape
        or dtype; GraphError if there is a sharded table whose rows were not loaded before;
        ValueError if it is no such state.
        """
        seed, draws, arrays, waiting = restorable(state, self.stored())
        with Undo(self):
            self._check_open()
            self.seed, self.draws, self.waiting = seed, draws, waiting
            for v, array in arrays.items():
                self._store(v, array)

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise the error that `restore` would raise; change nothing."""
        restorable(state, self.stored())

    def val(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value of persistent state, or of what the last evaluation fetched.

        NotComputed if there was none: nothing is evaluated here.
        """
        if variable.value is not None:
            return variable.value.copy()
        if variable.is_persistent:
            return self.get(variable)
        with self._lock:
            self._check_open()
            if variable not in self._fetched:
                raise NotComputed(
                    f"{variable!r} was not fetched yet\n"
                    "  hint: eval() computes it, val() never does"
                )
            return self._fetched[variable].copy()

    def close(self) -> None:
        """Release values and programs; the session cannot be used any more."""
        with self._lock:
            self.clear_programs()
            self._values = None
            self._fetched.clear()

    def clear_programs(self) -> None:
        """Drop all programs; what is evaluated again is compiled again."""
        with self._lock:
            self._drop_steps()
            if self.recorded is not None:
                self.recorded.clear_programs()

    def _drop_steps(self):
        for steps in (self._steps, self.calls, self.checks, self.needs):
            steps.clear()

    def _check_open(self):
        if self._values is None:
            raise RuntimeError("this session is closed")

    def __enter__(self) -> Self:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        entered = _entered.get()  # blocks of generators may end in any order
        last = max(k for k, session in enumerate(entered) if session is self)
        _entered.set(entered[:last] + entered[last + 1 :])


# ---- the default session

_default: list[Session] = []
_reset_functions: list[Callable[[], None]] = []
_default_lock = Lock()
_entered: ContextVar[tuple[Session, ...]] = ContextVar("pd_core.session", default=())


def default_session() -> Session:
    """Return the session of the innermost `with session:`, else one created on first use."""
    entered = _entered.get()
    if entered:
        return entered[-1]
    if not _default:
        with _default_lock:
            if not _default:
                _default.append(Session())
    return _default[0]


def use_device(device: str) -> None:
    """Move the default session, which must not hold values yet, to a device; see `Session`.

    PlaceError if it holds values on another device, or if there is no such device.
    """
    session = Session(device)
    with _default_lock:
        old = _default[0] if _default else None
        if old is not None and old.device == session.device:
            return
        if old is not None and old.has_values:
            raise PlaceError(
                f"the default session keeps values on {old.device}, it cannot move to {device}\n"
                "  hint: call use_device() first of all, or reset() before it"
            )
        if old is not None:
            session.seed, session.check_numerics = old.seed, old.check_numerics
        _default[:] = [session]


def reset(seed: int | None = None) -> None:
    """Replace the default session by a new one on the same device, and clear all names."""
    clear_names()
    with _default_lock:
        device = _default[0].device if _default else "cpu"
        _default[:] = [Session(device, 0 if seed is None else seed)]
    for function in _reset_functions:
        function()


def on_reset(function: Callable[[], None]) -> None:
    """Call a function after every `reset`, for what a library above keeps of the graph by name."""
    _reset_functions.append(function)


@contextmanager
def fresh(seed: int = 0, device: str = "cpu") -> Iterator[Session]:
    """Use a new session and an empty set of names for the length of a `with`."""
    with fresh_names(), Session(device, seed) as session:
        yield session
