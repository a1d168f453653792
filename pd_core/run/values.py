"""Values: what a session owns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from ..backend.base import Backend
from ..backend.base import Values as Arrays
from ..graph.errors import DTypeError, NotComputed
from ..graph.initializers import Initializer
from ..graph.variable import Variable
from .draws import draw_rows, initial_value
from .entered import check_values_here
from .exchange import draw_seed
from .feeds import check_persistent, feed_array
from .freeing import Garbage
from .recorded import Recorded
from .restoring import Restorable, first_value, restorable, state_of, without_shards
from .touched import Touched

_NAMES = "evaluations", "compiled", "operators", "fed", "fetched", "stored", "read"


class Values:
    """The arrays of persistent variables, the seed, and the places of random draws.

    `arrays` are the values on the device. `fetched` are the last fetches of other
    variables, `counts` those of `stats`. `version` grows with every change of stored values;
    `touched` tells what was changed outside of exchanged steps. `recorded` is what `pd.guard()` has
    recorded, which may need a value from before a change.
    """

    def __init__(self, backend: Backend, seed: int):
        self._empty = backend.values
        self.arrays: Arrays = self._empty()
        self.is_closed = False
        self.seed = seed
        self.draws: Counter[int] = Counter()  # of each stream of random numbers
        self.waiting: dict[str, np.ndarray] = {}  # of variables that `restore` did not find
        self.waiting_rows: dict[str, np.ndarray] = {}  # the same of sharded tables
        self.journals: list[Any] = []  # of each `Undo`, of the values before
        self.version = 0
        self.touched = Touched()
        self.counts: Counter[str] = Counter()
        self.fetched: WeakKeyDictionary[Variable, np.ndarray] = WeakKeyDictionary()
        self.recorded: Recorded | None = None
        self.epoch = object()  # another one once a variable has lost its value
        self.lock = RLock()  # while it is held, no other thread evaluates
        self._garbage = Garbage()

    def check_open(self) -> None:
        """Raise a RuntimeError if the session is closed."""
        if self.is_closed:
            raise RuntimeError("this session is closed")

    def close(self) -> None:
        """Release all values."""
        with self.lock:
            self.is_closed, self.epoch = True, object()
            self.arrays = self._empty()
            self.fetched.clear()

    # ---- for programs

    def start(self, program: Any) -> None:
        """Draw the initial values that a program reads, before its first run."""
        self.check_open()
        if program.started is None:
            self.counts["compiled"] += program.is_new
        self.initialize([state() for state in program.states])
        program.started = self.epoch

    def draw_rows(self, streams: Sequence[Any], steps: int = 0) -> np.ndarray | None:
        """Return (seed, place, stream) for each random draw of a program; see `draws`."""
        return draw_rows(draw_seed(self.seed), self.draws, streams, steps)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Run programs in a `with` of which neither runs nor random draws count."""
        draws, counts = self.draws, self.counts
        self.draws, self.counts = Counter(draws), Counter(counts)
        try:
            yield
        finally:
            for name in ("compiled", "stored", "read"):
                counts[name] = self.counts[name]
            self.draws, self.counts = draws, counts

    @contextmanager
    def replay(self, draws: Mapping[int, int]) -> Iterator[None]:
        """Repeat the random numbers from `draws` on in a `with`; they do not count as drawn."""
        with self.lock:
            current, self.draws = self.draws, Counter(draws)
            try:
                yield
            finally:
                self.draws = current

    # ---- one variable

    def initialize(self, variables: Iterable[Variable]) -> None:
        """Draw the initial values of the variables that have none."""
        with self.lock:
            self.check_open()
            new = [v for v in dict.fromkeys(variables) if v not in self.arrays]
            if new:
                check_values_here(self, new)
                self._garbage.collect_before(new, self.arrays)
            for v in new:
                if v.storage.setting is not None:
                    v.storage.setting.sessions.add(self)
                self.store(v, first_value(self, v), first=True)

    def store(self, v: Variable, array: np.ndarray, copy: bool = True, first: bool = False) -> None:
        """Store an array of the variable's type, `first` if it has none; see `set`."""
        if self.recorded is not None and not first:
            self.recorded.before_store(v)
        for journal in self.journals:
            journal.values.setdefault(v, self.arrays.kept(v))
        self.counts["stored"] += 1
        self.version += 1
        if not first:
            self.touched.by_host(v)
        self.arrays.set(v, array, copy)

    def store_setting(self, variable: Variable, array: np.ndarray) -> None:
        """Store the number of a Setting, unless the session is closed."""
        with self.lock:
            if not self.is_closed:
                self.arrays.set(variable, array)
                self.version += 1

    def set(self, variable: Variable, array: ArrayLike, copy: bool = True) -> None:
        """Store a value for a persistent variable.

        With `copy=False` the caller must not use the array again: it may become the value itself.
        """
        check_persistent(variable)
        fitting = feed_array(variable, array)
        with self.lock:
            self.check_open()
            self.store(variable, fitting, copy)

    def redraw(self, variable: Variable, initializer: Initializer) -> None:
        """Store what an initializer draws for a persistent variable of floats."""
        check_persistent(variable)
        if variable.dtype.kind != "f":
            raise DTypeError(f"{variable!r} holds no floats to draw")
        self.set(variable, initial_value(self.seed, variable, initializer), copy=False)

    def has(self, variable: Variable) -> bool:
        """Return whether a persistent variable has a value already."""
        self.check_open()
        return variable in self.arrays

    def get(self, variable: Variable) -> np.ndarray:
        """Return the value of a persistent variable, initialised if it has none yet."""
        with self.lock:
            self.initialize([variable])
            if self.recorded is not None:
                self.recorded.flush()
            self.counts["read"] += 1
            return self.arrays.numpy(variable)

    def current(self, variable: Variable, copy: bool = True) -> np.ndarray:
        """Return the stored value of a persistent variable; a view is to be read at once."""
        return self.arrays.numpy(variable) if copy else self.arrays.view(variable)

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return the value of a persistent variable before the last evaluation that changed it.

        None if it is not kept: after `set`, or where only some rows were written.
        """
        with self.lock:
            self.check_open()
            return self.arrays.before(variable)

    def release(self, variable: Variable) -> Any:
        """Return the value before the last evaluation, which is not used for another step then."""
        return self.arrays.release(variable)

    def val(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value of persistent state, or of what the last evaluation fetched.

        NotComputed if there was none: nothing is evaluated here.
        """
        if variable.value is not None:
            return variable.value.copy()
        if variable.is_persistent:
            return self.get(variable)
        with self.lock:
            self.check_open()
            if variable not in self.fetched:
                raise NotComputed(
                    f"{variable!r} was not fetched yet\n"
                    "  hint: eval() computes it, val() never does"
                )
            return self.fetched[variable].copy()

    def show(self, arrays: Mapping[Any, np.ndarray], targets: Iterable[Any]) -> None:
        """Keep what an evaluation of targets has fetched, for `val`."""
        fetched = [v for v in targets if isinstance(v, Variable) and not v.is_persistent]
        self.fetched.update({v: arrays[v] for v in fetched})

    # ---- all variables

    def variables(self) -> list[Variable]:
        """Return the variables that have a value."""
        with self.lock:
            self.check_open()
            if self.recorded is not None:
                self.recorded.flush()  # what is recorded may give a variable its first value
            return [v for v in self.arrays.variables() if v.storage.setting is None]

    @property
    def is_empty(self) -> bool:
        """Whether no persistent variable has a value."""
        return self.is_closed or not self.arrays.variables()

    def all(self) -> dict[Variable, np.ndarray]:
        """Return all stored values, {Variable: array}."""
        with self.lock:
            return {v: self.arrays.numpy(v) for v in self.variables()}

    def put_back(self, kept: Mapping[Variable, Any]) -> None:
        """Take values back to what a journal has kept of them, or to none."""
        for v, value in kept.items():
            if self.recorded is not None and v in self.arrays:
                self.recorded.before_store(v)
            self.arrays.put_back(v, value)
        self.version += 1
        if not all(v in self.arrays for v in kept):
            self.epoch = object()

    def stats(self) -> dict[str, int]:
        """Return counts of the work so far."""
        return {name: self.counts[name] for name in _NAMES}

    # ---- the state of a session

    def state(self) -> dict[str, Any]:
        """Return seed, draws and all stored values by name, for `restore`."""
        with self.lock:
            stored = self.variables()
            own = {v.name: self.arrays.numpy(v) for v in without_shards(stored)}
            return state_of(self.seed, self.draws, {**self.waiting, **own}, stored)

    def restorable(self, state: Mapping[str, Any]) -> Restorable:
        """Return what `restore` takes of a `state`; the errors of `Session.restore`."""
        return restorable(state, self.variables())

    def restore(
        self,
        seed: int,
        draws: Counter[int],
        arrays: Mapping[Variable, np.ndarray],
        waiting: dict[str, np.ndarray],
    ) -> None:
        """Go back to a state; `waiting` are the values of variables that do not exist yet."""
        self.check_open()
        self.seed, self.draws, self.waiting = seed, draws, waiting
        for v, array in arrays.items():
            self.store(v, array)
