"""The cache of a session: what is known of evaluations, until their targets are freed."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any
from weakref import ref

_numbers = count()


class Cache:
    """Programs, and what else is known of targets, by key.

    Beyond the limit the least recently used entry is dropped. Variables and Updates are held
    weakly: when one of those that an entry is `of` is freed, the entry is dropped at once.
    """

    def __init__(self, limit: int = 512):
        self.limit = limit
        self.entries: OrderedDict[tuple, tuple[Any, list[ref]]] = OrderedDict()
        self._numbered: dict[tuple, int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Any]:
        return iter([entry for entry, _ in self.entries.values()])

    def get(self, key: tuple) -> Any:
        """Return the entry of a key, None if there is none."""
        found = self.entries.get(key)
        if found is None:
            return None
        self.entries.move_to_end(key)
        return found[0]

    def add(self, key: tuple, entry: Any, of: Iterable[Any]) -> None:
        """Add an entry, to be dropped with the first of the objects that it is `of`."""
        # a target may be freed at any point of any thread, so its callback must be atomic
        drop = partial(_drop, ref(self), key)
        self.entries[key] = entry, [ref(target, drop) for target in of]
        if len(self.entries) > self.limit:
            self.entries.popitem(last=False)
        if len(self._numbered) > 2 * len(self.entries) + self.limit // 8:
            used = {part for key in list(self.entries) for part in key if type(part) is int}
            for long in [long for long, number in self._numbered.items() if number not in used]:
                del self._numbered[long]

    def number(self, long: tuple) -> int:
        """Return a number in the place of a long part of keys, which is hashed once for it."""
        number = self._numbered.get(long)
        if number is None:
            number = self._numbered[long] = next(_numbers)
        return number

    def clear(self) -> None:
        """Drop all entries."""
        self.entries.clear()
        self._numbered.clear()


def _drop(cache: "ref[Cache]", key: tuple, _: ref) -> None:
    owner = cache()
    if owner is not None:
        owner.entries.pop(key, None)
