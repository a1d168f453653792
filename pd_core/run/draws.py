"""Random numbers: places of draws in their streams, which programs hash, and initial values."""

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from ..graph.errors import NotInitialized, ShapeError
from ..graph.initializers import Constant, Derived, Initializer
from ..graph.variable import Variable, static


def draw_rows(
    seed: int,
    draws: Mapping[int, int],
    streams: Sequence[int | tuple[int, int, int]],
    steps: int = 0,
) -> np.ndarray | None:
    """Return (seed, place, stream) for each random draw of a program, int64 [K, 3].

    A draw recorded in `pd.guard()` comes with place and seed, any other takes the next one after
    `draws`. For several steps, in which none is recorded, they are [steps, K, 3].
    """
    rows = [s[::-1] if isinstance(s, tuple) else (seed, draws[s], s) for s in streams]
    if not rows:
        return None
    array = np.array(rows, np.int64)
    return array + np.arange(steps)[:, None, None] * np.array([0, 1, 0]) if steps else array


def initial_value(seed: int, variable: Variable, initializer: Initializer | None) -> np.ndarray:
    """Return what an initializer draws for a variable, by the seed and the variable's name.

    NotInitialized without an initializer, ShapeError if its array has another shape.
    """
    if initializer is None:
        raise NotInitialized(f"{variable!r} has neither a value nor an initializer")
    if type(initializer) is Constant:  # no generator, which takes longer than the array
        return np.broadcast_to(initializer.value, static(variable.dims))
    drawn = initializer.variable if isinstance(initializer, Derived) else variable
    rng = np.random.default_rng([seed, crc32(drawn.name.encode())])
    array = np.asarray(initializer(static(variable.dims), rng))
    if array.shape != variable.dims:
        raise ShapeError(f"the initializer of {variable!r} gave an array of {list(array.shape)}")
    return array
