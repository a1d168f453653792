"""Names: who owns which variable, and the `with` scopes that prefix them."""

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from .errors import NameConflict, ShapeError
from .variable import Variable

_path = ContextVar("pd_core.namespace", default="")


class Names:
    """The variables of one world by full name, and the counters of its automatic names."""

    def __init__(self):
        self.variables: dict[str, Variable] = {}
        self.counters = Counter()
        self.lock = Lock()

    def next(self, prefix, path=None):
        """The next automatic name under a namespace: `fc_0`, `fc_1`, …"""
        key = (_path.get() if path is None else path) + prefix
        with self.lock:
            number = self.counters[key]
            self.counters[key] += 1
        return f"{key}{number}"


_process = Names()  # 2017 scripts and notebooks count for the life of the process
_names = ContextVar("pd_core.names")


def names() -> Names:
    """The names in force: those of the process, or of the innermost `fresh_names()`."""
    return _names.get(_process)


def clear_names():
    """Forget every name and restart the counters."""
    current = names()
    with current.lock:
        current.variables.clear()
        current.counters.clear()


@contextmanager
def fresh_names():
    """An empty set of names for the length of a `with`; what was there before comes back."""
    token = _names.set(Names())
    try:
        yield _names.get()
    finally:
        _names.reset(token)


def current_namespace() -> str:
    """The prefix in force, `''` or ending in `/`."""
    return _path.get()


def register(v: Variable, name: str | None):
    """Name a variable: an explicit name must be free, without one it becomes `var-<n>`."""
    world = names()
    if name is None:
        v.name = world.next("var-")
        world.variables[v.name] = v
        return
    full = _path.get() + name
    with world.lock:
        if full in world.variables:
            raise NameConflict(
                f"variable {full!r} exists already as {world.variables[full]!r}\n"
                "  hint: get_variable() returns the existing one"
            )
        world.variables[full] = v
    v.name = full


class Namespace:
    """A prefix that owns variables: `g.W` is the variable `g/W`, `g.variables()` the list."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == (other.name if isinstance(other, Namespace) else other)

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"namespace({self.name!r})"

    def __getattr__(self, name):
        try:
            return names().variables[self.name + name]
        except KeyError:
            raise AttributeError(f"namespace {self.name!r} owns no variable {name!r}") from None

    def variables(self):
        """The parameters under this prefix, in creation order."""
        return trainable_variables(self.name)


@contextmanager
def namespace(name=None):
    """Prefix the names made inside with `name/`; may nest and be entered again.

    Affects names only, never visibility. Without a name an automatic one is drawn.
    """
    if isinstance(name, Namespace):
        path = name.name
    else:
        path = (_path.get() + name if name else names().next("ns-")) + "/"
    token = _path.set(path)
    try:
        yield Namespace(path)
    finally:
        _path.reset(token)


def get_variable(name, shape=None, *, data=None, dtype=None, reuse=None, **attributes):
    """The variable `name` of the current namespace, created if it is missing.

    `reuse=False` insists on a new one (NameConflict otherwise). An existing one must agree in
    shape and dtype (ShapeError); a missing one needs a shape or data (KeyError).
    """
    full = _path.get() + name
    existing = names().variables.get(full)
    if existing is None:
        if shape is None and data is None:
            raise KeyError(f"no variable {full!r}, and neither shape nor data to create it from")
        return Variable(name, shape=shape, data=data, dtype=dtype, **attributes)
    if reuse is False:
        raise NameConflict(f"variable {full!r} exists already as {existing!r}, and reuse is False")
    if shape is not None and tuple(shape) != existing.shape:
        raise ShapeError(f"variable {full!r} is {existing.shape} elsewhere, {tuple(shape)} here")
    if dtype is not None and existing.dtype != dtype:
        raise ShapeError(f"variable {full!r} is {existing.dtype} elsewhere, {dtype} here")
    return existing


def persistent_variables(prefix=""):
    """Every variable with a value of its own under a prefix, in creation order."""
    prefix = prefix.name if isinstance(prefix, Namespace) else prefix
    found = names().variables.items()
    return [v for name, v in list(found) if name.startswith(prefix) and v.is_persistent]


def trainable_variables(prefix=""):
    """The trainable variables under a prefix (`'g/'`), in creation order."""
    return [v for v in persistent_variables(prefix) if v.trainable]


def adopt(v: Variable) -> Variable:
    """Register a variable under the full name it has already (optimizer slots)."""
    world = names()
    with world.lock:
        if v.name in world.variables:
            raise NameConflict(f"variable {v.name!r} exists already")
        world.variables[v.name] = v
    return v
