"""Values under other names and in other layouts: what `load_dict` makes of those of others."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from ..graph.arrays import host_array
from ..graph.errors import GraphError
from ..graph.misfits import near

# {name in the values: name here}, (pattern, replacement) pairs, or a function of the name; None in
# the place of a name leaves the value out
NameMap = (
    Mapping[str, str | None] | Sequence[tuple[str, str | None]] | Callable[[str], str | None] | None
)
# a pattern of names whose matrices are transposed, several, or {pattern: order of the axes}
Transposed = str | Sequence[str] | Mapping[str, Sequence[int] | None] | None


def renamed(who: str, names: Sequence[str], mapping: NameMap, strict: bool) -> dict[str, str]:
    """Return {new name: name} of the names that a map does not leave out.

    GraphError for two names that become one, or, if strict, for a name of the map that there is
    not; TypeError and ValueError for what is no map.
    """
    rename = _function_of(who, names, mapping, strict)
    origins: dict[str, str] = {}
    for name in names:
        new = rename(name)
        if new is None:
            continue
        if not isinstance(new, str):
            raise TypeError(f"{who}: mapping makes {new!r} of {name!r}, which is no text")
        if origins.setdefault(new, name) != name:
            raise GraphError(f"{who}: mapping makes {new!r} of both {origins[new]!r} and {name!r}")
    return origins


def _function_of(who, names, mapping, strict) -> Callable[[str], Any]:
    if mapping is None:
        return lambda name: name
    if isinstance(mapping, Mapping):
        unknown = [name for name in mapping if name not in names]
        if unknown and strict:
            match = near(str(unknown[0]), names)
            raise GraphError(
                f"{who}: mapping has {unknown[0]!r}, which is no name of the values"
                + (f"\n  hint: there is {match!r}" if match else "")
            )
        return lambda name: mapping.get(name, name)
    if callable(mapping):
        return mapping
    pairs = _pairs(who, mapping)
    return lambda name: _substituted(name, pairs)


def _pairs(who, mapping):
    """Return (compiled pattern, replacement) pairs."""
    if isinstance(mapping, (str, bytes)) or not isinstance(mapping, Sequence):
        raise TypeError(
            f"{who}: mapping is a dict of names, (pattern, replacement) pairs or a function, "
            f"not {mapping!r}"
        )
    pairs = []
    for pair in mapping:
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if (
            not is_pair
            or not isinstance(pair[0], str)
            or not isinstance(pair[1], (str, type(None)))
        ):
            raise TypeError(f"{who}: mapping has (pattern, replacement) pairs, not {pair!r}")
        pairs.append((compiled(who, pair[0]), pair[1]))
        try:
            pairs[-1][0].sub(pair[1] or "", "")
        except (re.error, IndexError) as error:
            raise ValueError(f"{who}: {pair[1]!r} is no replacement: {error}") from None
    return pairs


def _substituted(name, pairs):
    for pattern, replacement in pairs:
        if replacement is None:
            if pattern.search(name):
                return None
        else:
            name = pattern.sub(replacement, name)
    return name


def compiled(who: str, pattern: str) -> re.Pattern:
    """Return a regular expression; ValueError if it is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{who}: {pattern!r} is no pattern: {error}") from None


class Transposes:
    """The orders of axes that patterns of names choose."""

    def __init__(self, who: str, transpose: Transposed, names: Sequence[str]) -> None:
        if transpose is None:
            transpose = {}
        elif isinstance(transpose, str):
            transpose = {transpose: None}
        elif not isinstance(transpose, Mapping):
            transpose = dict.fromkeys(transpose)
        self.who = who
        self.orders: list[tuple[re.Pattern, Sequence[int] | None]] = []
        for text, axes in transpose.items():
            if not isinstance(text, str):
                raise TypeError(f"{who}: transpose has patterns of names, not {text!r}")
            pattern = compiled(who, text)
            if not any(map(pattern.search, names)):
                raise GraphError(f"{who}: transpose has {text!r}, which no name of the values has")
            self.orders.append((pattern, axes))

    def apply(self, name: str, value: ArrayLike) -> Any:
        """Return a value with its axes in the order of the first pattern that its name has."""
        for pattern, axes in self.orders:
            if pattern.search(name):
                return self._transposed(name, host_array(value), axes)
        return value

    def _transposed(self, name, array, axes):
        if axes is None and array.ndim > 2:
            raise GraphError(
                f"{self.who}: {name!r} is {list(array.shape)}, no matrix that is transposed\n"
                f"  hint: transpose={{{name!r}: (3, 2, 0, 1)}} is an order of axes"
            )
        if axes is not None and sorted(axes) != list(range(array.ndim)):
            raise GraphError(
                f"{self.who}: {tuple(axes)} is no order of the axes of {name!r}, "
                f"{list(array.shape)}"
            )
        return array.T if axes is None else array.transpose(axes)
