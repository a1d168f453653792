"""The places of random draws in their streams, which programs hash to random numbers."""

from collections.abc import Mapping, Sequence

import numpy as np


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
