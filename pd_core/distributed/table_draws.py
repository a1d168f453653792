"""Initial values of sharded tables: each element is drawn from its place in the whole table.

Element (row, column) has the same value for any number of ranks, and a rank draws its own rows
only: numbers are taken from the stream of SplitMix64 (Steele, Lea & Flood 2014), whose n-th output
is known without those before it.
"""

import numpy as np

from ..graph.initializers import Constant, Gaussian, Initializer, Uniform, initializers

_GAMMA = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, the step of the state
_FACTORS = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)
_BLOCK = 1 << 18  # elements drawn at a time

Distribution = Constant | Uniform | Gaussian
_NAMES = [name for name, each in initializers.items() if isinstance(each, Distribution)]


class RowInitializer:
    """The initializer of a shard, the rows `rank`, `rank + ranks`, ... of a table.

    `distribution` is a Constant, Uniform or Gaussian. Normal numbers are made of pairs of uniform
    ones (Box & Muller 1958).
    """

    def __init__(self, distribution: Distribution, rank: int, ranks: int):
        self.distribution, self.rank, self.ranks = distribution, rank, ranks

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        rows = np.empty(shape, np.float32)
        drawn = self.distribution
        if isinstance(drawn, Constant):
            rows[...] = drawn.value
            return rows
        key = rng.integers(2**63, dtype=np.uint64)
        width = int(np.prod(shape[1:], dtype=np.int64))
        height = max(1, _BLOCK // max(1, width))
        for start in range(0, len(rows), height):
            block = rows[start : start + height]
            ids = self.rank + self.ranks * np.arange(start, start + len(block), dtype=np.uint64)
            places = ids[:, np.newaxis] * np.uint64(width) + np.arange(width, dtype=np.uint64)
            numbers = (
                _normal(drawn, key, places)
                if isinstance(drawn, Gaussian)
                else _uniform(drawn, key, places)
            )
            block[...] = numbers.reshape(block.shape)
        return rows


def _uniform(distribution: Uniform, key: np.uint64, places: np.ndarray) -> np.ndarray:
    return distribution.low + (distribution.high - distribution.low) * _fractions(key, places)


def _normal(distribution: Gaussian, key: np.uint64, places: np.ndarray) -> np.ndarray:
    radius = np.sqrt(-2.0 * np.log1p(-_fractions(key, 2 * places)))
    angle = 2.0 * np.pi * _fractions(key, 2 * places + np.uint64(1))
    return distribution.mean + distribution.std * radius * np.cos(angle)


def _fractions(key, places):
    """The numbers of the stream at these places, float64 on [0, 1)."""
    state = key + (places + np.uint64(1)) * np.uint64(_GAMMA)
    for shift, factor in _FACTORS:
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)) * 2.0**-53


def distribution(spec: str | Initializer) -> Distribution:
    """Return an initializer that a table can draw from, by its name or as it is."""
    found = initializers.get(spec) if isinstance(spec, str) else spec
    if not isinstance(found, Distribution):
        raise TypeError(
            f"a sharded table draws from a Constant, Uniform or Gaussian, by name "
            f"{', '.join(_NAMES)}, not from {spec!r}"
        )
    return found
