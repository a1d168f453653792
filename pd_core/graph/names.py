"""Names: which variable has which, the prefixes in force, and automatic names.

The variables themselves are of no concern here; anything with a `name` can be registered.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from threading import RLock
from weakref import ref

from .errors import NameConflict
from .site import site_text

_open = ContextVar("pd_core.namespace", default=("",))  # the prefixes in force, outermost first


class Registry:
    """Variables by full name, in creation order; reading it is safe while threads add to it.

    One that was added as `weak` goes when nothing else holds it, and its name is free again.
    """

    def __init__(self):
        self._entries: dict[str, object] = {}
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

    def add(self, name, v, weak=False):
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
        self.counters: dict[str, Iterator[int]] = {}
        self.sizes: dict[str, str] = {}  # what a file calls sizes that have no name of their own
        self.equal_sizes: dict[str, str] = {}  # sizes that have one name in a file
        self.lock = RLock()

    def next(self, prefix, path=None):
        """The next automatic name under a namespace: `fc_0`, `fc_1`, …"""
        key = (current_namespace() if path is None else path) + prefix
        counter = self.counters.get(key)
        if counter is None:  # both calls are one operation of the interpreter: no lock
            counter = self.counters.setdefault(key, count())
        return f"{key}{next(counter)}"


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


def open_prefix(prefix):
    """Put a full prefix in force, until `close_prefix`."""
    _open.set((*_open.get(), prefix))


def close_prefix():
    """Return to the prefix that was in force before the last `open_prefix`."""
    _open.set(_open.get()[:-1])


def current_namespace() -> str:
    """The prefix in force, `''` or ending in `/`."""
    return _open.get()[-1]


def register(v, name: str | None):
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


def adopt(v, weak=False, replace=False):
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
