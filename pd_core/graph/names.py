"""Names: the registry of variables, the prefixes in force, and automatic names.

This module does not know Variables; anything with a `name` can be registered.
"""

import gc
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from threading import RLock
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary, ref

from .cells import cell_run
from .errors import GraphError, NameConflict
from .line_texts import LineText, line_text
from .site import Site, site_text
from .whole import on_failure


class Named(Protocol):
    """Anything that can be registered."""

    name: str
    site: Site | None


_Named = TypeVar("_Named", bound=Named)

# Of a Numbered: its kind, its number, and the text of its line if that is known.
Place = tuple[str, int, LineText | None]

# The prefixes in force, outermost first.
_open: ContextVar[tuple[str, ...]] = ContextVar("pd_core.namespace", default=("",))


class Registry:
    """Variables by full name, in creation order; reading it is safe while threads add to it.

    It keeps no variable alive but those that it is told to `keep`: the name of a variable that
    nothing else refers to is free again.
    """

    def __init__(self) -> None:
        self._entries: dict[str, ref[Any]] = {}
        self._kept: dict[str, Any] = {}
        self._cells: dict[str, Any] = {}  # the run of a cell in which a name was given
        # number of names that begin with `layer.` or `layer/`
        self._layers: Counter[str] = Counter()
        # A weak reference may die at any point of any thread: its entry is removed with the next
        # addition, under the lock of who adds.
        self._dead: deque[tuple[str, ref[Any]]] = deque()

    def __getitem__(self, name: str) -> Any:
        v = self.get(name)
        if v is None:
            raise KeyError(name)
        return v

    def get(self, name: str, default: Any = None) -> Any:
        """Return the Variable of that name, or the default."""
        entry = self._entries.get(name)
        v = None if entry is None else entry()
        return default if v is None else v

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.items()])

    def items(self) -> list[tuple[str, Any]]:
        """Return the (name, Variable) pairs at this moment."""
        entries = self._entries.copy().items()  # the copy is one operation of the interpreter
        variables = [(name, entry()) for name, entry in entries]
        return [(name, v) for name, v in variables if v is not None]

    def add(self, name: str, v: _Named) -> _Named:
        """Return the Variable of that name, after adding `v` if the name is free.

        The caller holds the lock of Names.
        """
        self._sweep()
        first = self.get(name)
        if first is not None:
            return first
        self.remove(name)  # a dead entry must not keep its place in the order
        self._entries[name] = ref(v, partial(_mark_dead, self._dead, name))
        self._layers.update(_layers_of(name))
        run = cell_run()
        if run is not None:
            self._cells[name] = run
        return v

    def is_of_another_cell(self, name: str) -> bool:
        """Return whether a name was given in another run of a notebook's cell than this one."""
        run = cell_run()
        return run is not None and self._cells.get(name, run) != run

    def keep(self, v: Named) -> None:
        """Keep a variable until its name is removed, without any other reference to it."""
        self._kept[v.name] = v

    def has_layer(self, name: str) -> bool:
        """Return whether there are variables `name.W`, `name/W` and the like."""
        return name in self._layers

    def remove(self, name: str) -> None:
        """Free a name, whether or not it is in use."""
        self._kept.pop(name, None)
        self._cells.pop(name, None)
        if self._entries.pop(name, None) is not None:
            for layer in _layers_of(name):
                self._layers[layer] -= 1
                if not self._layers[layer]:
                    del self._layers[layer]

    def clear(self) -> None:
        """Free all names."""
        self._entries.clear()
        self._kept.clear()
        self._cells.clear()
        self._layers.clear()

    def _sweep(self) -> None:
        while self._dead:
            name, entry = self._dead.popleft()
            if self._entries.get(name) is entry:
                self.remove(name)


def _layers_of(name: str) -> list[str]:
    """`a`, `a/fc_0` of `a/fc_0.W`: each part of a name before a dot or a slash."""
    return [name[:k] for k, letter in enumerate(name) if letter in "./"]


def _mark_dead(dead: deque, name: str, entry: ref) -> None:
    dead.append((name, entry))


class Numbered:
    """Which of its kind a thing is that gets an automatic name when that is first needed: 0, 1, …

    Things of a program are made in the same order in each of its runs; which of them needs its
    name first may differ in a training that is resumed. `name` is None until it is needed. `line`
    tells the line that makes it by its text: a program that has changed may make more, or others
    before.
    """

    __slots__ = ("__weakref__", "kind", "line", "name", "number")

    def __init__(self, kind: str, number: int, line: LineText | None) -> None:
        self.kind, self.number, self.line = kind, number, line
        self.name: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return numbered, (self.kind,)  # a copy is another thing


class Names:
    """One set of names: variables by full name, and the counters of automatic names."""

    def __init__(self) -> None:
        self.variables = Registry()
        self.counters: dict[str, Iterator[int]] = {}
        self.node_counters: dict[str, Iterator[int]] = {}  # of names that are not registered
        self.sizes: dict[str, str] = {}  # names in an imported file of sizes without their own
        # whether variables that are made later are trainable, by name, as in a training before
        self.flags: dict[str, bool] = {}
        self.made: dict[str, Iterator[int]] = {}  # counters of Numbered things, by their kind
        self.counts: dict[str, int] = {}  # of Numbered things, by their kind
        self.repeated: dict[str, Iterator[int]] = {}  # counters of things by kind and line
        self.numbered: WeakValueDictionary[tuple[str, int], Numbered] = WeakValueDictionary()
        self.lined: WeakValueDictionary[tuple[str, LineText], Numbered] = WeakValueDictionary()
        # of things that have not needed their names yet: those of a training before
        self.earlier: dict[str, Place] = {}
        self.earlier_lines: set[tuple[str, LineText]] = set()  # of all things of that training
        self.earlier_digests: dict[str, str] = {}  # of these lines, by name
        self.given: set[str] = set()  # of these, which counters do not know
        self.by_order: dict[str, Numbered] = {}  # of these, whose line is another one
        self.lock = RLock()

    def next(self, prefix: str, path: str | None = None) -> str:
        """Return the next automatic name under a namespace: `fc_0`, `fc_1`, …

        It is the next one again if what is made with it fails.
        """
        key = (current_namespace() if path is None else path) + prefix
        number = _next(self.counters, key)
        while (self.earlier or self.given) and self._is_anothers(f"{key}{number}"):
            number = _next(self.counters, key)
        on_failure(self._back, key, number)
        return f"{key}{number}"

    def next_of(self, thing: Numbered, prefix: str, path: str | None = None) -> str:
        """Return the name of a thing: what it had in a training before, else the next automatic."""
        name = self.name_before(thing)
        key = (current_namespace() if path is None else path) + prefix
        if name is None or not name.startswith(key):
            name = self.next(prefix, path)
        else:
            place = self.earlier.pop(name)
            self.given.add(name)
            on_failure(self.earlier.update, {name: place})
            on_failure(self.given.discard, name)
        before = self.earlier_digests.get(name)
        if before is not None and thing.line is not None and before != thing.line[0]:
            self.by_order[name] = thing
        on_failure(setattr, thing, "name", thing.name)
        thing.name = name
        return name

    def name_before(self, thing: Numbered) -> str | None:
        """Return the name that a thing had in a training before, if it has not needed it yet."""
        if not self.earlier or self.numbered.get((thing.kind, thing.number)) is not thing:
            return None
        return next((name for name, p in self.earlier.items() if self._owner(p) is thing), None)

    def set_earlier(self, earlier: Mapping[str, Place]) -> None:
        """Let things have the names that they had in a training before."""
        self.earlier = dict(earlier)
        lines = {name: (kind, line) for name, (kind, _, line) in earlier.items() if line}
        self.earlier_lines = set(lines.values())
        self.earlier_digests = {name: line[0] for name, (_, line) in lines.items()}

    def numbers(self) -> dict[str, Place]:
        """Return {name: which of its kind has it} of things that are there, or may come yet."""
        things = [t for t in list(self.numbered.values()) if t.name is not None]
        return {**self.earlier, **{str(t.name): (t.kind, t.number, t.line) for t in things}}

    def awaited(self) -> list[str]:
        """Return the names of things that are there and have not needed them yet."""
        return [name for name, place in self.earlier.items() if self._owner(place) is not None]

    def _owner(self, place: Place) -> Numbered | None:
        """The thing without a name that is what had this place in a training before.

        What is made by the same line is it, wherever the line is now; else what has its number,
        unless the line of that was there and had made something else.
        """
        kind, number, line = place
        thing = None if line is None else self.lined.get((kind, line))
        if thing is None:
            thing = self.numbered.get((kind, number))
            own = None if thing is None else thing.line
            if line is not None and own != line and (kind, own) in self.earlier_lines:
                return None
        return None if thing is None or thing.name is not None else thing

    def _is_anothers(self, name: str) -> bool:
        """Whether a thing has a name, or is to have it, of a training before."""
        place = self.earlier.get(name)
        if place is None:
            return name in self.given
        if self._owner(place) is None:
            del self.earlier[name]
            return False
        return True

    def next_of_node(self, prefix: str, path: str) -> str:
        """Return the next automatic name of what a node computes: `relu_0`, `relu_1`, …"""
        key = path + prefix
        return f"{key}{_next(self.node_counters, key)}"

    def _back(self, key: str, number: int) -> None:
        """Take a counter back to a number, unless another thread has gone on with it."""
        counter = self.counters.get(key)
        if counter is None:
            return
        after = next(counter)
        self.counters[key] = count(number if after == number + 1 else after)


def numbered(kind: str) -> Numbered:
    """Return which of its kind a thing is that is made now."""
    scope, line = names(), line_text()
    of_line = None if line is None else (line, _next(scope.repeated, f"{kind} {line}"))
    thing = Numbered(kind, _next(scope.made, kind), of_line)
    scope.counts[kind] = thing.number + 1
    scope.numbered[kind, thing.number] = thing
    if of_line is not None:
        scope.lined[kind, of_line] = thing
    return thing


def _next(counters: dict[str, Iterator[int]], key: str) -> int:
    counter = counters.get(key)
    if counter is None:  # both calls are one operation of the interpreter: no lock
        counter = counters.setdefault(key, count())
    return next(counter)


_OTHERS = "\n".join(
    [
        "another name, or the same inside of `with pd.namespace(...)` or `with pd.fresh()`;",
        "  pd.reset() forgets all names and values",
    ]
)
_HINT = "\n".join(
    [
        "get_variable() returns the existing one, there as long as a graph, a layer",
        "  or an update refers to it. Another one takes another name, or the same inside of",
        "  `with pd.namespace(...)` or `with pd.fresh()`; pd.reset() forgets all names and values",
    ]
)
LAYER_HINT = f"a layer that is made again takes {_OTHERS}"

_process = Names()  # 2017 scripts and notebooks count for the life of the process
_names: ContextVar[Names] = ContextVar("pd_core.names")


def names() -> Names:
    """Return the names in force: those of the innermost `fresh_names()`, else of the process."""
    return _names.get(_process)


def clear_names() -> None:
    """Forget every name and restart the counters."""
    current = names()
    with current.lock:
        current.variables.clear()
        current.counters.clear()
        current.node_counters.clear()
        current.sizes.clear()
        current.made.clear()
        current.counts.clear()
        current.repeated.clear()
        current.numbered.clear()
        current.lined.clear()
        current.set_earlier({})
        current.given.clear()
        current.by_order.clear()


def remember_sizes(pairs: Iterable[tuple[int | str, str | None]]) -> None:
    """Record the names that an imported file gives to sizes, for exports to use again.

    `pairs` are (size, its name in the file or None). Several sizes may have one name.
    """
    current = names()
    for size, name in pairs:
        if name and isinstance(size, str) and size.startswith("?"):
            current.sizes.setdefault(size, name)


@contextmanager
def fresh_names() -> Iterator[Names]:
    """Use an empty set of names for the length of a `with`, then the previous one again."""
    token = _names.set(Names())
    try:
        yield _names.get()
    finally:
        _names.reset(token)


def open_prefix(prefix: str) -> None:
    """Put a full prefix in force, until `close_prefix`."""
    _open.set((*_open.get(), prefix))


def close_prefix() -> None:
    """Restore the prefix that was in force before the last `open_prefix`."""
    _open.set(_open.get()[:-1])


open_prefixes = _open.get  # the prefixes in force, outermost first


def current_namespace() -> str:
    """Return the prefix in force, `''` or ending in `/`."""
    return _open.get()[-1]


def register(v: Named, name: str | None) -> None:
    """Name a variable: an explicit name must be free, without one it becomes `var-<n>`."""
    scope = names()
    if name is None:
        with scope.lock:
            v.name = _free_name(scope)
            scope.variables.add(v.name, v)
        on_failure(_release, scope, v.name, ref(v), None)
        return
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {name!r}")
    v.name = checked(current_namespace() + name)
    adopt(v)


def checked(name: str) -> str:
    """Return a name that every file can hold; GraphError if it is empty, or is no Unicode text."""
    if not name:
        raise GraphError("a name has one character or more, not ''")
    return checked_text(name)


def checked_text(name: str) -> str:
    """Return a name that is Unicode text; GraphError if it has lone surrogates."""
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise GraphError(f"the name {name!r} is no Unicode text, which files could hold")
    return name


def _free_name(scope: Names) -> str:
    name = scope.next("var-")
    while name in scope.variables:
        name = scope.next("var-")
    return name


def adopt(v: _Named, replace: bool = False) -> _Named:
    """Register a variable under the full name that it has already, and return it.

    With `replace` it takes the name over from another variable, and in a notebook from one that was
    named in another run of a cell: cells run again, while results of the run before are still
    there. The name is free again when nothing refers to the variable any more, or when the call
    that made it fails.
    """
    replace = replace or names().variables.is_of_another_cell(v.name)
    first = _first(v, replace)
    if first is not v:
        del first
        gc.collect()  # graphs are cycles: a dropped one has its names until it is collected
        first = _first(v, replace)
    if first is not v:
        where = f", created at {site_text(first.site)}" if first.site else ""
        raise NameConflict(f"variable {v.name!r} exists already: {first!r}{where}", _HINT)
    return v


def _first(v: Any, replace: bool) -> Any:
    """The variable that has the name of v: v itself if the name was free."""
    scope = names()
    with scope.lock:
        before = scope.variables.get(v.name) if replace else None
        if replace:
            scope.variables.remove(v.name)
        first = scope.variables.add(v.name, v)
    if first is v:
        on_failure(_release, scope, v.name, ref(v), before)
    return first


def _release(scope: Names, name: str, entry: Callable[[], Any], before: Any) -> None:
    """Take back that a variable got a name."""
    with scope.lock:
        if scope.variables.get(name) is entry():
            scope.variables.remove(name)
            if before is not None:
                scope.variables.add(name, before)
