"""What is freed: values of graphs that nobody refers to any more, and programs on demand."""

import gc
from collections.abc import Iterable
from math import prod
from typing import Any
from weakref import WeakSet

from ..backend.base import Values
from ..graph.variable import Variable, static
from .programs import clear_program_caches

_COLLECT_BYTES = 1 << 26  # 64 MiB


class Garbage:
    """Values of dropped graphs, which the garbage collector of the interpreter has yet to find.

    Nodes and their outputs refer to each other, and the interpreter runs its collector by the
    number of objects: it does not know how much memory hangs on a few of them.
    """

    def __init__(self) -> None:
        self._new, self._allowed = 0, _COLLECT_BYTES

    def collect_before(self, variables: Iterable[Variable], values: Values) -> None:
        """Collect before variables get values, once the bytes of those before may be much of all.

        They are compared with what was in use the last time, so that the work is a constant share
        of that of drawing the values.
        """
        self._new += _bytes(variables)
        if self._new > self._allowed:
            gc.collect()
            self._new, self._allowed = 0, max(_COLLECT_BYTES, _bytes(values.variables()) // 4)


def _bytes(variables: Iterable[Variable]) -> int:
    kept = (v for v in variables if v.is_persistent)
    return sum(prod(static(v.dims)) * v.dtype.itemsize for v in kept)


_sessions: WeakSet[Any] = WeakSet()
add_session = _sessions.add


def count_evaluations() -> int:
    """Return how many evaluations the sessions of this process have made; any thread may ask."""
    while True:
        try:
            return sum([session.store.counts["evaluations"] for session in list(_sessions)])
        except RuntimeError:  # another thread has made a session meanwhile
            continue


def clear_programs() -> None:
    """Free all compiled programs that do not run just now, with their memory and their threads.

    Values stay as they are; what is evaluated again is compiled again. Without it a program is
    freed some time after the last graph that needs it.
    """
    gc.collect()
    for session in list(_sessions):
        session.compilers.clear()
    clear_program_caches()
