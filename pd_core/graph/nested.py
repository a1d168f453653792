"""Variables in nested arguments and results: lists, tuples, named tuples and dicts."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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
        return remade(value, [mapped(function, part) for part in value])
    return value


def is_sequence(value: Any) -> bool:
    """Return whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_nested(value: Any) -> bool:
    """Return whether a list or tuple has values in it, rather than the numbers of one array."""
    kinds = (Variable, np.ndarray, dict)
    return is_sequence(value) and any(isinstance(v, kinds) or is_nested(v) for v in value)


def flattened(value: Any, nests: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """Return the nesting of a value, with None for each leaf, and the leaves in order.

    A list or tuple is a leaf unless it `nests`.
    """
    if isinstance(value, dict):
        of_keys = {key: flattened(part, nests) for key, part in value.items()}
        pattern = {key: found for key, (found, _) in of_keys.items()}
        return pattern, [v for _, leaves in of_keys.values() for v in leaves]
    if nests(value):
        parts = [flattened(part, nests) for part in value]
        return remade(value, [found for found, _ in parts]), [v for _, vs in parts for v in vs]
    return None, [value]


def unflattened(pattern: Any, leaves: Iterator[Any]) -> Any:
    """Return leaves in the nesting of a pattern."""
    if isinstance(pattern, dict):
        return {key: unflattened(part, leaves) for key, part in pattern.items()}
    if is_sequence(pattern):
        return remade(pattern, [unflattened(part, leaves) for part in pattern])
    return next(leaves)


def remade(value: Any, parts: list[Any]) -> Any:
    """Return parts as a list or tuple like another one."""
    make = getattr(type(value), "_make", type(value))  # a named tuple has several arguments
    return make(parts)
