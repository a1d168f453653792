"""States, such as checkpoints have: their entries, checked before anything is restored."""

from collections.abc import Callable, Collection, Mapping
from operator import index
from reprlib import repr as short
from typing import Any

import numpy as np

# What a function raises for a value that is not of its kind.
STATE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

Kind = Callable[[Any], Any]


def entries(
    what: str, state: Any, kinds: Mapping[str, Kind], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return the entries of a state, each converted by the function of its key.

    ValueError that names `what` has the state, and the entry that is missing, is not one of its
    entries, or whose function raises. Those that are `optional` may be missing.
    """
    if not isinstance(state, Mapping):
        listed = ", ".join(kinds)
        raise ValueError(f"{what}: a state is a dict of {listed}, not {short(state)}")
    for key in kinds:
        if key not in state and key not in optional:
            raise ValueError(f"{what}: the state lacks {key!r}, it has {_listed(state)}")
    for key in state:
        if key not in kinds:
            raise ValueError(f"{what}: the state has {key!r}, there are {_listed(kinds)}")
    found = {}
    for key, value in state.items():
        try:
            found[key] = kinds[key](value)
        except STATE_ERRORS as error:
            text = f"{what}: {key!r} in the state is {short(value)}: {error}"
            raise ValueError(text) from error
    return found


def integer(value: Any) -> int:
    """Return an integer of a state; TypeError for anything else, a bool included."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("not an integer")
    return index(value)


def number(value: Any) -> float:
    """Return a number of a state, NaN among them; TypeError for anything else."""
    scalar = np.asarray(value)
    if scalar.ndim or scalar.dtype.kind not in "fiu":
        raise TypeError("not a number")
    return float(value)


def flag(value: Any) -> bool:
    """Return a bool of a state; TypeError for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError("not a bool")
    return bool(value)


def text(value: Any) -> str:
    """Return a string of a state; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def array(value: Any) -> np.ndarray:
    """Return an array of a state; TypeError for anything else."""
    if not isinstance(value, np.ndarray):
        raise TypeError("not an array")
    return value


def maybe(kind: Kind) -> Kind:
    """Return a function for what is of a kind, or None."""
    return lambda value: None if value is None else kind(value)


def each(kind: Kind) -> Kind:
    """Return a function for lists of a kind."""

    def listed(values: Any) -> list[Any]:
        if not isinstance(values, (list, tuple)):
            raise TypeError("not a list")
        return [kind(value) for value in values]

    return listed


def by_name(kind: Kind) -> Kind:
    """Return a function for dicts of a kind."""

    def named(values: Any) -> dict[str, Any]:
        if not isinstance(values, Mapping):
            raise TypeError("not a dict")
        found = {}
        for name, value in values.items():
            try:
                found[text(name)] = kind(value)
            except STATE_ERRORS as error:
                raise ValueError(f"{name!r} is {short(value)}: {error}") from error
        return found

    return named


def _listed(names: Collection[Any]) -> str:
    return ", ".join(map(repr, names)) or "nothing"
