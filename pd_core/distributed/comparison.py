"""Values that are the same on all ranks, and texts about those that are not."""

import json
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet, ref
from zlib import crc32

import numpy as np

from ..graph.node import ancestors
from ..graph.site import site_text
from ..graph.update import Update
from ..graph.variable import Variable
from ..run.session import Session
from .program import Gradients, seam_of
from .recovery import ranks_text
from .world import World, as_bytes

# Of a large variable a comparison reads a part, another one each time: reading all of a network of
# 100 MB takes 0.1 s with the state of Adam, CRC-32 goes through 3 GB/s.
_LEAST_BYTES, _PARTS = 1024, 32
_MOST_NAMED, _MOST_SHOWN = 5, 4  # variables in an error, elements of a value in it

Seen = Mapping[Variable, int]  # the count of changes when a variable was last known to be equal


class Entry(NamedTuple):
    """A value that ranks compare; `is_set` if it has changed outside of their common steps."""

    name: str
    array: np.ndarray
    site: Any = None
    is_set: bool = False


class Comparison:
    """What is the same on all ranks in a training step, besides its operators and constants.

    These are the feeds that the update reads, such as a learning rate, and the persistent variables
    that the step reads or writes, but for rows of sharded tables and what depends on a rank's own
    rows or draws, such as moving statistics: these are added to `own`, those of the session.
    """

    def __init__(
        self,
        updates: Sequence[Update],
        gradients: Gradients,
        fed: Iterable[Variable],
        own: WeakSet[Variable],
    ):
        updates = [u for u in updates if u.gradients]
        own.update(own_of_ranks(updates))
        self._own = own
        self._states = [ref(v) for v in states_of(updates)]
        self._feeds = [ref(v) for v in _feeds_of(updates, gradients, set(fed))]
        self._common: list[ref[Variable]] = []
        self._owned = -1  # the size of `own` when the common ones were found
        self._count = -1  # of changes outside of these steps, when the last one was compared
        self._left, self._number = 1, 0  # steps until the next comparison of parts, and those done

    @property
    def states(self) -> list[Variable]:
        """The persistent variables that the step reads or writes."""
        return _alive(self._states)

    @property
    def common(self) -> list[Variable]:
        """Those that are the same on all ranks."""
        if self._owned != len(self._own):
            self._owned = len(self._own)
            self._common = [ref(v) for v in self.states if v not in self._own]
        return _alive(self._common)

    def digest(self, session: Session, seen: Seen, fed: Mapping[Variable, Any], every: int) -> int:
        """Return a digest of feeds, and of what has changed since the variables were `seen`.

        In every so many steps it has a part of each variable, in the first one if all are `seen`.
        """
        self._left -= 1
        if self._left and not self._feeds and session.store.touched.count == self._count:
            return 0
        found = 0
        for v in _alive(self._feeds):
            found = digest_of(fed[v], found)
        if session.store.touched.count != self._count:
            found = self._changes(session, seen, found)
        if not self._left:
            number, self._number, self._left = self._number, self._number + 1, every
            if number or all(v in seen for v in self.states):
                for v in self.common:
                    found = crc32(_part(session.store.current(v, copy=False), number), found)
        return found

    def _changes(self, session, seen, found):
        """A digest of what has changed outside of the common steps, and of values from the host."""
        for k, v in enumerate(self.common):
            changed, stored = session.store.touched.since(v)
            if changed > seen.get(v, changed):
                found = crc32(b"%d" % k, found)
                if stored > seen[v]:
                    found = digest_of(session.store.current(v, copy=False), found)
        return found

    def agreed(
        self, session: Session, seen: MutableMapping[Variable, int], every: int | None = None
    ) -> None:
        """Note that all ranks have the same values; with `every` count so many steps from here."""
        count = session.store.touched.count
        if count != self._count:
            seen.update(dict.fromkeys(self.states, count))
            self._count = count
        if every is not None:
            self._left = every

    def entries(
        self, session: Session, seen: Seen, fed: Mapping[Variable, Any]
    ) -> dict[str, Entry]:
        """Return all that is compared, by keys that are the same on all ranks."""
        feeds = _alive(self._feeds)
        entries = {f"feed {k}": Entry(v.name, np.asarray(fed[v])) for k, v in enumerate(feeds)}
        for k, v in enumerate(self.common):
            entries[str(k)] = entry_of(session, seen, v)
        return entries


def entry_of(session: Session, seen: Seen, variable: Variable) -> Entry:
    """Return the Entry of a persistent variable."""
    changed, _ = session.store.touched.since(variable)
    is_set = changed > seen.get(variable, changed)
    return Entry(variable.name, session.store.current(variable, copy=False), variable.site, is_set)


def digest_of(array: np.ndarray, before: int = 0) -> int:
    """Return a digest of all bytes of an array, and of what was digested before."""
    data: Any = as_bytes(np.ascontiguousarray(array))
    return crc32(data, before)


def states_of(updates: Iterable[Update]) -> list[Variable]:
    """Return the persistent variables that updates read or write, in the order of the graph.

    Rows of sharded tables, with their slots, are left out.
    """
    assignments = [a for u in updates for a in u.assignments]
    states: dict[Variable, None] = {}
    for node in ancestors([a.value for a in assignments]):
        for x in node.inputs:
            origin = x if x is None or x.source is None else x.source
            if origin is not None and origin.is_persistent:
                states[origin] = None
    states.update(dict.fromkeys(a.variable for a in assignments))
    return [v for v in states if not v.is_shard]


def own_of_ranks(updates: Iterable[Update]) -> set[Variable]:
    """Return the variables to which steps assign what depends on the rows or draws of this rank."""
    effects = [a for u in updates for a in u.assignments if a.is_effect]
    own: set[Variable] = set()
    while True:
        more = [a.variable for a in effects if a.variable not in own and _is_own(a.value, own)]
        if not more:
            return own
        own.update(more)


def _is_own(value, own):
    """Whether a value depends on feeds, draws or variables of this rank, but for sums over all."""
    joined = {y for node in ancestors([value]) if _joins(node) for y in node.outputs}
    order = ancestors([value], joined)
    if any(node.op_type in ("Uniform", "Dropout") for node in order):
        return True
    read = [value, *(x for node in order for x in node.inputs if x is not None)]
    leaves = [v for v in read if v.node is None and v not in joined]
    return any(v.is_feed or v.eager_value is not None or (v.source or v) in own for v in leaves)


def _joins(node):
    return node.op_type == "SumOverRanks" or "synchronized" in node.attributes


def _feeds_of(updates, gradients, fed):
    """The feeds that updates read, besides the gradients."""
    values = [a.value for u in updates for a in u.assignments if not a.is_effect]
    seam = set(seam_of(gradients))
    inputs = [x for node in ancestors(values, seam | fed) for x in node.inputs]
    return [v for v in dict.fromkeys([*values, *inputs]) if v in fed and v not in seam]


def _alive(references):
    variables = [reference() for reference in references]
    return [v for v in variables if v is not None]


def _part(array, number):
    """What comparison `number` reads of an array, as a buffer."""
    if array.dtype.kind == "V":  # of a dtype that buffers have no name for
        return as_bytes(array)
    if array.nbytes <= _LEAST_BYTES:
        return array
    size = max(_LEAST_BYTES, -(-array.nbytes // _PARTS))
    start = number % -(-array.nbytes // size) * size
    return memoryview(array).cast("B")[start : start + size]


# ---- differences


def differences(world: World, entries: Mapping[str, Entry], what: str) -> list[str]:
    """Compare entries by their keys; return the lines of an error, none if they are equal.

    All ranks call it. Keys that some ranks lack are left out.
    """
    own = {key: [digest_of(entry.array), entry.is_set] for key, entry in entries.items()}
    every = _gathered(world, own, what)
    shared = [key for key in own if all(key in each for each in every)]
    differ = [key for key in shared if len({each[key][0] for each in every}) > 1]
    if not differ:
        return []
    named = differ[:_MOST_NAMED]
    texts = _gathered(world, {key: _text(entries[key].array) for key in named}, what)
    lines = []
    for key in named:
        entry, ranks = entries[key], dict[str, list[int]]()
        for rank, each in enumerate(texts):
            ranks.setdefault(each[key], []).append(rank)
        values = "; ".join(f"{ranks_text(on)}: {text}" for text, on in ranks.items())
        lines.append(f"  {entry.name}: {values}")
        setters = [rank for rank, each in enumerate(every) if each[key][1]]
        if setters:
            lines.append(f"    set on {ranks_text(setters)} outside of the common steps")
        if entry.site:
            lines.append(f"    built at {site_text(entry.site)}")
    if len(differ) > len(named):
        lines.append(f"  and {len(differ) - len(named)} more of {len(shared)}")
    return lines


def _gathered(world, value, what):
    data = json.dumps(value).encode()
    return [json.loads(each) for each in world.recovering(lambda: world.gather_bytes(data, what))]


def _text(array):
    """A small value, or what tells a large one apart."""
    if array.size <= _MOST_SHOWN:
        text = np.array2string(array, separator=", ", floatmode="unique")
        return "".join(line.strip() for line in text.splitlines())
    kind = f"{array.dtype}{list(array.shape)}"
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(array.astype(np.float64).reshape(-1)))
    return f"{kind} of norm {norm!r}, digest {digest_of(array):08x}"
