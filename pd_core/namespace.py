"""Names: who owns which variable, and the `with` scopes that prefix them."""

from collections import Counter, deque
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import RLock
from weakref import ref

from .errors import DTypeError, NameConflict, ShapeError
from .site import site_text
from .variable import Variable, as_array

_open = ContextVar("pd_core.namespace", default=("",))  # the prefixes in force, outermost first


class Registry:
    """Variables by full name, in creation order; reading it is safe while threads add to it.

    One that was added as `weak` goes when nothing else holds it, and its name is free again.
    """

    def __init__(self):
        self._entries: dict[str, Variable | ref] = {}
        # A weak reference may die at any point of any thread: its entry is removed with the next
        # addition, under the lock of who adds.
        self._dead = deque()

    def __getitem__(self, name):
        v = _referent(self._entries[name])
        if v is None:
            raise KeyError(name)
        return v

    def get(self, name, default=None):
        v = _referent(self._entries.get(name))
        return default if v is None else v

    def __contains__(self, name):
        return self.get(name) is not None

    def __iter__(self):
        return iter([name for name, _ in self.items()])

    def items(self):
        """(name, Variable) pairs, as they are now."""
        entries = self._entries.copy().items()  # the copy is one operation of the interpreter
        found = [(name, _referent(entry)) for name, entry in entries]
        return [(name, v) for name, v in found if v is not None]

    def add(self, name, v, weak=False) -> Variable:
        """The Variable of that name: `v`, if there is none yet. Call it under the lock of Names."""
        self._sweep()
        first = self.get(name)
        if first is not None:
            return first
        self._entries.pop(name, None)  # in creation order, also where a dead one had the name
        self._entries[name] = ref(v, partial(_note, self._dead, name)) if weak else v
        return v

    def remove(self, name):
        """Free a name, if it is taken."""
        self._entries.pop(name, None)

    def clear(self):
        self._entries.clear()

    def _sweep(self):
        while self._dead:
            name, entry = self._dead.popleft()
            if self._entries.get(name) is entry:
                del self._entries[name]


def _referent(entry):
    return entry() if type(entry) is ref else entry


def _note(dead, name, entry):
    dead.append((name, entry))


class Names:
    """The variables of one world by full name, and the counters of its automatic names."""

    def __init__(self):
        self.variables = Registry()
        self.counters = Counter()
        self.sizes: dict[str, str] = {}  # what a file calls sizes that have no name of their own
        self.equal_sizes: dict[str, str] = {}  # sizes that have one name in a file
        self.lock = RLock()

    def next(self, prefix, path=None):
        """The next automatic name under a namespace: `fc_0`, `fc_1`, …"""
        key = (current_namespace() if path is None else path) + prefix
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
        current.sizes.clear()
        current.equal_sizes.clear()


def remember_sizes(pairs, called):
    """Note what exports call sizes that have no name: (size, its name in a file or None).

    `called` are the sizes by name that were met in the same file.
    """
    known = names()
    for size, name in pairs:
        if not name or not isinstance(size, str):
            continue
        first = called.setdefault(name, size)
        if not size.startswith("?"):
            continue
        if first == size:
            known.sizes.setdefault(size, name)
        else:
            known.equal_sizes.setdefault(size, first)


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
    return _open.get()[-1]


def register(v: Variable, name: str | None):
    """Name a variable: an explicit name must be free, without one it becomes `var-<n>`."""
    world = names()
    if name is None:
        with world.lock:
            v.name = _free(world)
            world.variables.add(v.name, v)
        return
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {name!r}")
    v.name = current_namespace() + name
    adopt(v)


def _free(world):
    name = world.next("var-")
    while name in world.variables:
        name = world.next("var-")
    return name


def adopt(v: Variable, weak=False, replace=False) -> Variable:
    """Register a variable under the full name it has already.

    If `weak` it stays registered only as long as something else holds it (optimizer slots). With
    `replace` it takes the name over from another that has it.
    """
    world = names()
    with world.lock:
        if replace:
            world.variables.remove(v.name)
        first = world.variables.add(v.name, v, weak)
    if first is not v:
        where = f", made at {site_text(first.site)}" if first.site else ""
        raise NameConflict(
            f"variable {v.name!r} exists already: {first!r}{where}\n"
            "  hint: get_variable() returns the existing one"
        )
    return v


class Namespace:
    """A prefix for names, `g.name == "g/"`; `g.W` is the variable `g/W`.

    A `with` on it prefixes the names made inside; it may nest and be entered again, and another
    thread does not see it.
    """

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Namespace) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"namespace({self.name!r})"

    def __enter__(self):
        _open.set((*_open.get(), self.name))
        return self

    def __exit__(self, *exc):
        _open.set(_open.get()[:-1])

    def __getattr__(self, name):
        try:
            return names().variables[self.name + name]
        except KeyError:
            raise AttributeError(f"namespace {self.name!r} owns no variable {name!r}") from None

    def variables(self):
        """Every variable with a value of its own under this prefix, frozen or not."""
        return persistent_variables(self.name)


def namespace(name=None) -> Namespace:
    """Prefix the names made inside a `with` by `name/`, below the prefix in force.

    Affects names only, never visibility. Without a name an automatic one is drawn; a Namespace
    is entered again as it is, wherever that happens.
    """
    if isinstance(name, Namespace):
        return name
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the name of a namespace is a str, not {name!r}")
    stem = name.strip("/") if name else ""
    return Namespace(f"{current_namespace() + stem if stem else names().next('ns-')}/")


def get_variable(name, shape=None, *, data=None, dtype=None, reuse=None, **attributes):
    """The variable `name` of the current namespace, created if it is missing.

    `reuse=False` insists on a new one (NameConflict otherwise). An existing one must agree in
    shape (ShapeError) and dtype (DTypeError); a missing one needs a shape or data (KeyError).
    """
    full, world = current_namespace() + name, names()
    with world.lock:
        existing = world.variables.get(full)
        if existing is None:
            if shape is None and data is None:
                raise KeyError(f"no variable {full!r}, and neither shape nor data to create it")
            return Variable(name, shape=shape, data=data, dtype=dtype, **attributes)
    if reuse is False:
        raise NameConflict(f"variable {full!r} exists already as {existing!r}, and reuse is False")
    if shape is None and data is not None:
        shape = as_array(data, dtype, f"variable {full!r}").shape
    if shape is not None and tuple(shape) != existing.shape:
        raise ShapeError(f"variable {full!r} is {existing.shape} elsewhere, {tuple(shape)} here")
    if dtype is not None and existing.dtype != dtype:
        raise DTypeError(f"variable {full!r} is {existing.dtype} elsewhere, {dtype} here")
    return existing


def persistent_variables(prefix=""):
    """Every variable with a value of its own under a prefix, in creation order."""
    prefix = prefix.name if isinstance(prefix, Namespace) else prefix
    found = names().variables.items()
    return [v for name, v in found if name.startswith(prefix) and v.is_persistent]


def trainable_variables(prefix=""):
    """The trainable variables under a prefix (`'g/'`), in creation order."""
    return [v for v in persistent_variables(prefix) if v.trainable]
