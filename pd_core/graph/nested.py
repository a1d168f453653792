"""Variables in nested results."""

from collections.abc import Callable, Iterator
from typing import Any

from .variable import Variable


def variables_in(value: Any) -> Iterator[Variable]:
    """Yield the Variables in a value, or in lists, tuples and dicts of them, in order."""
    if isinstance(value, Variable):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from variables_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from variables_in(part)


def mapped(function: Callable[[Variable], Any], value: Any) -> Any:
    """Return a value, or lists, tuples and dicts, with function(v) in place of each Variable."""
    if isinstance(value, Variable):
        return function(value)
    if isinstance(value, dict):
        return {key: mapped(function, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        make = getattr(type(value), "_make", type(value))  # a named tuple has several arguments
        return make([mapped(function, part) for part in value])
    return value
