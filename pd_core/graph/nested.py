"""Variables in nested results."""

from collections.abc import Iterator
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
