"""The garbage collector while programs are built."""

import gc
from threading import Lock

_RARE = 100_000  # containers that are allocated, and not freed, before they are looked through
_lock = Lock()
_inside = 0
_before: tuple[int, int, int] = gc.get_threshold()


class rare_collections:
    """A region in which the collector looks for cycles a hundred times as rarely.

    Passes build tens of thousands of nodes, and hardly any of them is freed before the next pass;
    to look through all of them again and again is a tenth of the time that a program takes.
    """

    def __enter__(self) -> None:
        global _inside, _before
        with _lock:
            if not _inside:
                _before = gc.get_threshold()
                if 0 < _before[0] < _RARE:
                    gc.set_threshold(_RARE, *_before[1:])
            _inside += 1

    def __exit__(self, *exc: object) -> None:
        global _inside
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_before)
