"""Sessions: they own the values of persistent variables and run targets."""

import gc
import warnings
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, RLock
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from ..backend import program
from ..backend.ort import OrtBackend, devices
from ..backend.reference import ReferenceBackend
from ..graph.errors import BackendError, NotComputed, NotInitialized, PlaceError, ShapeError
from ..graph.names import clear_names, fresh_names
from ..graph.namespace import persistent_variables
from ..graph.node import ancestors
from ..graph.update import Update
from ..graph.variable import Variable, provide
from .exchange import Exchange
from .feeds import feed_array, feed_arrays
from .feeds import variable as fed_variable
from .step import Step, Steps, located, step_key

_COLLECTED_BYTES = 1 << 26  # 64 MiB


class Session:
    """The values of one run of a graph, on one device.

    `device` is `cpu`, `cuda:0`, …, `auto` (CUDA if there is any, else the CPU and a warning) or
    `reference` (ONNX's own evaluator, slow). The same graph in two sessions has two sets of
    values. `seed` decides initial values and random draws. Threads may share a session: it
    evaluates for one at a time.
    """

    def __init__(self, device="cpu", seed=0):
        self.backend = _backend(device)
        self.seed = seed
        self.draws = Counter()  # how often each stream of random numbers was drawn from
        self.version = 0  # how often stored values have changed
        self._counts = Counter()
        self._values = self.backend.values()
        self._steps = Steps()
        self._fetched = WeakKeyDictionary()
        self._lock = RLock()
        self._exchange = None

    @property
    def device(self) -> str:
        return self.backend.device

    def eval(self, targets, feeds=None, training=None):
        """Compute targets: Variables and Updates, alone or in lists, tuples and dicts.

        `feeds` maps Variables, or their names, to arrays; any variable may be fed, which cuts the
        graph there. Only what the targets need runs, once; all reads see the values from before
        the call, and all updates are stored together at its end. `training` chooses the side of
        mode switches; by default a call with a training step is training.
        """
        flat = []
        _flatten(targets, flat)
        fed = feed_arrays(feeds, lambda: _computed(flat)) if feeds else {}
        updates = list(dict.fromkeys(t for t in flat if isinstance(t, Update)))
        fetches = list(dict.fromkeys(t for t in flat if isinstance(t, Variable)))
        if training is None:
            training = any(u.training for u in updates)
        with self._lock:
            self._check_open()
            results = self._run(fetches, updates, fed, training)
            found = dict(zip(fetches, results, strict=True))
            for v, array in found.items():
                if not v.is_persistent:
                    self._fetched[v] = array
        return _mirror(targets, found)

    def _run(self, fetches, updates, fed, training):
        exchange = Exchange(self._exchange, updates) if self._exchange else None
        seam = () if exchange is None else exchange.seam
        key = step_key(fetches, updates, fed, training, bool(seam))
        step = self._steps.get(key)
        if step is None:
            self._collect()
            step = Step(self.backend, fetches, updates, fed, training, seam)
            self._steps.add(key, step)
            self._counts["compiled"] += step.compiled
        if not step.initialized:
            self.initialize([state() for state in step.states])
            step.initialized = True
        drawn = [(v, self._drawn(v)) for v in step.redrawn]
        seed = [[self.seed, self.draws[k], k] for k in step.draws]
        self.version += step.changes
        seed = np.array(seed, np.int64) if seed else None
        try:
            results = step.run(fed, self._values, seed, exchange if seam else None)
        except BackendError as error:
            if step.compiled or error.place is None:
                raise
            raise located(error, self.backend, fetches, updates, seam, fed, training) from error
        for draw in step.draws:
            self.draws[draw] += 1
        self._count(step, results)
        for v, array in (*step.constants, *drawn):
            self._store(v, array)
        return results

    def _collect(self):
        """Free the slots of updates that are gone, once they may be many bytes.

        Nodes and their outputs refer to each other, and the interpreter's collector, which would
        find that nobody needs them, counts objects: it knows nothing of the size of values.
        """
        if self._steps.spent > _COLLECTED_BYTES:
            self._steps.spent = 0
            gc.collect()

    def _count(self, step, results):
        counts = self._counts
        counts["evaluations"] += 1
        counts["operators"] += step.operators
        counts["fed"] += len(step.fed)
        counts["fetched"] += len(results)

    @contextmanager
    def exchanging(self, exchange):
        """Call a function between the gradients and the update of every training step in a `with`.

        `exchange(gradients)` gets {parameter: gradient} of the trainable parameters of the step, as
        arrays, and returns the same with the gradients to update with; that of a `row_sparse`
        parameter is a pair (rows [K], values [K, ...]), whose number of rows may change. Clipping
        and regularizers come after it. A step without gradients runs as it would without.
        """
        before, self._exchange = self._exchange, exchange
        try:
            yield
        finally:
            self._exchange = before

    @contextmanager
    def replay(self, draws):
        """Draw the random numbers that follow `draws`, for the length of a `with`, and undraw them.

        `draws` is a copy of the attribute; other threads wait.
        """
        with self._lock:
            kept, self.draws = self.draws, Counter(draws)
            try:
                yield
            finally:
                self.draws = kept

    # ---- values

    def initialize(self, variables):
        """Draw the initial values of the variables that have none."""
        with self._lock:
            self._check_open()
            for v in variables:
                if v not in self._values:
                    self._store(v, self._drawn(v))

    def _store(self, v, array, copy=True):
        self._counts["stored"] += 1
        self.version += 1
        self._values.set(v, array, copy)

    def stats(self) -> dict:
        """What the session did so far, as counts.

        `evaluations`, of `compiled` different kinds; `operators` run; arrays that crossed between
        host and device: `fed`, `fetched`, and of persistent values `stored` and `read`. Training
        leaves the last two alone: parameters and slots stay on the device between steps.
        """
        names = "evaluations", "compiled", "operators", "fed", "fetched", "stored", "read"
        return {name: self._counts[name] for name in names}

    def _drawn(self, v):
        if v.fill is None:
            raise NotInitialized(f"{v!r} has neither a value nor an initializer")
        rng = np.random.default_rng([self.seed, crc32(v.name.encode())])
        array = np.asarray(v.fill(v.dims, rng))
        if array.shape != v.dims:
            raise ShapeError(f"the initializer of {v!r} gave an array of {list(array.shape)}")
        return array

    def has(self, variable) -> bool:
        """Whether a persistent variable has a value already."""
        return variable in self._values

    def get(self, variable) -> np.ndarray:
        """The value of a persistent variable, initialised if it has none yet."""
        with self._lock:
            self.initialize([variable])
            self._counts["read"] += 1
            return self._values.numpy(variable)

    def before(self, variable) -> np.ndarray | None:
        """The value of a persistent variable before the last evaluation that changed it.

        None if it is not kept: nothing changed it but `set`, or only some of its rows were written.
        """
        with self._lock:
            self._check_open()
            return self._values.before(variable)

    def set(self, variable, array, copy=True):
        """Store a value for a persistent variable.

        Without a copy the array is given away: it may become the value itself.
        """
        if not variable.is_persistent:
            raise ShapeError(f"{variable!r} keeps no value; feed it instead")
        array = feed_array(variable, array)
        with self._lock:
            self._check_open()
            self._store(variable, array, copy)

    @property
    def has_values(self) -> bool:
        """Whether it keeps the value of any persistent variable."""
        return self._values is not None and bool(self._values.variables())

    def values(self) -> dict:
        """All stored values, {Variable: array}."""
        with self._lock:
            self._check_open()
            return {v: self._values.numpy(v) for v in self._values.variables()}

    def load_values(self, values):
        """Store many values, as `values()` of another session gives them."""
        for v, array in values.items():
            self.set(v, array)

    def val(self, variable) -> np.ndarray:
        """The current value of persistent state, or what the last evaluation fetched: a copy."""
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

    def close(self):
        """Release values and programs; the session cannot be used any more."""
        with self._lock:
            self._values = None
            self._steps.clear()
            self._fetched.clear()

    def _check_open(self):
        if self._values is None:
            raise RuntimeError("this session is closed")

    def __enter__(self):
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exc):
        _entered.set(_entered.get()[:-1])


def _backend(device):
    if device == "reference":
        return ReferenceBackend()
    if device == "auto":
        cuda = devices()[1:]
        if not cuda:
            warnings.warn("there is no CUDA device here, so this is the CPU", stacklevel=3)
        device = cuda[0] if cuda else "cpu"
    return OrtBackend(device)


def _computed(targets):
    """The Variables that targets need: themselves, and the new values of Updates."""
    updates = [t for t in targets if isinstance(t, Update)]
    new = [a.value for u in updates for a in u.assignments]
    return [t for t in targets if isinstance(t, Variable)] + new


def _flatten(targets, out):
    if isinstance(targets, (Variable, Update)):
        out.append(targets)
    elif isinstance(targets, (list, tuple)):
        for t in targets:
            _flatten(t, out)
    elif isinstance(targets, dict):
        for t in targets.values():
            _flatten(t, out)
    else:
        raise TypeError(f"a target is a Variable or an Update, not {targets!r}")


def _mirror(targets, found):
    if isinstance(targets, Variable):
        return found[targets]
    if isinstance(targets, Update):
        return None
    if isinstance(targets, dict):
        return {k: _mirror(t, found) for k, t in targets.items()}
    kind = type(targets)
    make = getattr(kind, "_make", kind)  # a named tuple takes its fields one by one
    return make(_mirror(t, found) for t in targets)


# ---- the default session

_default: list[Session] = []
_making = Lock()
_entered = ContextVar("pd_core.session", default=())


def default_session() -> Session:
    """The session in force: the innermost `with session:`, or one that is made on first use."""
    entered = _entered.get()
    if entered:
        return entered[-1]
    if not _default:
        with _making:
            if not _default:
                _default.append(Session())
    return _default[0]


def use_device(device):
    """Put the default session on a device, see `Session`, before it keeps any values.

    PlaceError if it keeps some on another device, or if there is no such device.
    """
    made = Session(device)
    with _making:
        old = _default[0] if _default else None
        if old is not None and old.device == made.device:
            return
        if old is not None and old.has_values:
            raise PlaceError(
                f"the default session keeps values on {old.device}, it cannot move to {device}\n"
                "  hint: call use_device() first of all, or reset() before it"
            )
        made.seed = 0 if old is None else old.seed
        _default[:] = [made]


def reset(seed=None):
    """A fresh default session on the same device, and no names."""
    clear_names()
    with _making:
        device = _default[0].device if _default else "cpu"
        _default[:] = [Session(device, 0 if seed is None else seed)]


@contextmanager
def fresh(seed=0, device="cpu"):
    """A session and names of its own for the length of a `with`."""
    with fresh_names(), Session(device, seed) as session:
        yield session


def eval(targets, feeds=None, training=None):
    """Compute targets in the default session; see `Session.eval`."""
    return default_session().eval(targets, feeds, training)


def stats() -> dict:
    """What the default session did so far; see `Session.stats`."""
    return default_session().stats()


def subgraph(targets, feeds=(), training=False):
    """The nodes that evaluating these targets would run, in order."""
    flat = []
    _flatten(targets, flat)
    variables = _computed(flat)
    cut = [fed_variable(key, lambda: variables) for key in feeds]
    return ancestors(program.build(variables, [], cut, training, {}, complete=False).fetches)


def variable_initializers(vars=None) -> Update:
    """A target that draws the values of these variables anew; of all of them if None."""
    return Update(initialize=persistent_variables() if vars is None else vars)


provide(
    val=lambda v: default_session().val(v),
    eval=eval,
    initializer=lambda v: Update(initialize=[v]),
)
