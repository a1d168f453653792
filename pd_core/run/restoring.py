"""States of sessions: what is checked before a value is restored."""

from collections import Counter
from collections.abc import Mapping
from operator import index
from typing import Any

import numpy as np

from ..graph.errors import ShapeError
from ..graph.namespace import persistent_variables
from ..graph.variable import Variable


def restorable(
    state: Mapping[str, Any],
) -> tuple[int, Counter[int], dict[Variable, np.ndarray], dict[str, np.ndarray]]:
    """Return seed, draws, {Variable: array} and {name of no variable yet: array} of a state.

    ShapeError if a variable has another shape or dtype, TypeError if it is no state.
    """
    draws = Counter({int(stream): index(count) for stream, count in state["draws"].items()})
    values = dict(state["values"])
    for name, array in values.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"the value of {name!r} is no array, but {array!r}")
    known = {v.name: v for v in persistent_variables() if v.name in values}
    arrays = {v: fitting(v, values[name]) for name, v in known.items()}
    waiting = {name: array for name, array in values.items() if name not in known}
    return index(state["seed"]), draws, arrays, waiting


def fitting(v: Variable, array: np.ndarray) -> np.ndarray:
    """Return the restored value of a variable, after a check of its shape and dtype."""
    if array.shape != v.dims or array.dtype != v.dtype:
        raise ShapeError(f"{v!r} cannot take the restored {array.dtype}{list(array.shape)}")
    return array
