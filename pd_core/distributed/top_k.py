"""The largest elements of gradients, which travel alone; the others wait for later steps."""

from collections.abc import Sequence

import numpy as np

from .buffers import WHAT
from .world import World


class Chosen:
    """The largest elements of arrays of one dtype: of each a `fraction`, at least one.

    `rests` are the arrays without them. What is not finite is not in them, so that it is gone with
    the step that has it.
    """

    def __init__(self, arrays: Sequence[np.ndarray], fraction: float):
        self.shapes = [a.shape for a in arrays]
        flat = np.concatenate([a.reshape(-1) for a in arrays])
        self.size, start = flat.size, 0
        places = [np.zeros(0, np.int64)]
        for a in arrays:
            places.append(start + largest(a, fraction))
            start += a.size
        index = np.int32 if flat.size < 1 << 31 else np.int64
        chosen = np.concatenate(places)
        self.items = np.empty(len(chosen), [("place", index), ("number", flat.dtype)])
        self.items["place"], self.items["number"] = chosen, flat[chosen]
        rest = np.where(np.isfinite(flat), flat, 0).astype(flat.dtype)
        rest[chosen] = 0
        self.rests = self._split(rest)

    def sum(self, world: World) -> list[np.ndarray]:
        """Return the sums over the ranks of what each has chosen, added in their order.

        One message of a rank has a place and a number for each element.
        """
        total = np.zeros(self.size, self.items["number"].dtype)
        for part in world.gather(self.items, WHAT):
            total[part["place"]] += part["number"]
        return self._split(total)

    def _split(self, flat):
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in self.shapes])
        pieces = np.split(flat, ends[:-1])
        return [a.reshape(shape) for a, shape in zip(pieces, self.shapes, strict=True)]


def largest(array: np.ndarray, fraction: float) -> np.ndarray:
    """Return the places int64 [k] of the largest elements of a flattened array, ascending.

    k is `fraction` of its size, at least 1. NaN is larger than any number.
    """
    flat = array.reshape(-1)
    count = min(flat.size, max(1, round(fraction * flat.size)))
    if not count:
        return np.zeros(0, np.int64)
    sizes = np.where(np.isnan(flat), np.inf, np.abs(flat))
    return np.sort(np.argpartition(sizes, flat.size - count)[flat.size - count :])
