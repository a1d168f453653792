"""States of sessions: what is checked before a value is restored."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.namespace import persistent_variables
from ..graph.variable import Variable
from .draws import initial_value
from .states import array, by_name, each, entries, integer, text

# Seed, draws, {Variable: array} and {name of no variable yet: array}.
Restorable = tuple[int, Counter[int], dict[Variable, np.ndarray], dict[str, np.ndarray]]


class NotCopied:
    """Base of what is neither pickled nor copied, since its values are in ONNX Runtime."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} is neither pickled nor copied\n"
            "  hint: restore() of another one takes what state() returns"
        )


def without_shards(variables: Iterable[Variable]) -> list[Variable]:
    """Return the variables that are no part of a sharded table."""
    return [v for v in variables if not v.is_shard]


def state_of(
    seed: int, draws: Counter[int], values: dict[str, np.ndarray], stored: Sequence[Variable]
) -> dict[str, Any]:
    """Return the state of a session with these values, and the names of sharded tables."""
    counts = {str(stream): count for stream, count in draws.items()}
    state = {"seed": seed, "draws": counts, "values": values}
    tables = sorted({v.storage.table.name for v in stored if v.is_shard})
    return {**state, "tables": tables} if tables else state


def first_value(store: Any, v: Variable) -> np.ndarray:
    """Return the value that was restored for a variable of this name, else its initial value."""
    for waiting in (store.waiting, store.waiting_rows):
        if v.name in waiting:
            value = fitting(v, waiting[v.name])
            del waiting[v.name]
            return value
    return initial_value(store.seed, v, v.initial)


def restorable(state: Mapping[str, Any], stored: Sequence[Variable]) -> Restorable:
    """Return seed, draws, {Variable: array} and {name of no variable yet: array} of a state.

    ShapeError if a variable has another shape or dtype, GraphError if it has sharded tables of
    which no rows are `stored`, ValueError if it is no state.
    """
    kinds = {"seed": integer, "draws": _draws, "values": by_name(array), "tables": each(text)}
    parts = entries("Session.restore", state, kinds, optional=["tables"])
    known_tables = {v.name for v in stored}
    lacking = [name for name in parts.get("tables", ()) if name not in known_tables]
    if lacking:
        raise GraphError(
            f"the state is of a session with the sharded tables {', '.join(lacking)}, whose rows "
            "are not in it\n  hint: load() of a table comes before"
        )
    values = parts["values"]
    known = {v.name: v for v in persistent_variables() if v.name in values}
    arrays = {v: fitting(v, values[name]) for name, v in known.items()}
    waiting = {name: value for name, value in values.items() if name not in known}
    return parts["seed"], parts["draws"], arrays, waiting


def _draws(counts: Any) -> Counter[int]:
    return Counter({int(stream): integer(n) for stream, n in by_name(integer)(counts).items()})


def fitting(v: Variable, value: np.ndarray) -> np.ndarray:
    """Return the restored value of a variable, after a check of its shape and dtype.

    A part of a sharded table takes its rows of the whole table, which one process has saved.
    """
    if v.is_shard and value.shape == (v.storage.table.height, *v.dims[1:]):
        value = v.storage.table.own_part(value)
    if value.shape != v.dims or value.dtype != v.dtype:
        raise ShapeError(f"{v!r} cannot take the restored {value.dtype}{list(value.shape)}")
    return value
