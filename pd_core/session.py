"""Sessions: they own the values of persistent variables and run targets."""

from contextlib import contextmanager
from contextvars import ContextVar
from zlib import crc32

import numpy as np

from .backend import program
from .backend.ort import OrtBackend
from .backend.reference import ReferenceBackend
from .errors import FeedError, NotComputed, NotInitialized, ShapeError
from .node import Assignment, Update, ancestors
from .variable import Variable, describe


class Session:
    """The values of one run of a graph, on one device.

    `device` is `cpu`, `cuda:0`, … or `reference` (ONNX's own evaluator, slow). The same graph in
    two sessions has two sets of values. `seed` decides initial values and random draws.
    """

    def __init__(self, device="cpu", seed=0):
        self.backend = ReferenceBackend() if device == "reference" else OrtBackend(device)
        self.seed = seed
        self.step = 0
        self._values = self.backend.values()
        self._programs = {}
        self._fetched = {}

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
        self._check_open()
        flat = []
        _flatten(targets, flat)
        fed = self._fed(feeds or {}, flat)
        updates = [t for t in flat if isinstance(t, Update)]
        if training is None:
            training = any(u.training for u in updates)
        for update in updates:
            self.initialize(update.initialize, again=True)
        fetches = list(dict.fromkeys(t for t in flat if isinstance(t, Variable)))
        results = self._run(fetches, updates, fed, training) if fetches or updates else []
        found = dict(zip(fetches, results, strict=True))
        self._fetched.update(found)
        return _mirror(targets, found)

    def _run(self, fetches, updates, fed, training):
        active = tuple(a for u in updates for a in u.assignments if not _frozen(a))
        key = (tuple(fetches), active, tuple(fed), training)
        step = self._programs.get(key)
        if step is None:
            step = self._programs[key] = Step(self.backend, fetches, active, fed, training)
        self.initialize(step.graph.states)
        return step.run(self, fed)

    def _fed(self, feeds, targets):
        """Feeds as {Variable: array}; names are looked up behind the targets."""
        out = {}
        for key, value in feeds.items():
            v = key if isinstance(key, Variable) else self._named(key, targets)
            if v is not None:
                out[v] = feed_array(v, value)
        return out

    def _named(self, name, targets):
        if not isinstance(name, str):
            raise TypeError(f"feeds are keyed by Variables or names, not {name!r}")
        from .namespace import names

        registered = names().variables.get(name)
        if registered is not None:
            return registered
        variables = [v for t in targets for v in (_computed(t))]
        for node in ancestors(variables):
            for v in (*node.inputs, *node.outputs):
                if v is not None and v.name == name:
                    return v
        raise FeedError(f"there is no variable {name!r} to feed")

    # ---- values

    def initialize(self, variables, again=False):
        """Draw the initial values of variables that have none, or of all of them if `again`."""
        for v in variables:
            if again or v not in self._values:
                self._values.set(v, self._drawn(v))

    def _drawn(self, v):
        if v.fill is None:
            raise NotInitialized(f"{v!r} has neither a value nor an initializer")
        rng = np.random.default_rng([self.seed, crc32(v.name.encode())])
        array = np.asarray(v.fill(v.dims, rng))
        if array.shape != v.dims:
            raise ShapeError(f"the initializer of {v!r} gave an array of {array.shape}")
        return array

    def has(self, variable) -> bool:
        """Whether a persistent variable has a value already."""
        return variable in self._values

    def get(self, variable) -> np.ndarray:
        """The value of a persistent variable, initialised if it has none yet."""
        self._check_open()
        self.initialize([variable])
        return self._values.numpy(variable)

    def set(self, variable, array):
        """Store a value for a persistent variable."""
        self._check_open()
        if not variable.is_persistent:
            raise ShapeError(f"{variable!r} keeps no value; feed it instead")
        self._values.set(variable, feed_array(variable, array))

    def values(self) -> dict:
        """All stored values, {Variable: array}."""
        self._check_open()
        return {v: self._values.numpy(v) for v in self._values.variables()}

    def load_values(self, values):
        """Store many values, as `values()` of another session gives them."""
        for v, array in values.items():
            self.set(v, array)

    def val(self, variable) -> np.ndarray:
        """The current value of persistent state, or what the last evaluation fetched."""
        if variable.value is not None:
            return variable.value.copy()
        if variable.is_persistent:
            return self.get(variable)
        if variable not in self._fetched:
            raise NotComputed(
                f"{variable!r} was not fetched yet\n  hint: eval() computes it, val() never does"
            )
        return self._fetched[variable]

    def close(self):
        """Release values and programs; the session cannot be used any more."""
        self._values = None
        self._programs.clear()
        self._fetched.clear()

    def _check_open(self):
        if self._values is None:
            raise RuntimeError("this session is closed")

    def __enter__(self):
        self._token = _current.set(self)
        return self

    def __exit__(self, *exc):
        _current.reset(self._token)


class Step:
    """One compiled program and the order of its feeds."""

    def __init__(self, backend, fetches, assignments, fed, training):
        pairs = _pairs(assignments)
        self.sizes = {}
        for v, array in fed.items():
            self.sizes.update({d: n for d, n in zip(v.dims, array.shape, strict=True)})
        sizes = {d: n for d, n in self.sizes.items() if isinstance(d, str)}
        self.graph = program.build(fetches, pairs, list(fed), training, sizes)
        self.equal = program.equal_sizes(self.graph)
        self.executable = backend.compile(self.graph)
        self.checked = set()

    def run(self, session, fed):
        arrays = [fed[v] for v in self.graph.feeds]
        shapes = tuple(a.shape for a in arrays)
        if shapes not in self.checked:
            self._check_sizes(shapes)
            self.checked.add(shapes)
        seed = None
        if self.graph.seed is not None:
            seed = np.array([session.seed, session.step], np.int64)
        results = self.executable.run(arrays, session._values, seed)
        session.step += 1
        return results

    def _check_sizes(self, shapes):
        """Sizes that the graph takes to be equal are equal in these feeds."""
        sizes, origin = {}, {}
        for v, shape in zip(self.graph.feeds, shapes, strict=True):
            for d, n in zip(v.dims, shape, strict=True):
                if sizes.setdefault(d, n) != n:
                    raise ShapeError(f"feeds disagree: {origin[d]} has {sizes[d]}, {v!r} has {n}")
                origin.setdefault(d, repr(v))
        for a, b in self.equal:
            left, right = (d if isinstance(d, int) else sizes.get(d) for d in (a, b))
            if left is not None and right is not None and left != right:
                who = " and ".join(origin[d] for d in (a, b) if d in origin)
                raise ShapeError(f"sizes {left} and {right} meet, from the feeds {who}")


def _pairs(assignments):
    """(variable, new value), each variable once."""
    chosen = {}
    for a in assignments:
        if a.variable in chosen and chosen[a.variable] is not a.value:
            raise ShapeError(f"two updates of {a.variable!r} in one evaluation")
        chosen[a.variable] = a.value
    return list(chosen.items())


def _frozen(assignment: Assignment):
    return assignment.owner is not None and not assignment.owner.trainable


def _computed(target):
    if isinstance(target, Update):
        return [a.value for a in target.assignments]
    return [target]


def feed_array(v, value) -> np.ndarray:
    """A value as an array of v's dtype and shape; FeedError or ShapeError where it does not fit."""
    array = np.asarray(value)
    if array.dtype != v.dtype:
        if array.dtype.kind not in "fiub" or (array.dtype.kind == "f" and v.dtype.kind in "iu"):
            raise FeedError(f"{v!r} cannot take {array.dtype} values")
        array = array.astype(v.dtype)
    if array.ndim != v.rank or any(
        d != n for d, n in zip(v.dims, array.shape, strict=True) if isinstance(d, int)
    ):
        raise ShapeError(f"{v.name}: fed an array of {array.shape}, it is {describe(v)}")
    return np.ascontiguousarray(array) if array.ndim else array


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
    return type(targets)(_mirror(t, found) for t in targets)


# ---- the default session

_default: list[Session] = []
_current = ContextVar("pd_core.session")


def default_session() -> Session:
    """The session in force: the innermost `with session:`, or one that is made on first use."""
    session = _current.get(None)
    if session is not None:
        return session
    if not _default:
        _default.append(Session())
    return _default[0]


def reset(seed=None):
    """A fresh default session, and no names."""
    from .namespace import clear_names

    clear_names()
    _default[:] = [Session(seed=0 if seed is None else seed)]


@contextmanager
def fresh(seed=0, device="cpu"):
    """A session and names of its own for the length of a `with`."""
    from .namespace import fresh_names

    with fresh_names(), Session(device, seed) as session:
        yield session


def eval(targets, feeds=None, training=None):
    """Compute targets in the default session; see `Session.eval`."""
    return default_session().eval(targets, feeds, training)


def subgraph(targets, feeds=(), training=False):
    """The nodes that evaluating these targets would run, in order."""
    flat = []
    _flatten(targets, flat)
    variables = [v for t in flat for v in _computed(t)]
    graph = program.build(variables, [], list(feeds), training, {}, complete=False)
    return ancestors(graph.fetches, stop=set(feeds))


def variable_initializers(vars=None) -> Update:
    """A target that draws the values of these variables anew; of all of them if None."""
    from .namespace import persistent_variables

    return Update(initialize=persistent_variables() if vars is None else vars)


def _initializer(self):
    """The target that draws this variable's value anew."""
    return Update(initialize=[self])


Variable.val = lambda self: default_session().val(self)
Variable.eval = lambda self, feeds=None: eval(self, feeds)
Variable.initializer = property(_initializer)

