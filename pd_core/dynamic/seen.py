"""Records of sizes and numbers that lines of a program have seen, which decide what is constant.

What was the same in all calls so far is a constant of programs, and anything else an input of them:
these give the same numbers but for the last bits. So a training that is resumed begins with what
its lines had seen before. There they are told apart by the name of the file and the number of the
line, since a program may have moved.
"""

import base64
from collections.abc import Mapping
from os.path import basename
from types import CodeType
from typing import Any

import numpy as np

from ..graph.site import Site
from ..run.states import each, entries, integer, maybe, text

# by line, dtype and rank: of each axis its size, None if it differs; and the types by shape
sizes: dict[tuple, tuple[list, dict[tuple, dict[str, Any]]]] = {}
# by line, layer, and line in the op: constants seen
numbers: dict[tuple[Site | None, str, CodeType, int], dict[tuple, None]] = {}
changing: set[Any] = set()  # lines where a number changes

_Earlier = dict[tuple, Any]
_earlier: _Earlier = {}  # what lines had seen that have not run since a training was resumed


def earlier_sizes(key: tuple[Site | None, int, int], dtype: np.dtype) -> list[int | None] | None:
    """Return the sizes that a line had seen of arrays of a rank, None for none."""
    if not _earlier:
        return None
    site, _, rank = key
    found: list[int | None] | None = _earlier.pop(("sizes", _line(site), dtype.name, rank), None)
    return found


def earlier_numbers(key: tuple[Site | None, str, CodeType, int]) -> dict[tuple, None]:
    """Return the constants that a line had seen; note it if a number had changed there."""
    if not _earlier:
        return {}
    site, layer, code, line = key
    if _earlier.get(("changing", _line(site))):
        changing.add(site)
    found = _earlier.pop(("numbers", _line(site), layer, code.co_qualname, line), [])
    return dict.fromkeys(found)


def seen() -> dict[str, Any]:
    """Return what lines have seen, for a checkpoint: nested lists of numbers and strings."""
    found: _Earlier = dict(_earlier)
    for (site, _, rank), (known, types) in list(sizes.items()):
        dtype = next((each["dtype"] for each in list(types.values())), None)
        if rank > 1 and dtype is not None:
            found["sizes", _line(site), dtype.name, rank] = list(known)
    for (site, layer, code, line), contents in list(numbers.items()):
        found["numbers", _line(site), layer, code.co_qualname, line] = list(contents)
    for site in list(changing):
        found["changing", _line(site)] = True
    state: dict[str, Any] = {"sizes": [], "numbers": [], "changing": []}
    for (kind, *place), value in found.items():
        if kind == "numbers":
            value = [[n, list(shape), _encoded(data)] for n, shape, data in value]
        state[kind].append(place[0] if kind == "changing" else [*place, value])
    return {kind: every for kind, every in state.items() if every}


def decoded(state: Mapping[str, Any]) -> dict[tuple, Any]:
    """Return a state of `seen` for `set_earlier`; ValueError if it is none."""
    found: _Earlier = {}
    parts = entries("what lines have seen", state, _KINDS, optional=_KINDS)
    for kind, every in parts.items():
        for place in every:
            if kind == "changing":
                found[kind, place] = True
            else:
                found[kind, *place[:-1]] = place[-1]
    return found


def earlier_lines() -> dict[tuple, Any]:
    """Return what `set_earlier` has set, without that of lines that have run since."""
    return dict(_earlier)


def set_earlier(found: dict[tuple, Any]) -> None:
    """Let lines go on from what they had seen, as `decoded` returns it."""
    _earlier.clear()
    _earlier.update(found)


def _line(site: Site | None) -> str:
    return "" if site is None else f"{basename(site[0])}:{site[1]}"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _content(value: Any) -> tuple:
    number, shape, data = value
    return integer(number), tuple(each(integer)(shape)), base64.b64decode(text(data))


def _of_sizes(value: Any) -> list[Any]:
    line, dtype, rank, known = value
    found = each(maybe(integer))(known)
    if len(found) != integer(rank):
        raise ValueError(f"{len(found)} sizes of {rank} axes")
    return [text(line), text(dtype), rank, found]


def _of_numbers(value: Any) -> list[Any]:
    line, layer, name, number, contents = value
    return [text(line), text(layer), text(name), integer(number), each(_content)(contents)]


_KINDS = {"sizes": each(_of_sizes), "numbers": each(_of_numbers), "changing": each(text)}
