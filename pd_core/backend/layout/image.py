"""Images kept position-major, [positions, N, C]: a contiguous row of pixels for each position.

Cutting windows, a stride, padding and the order of positions are one Gather of rows each; a channel
is the last axis. The order of positions is free: an element-wise operator does not care, and the
next Gather undoes it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph.node import apply
from ...graph.variable import Dim, Variable, constant, static
from ..passes.windows import merged, reshape_dims

TILE = 4  # positions along a side of the tiles that order the positions of a result
ABSENT = -1  # the index of a row of zeros


@dataclass(frozen=True, eq=False)
class Image:
    """Rows [P, N, C] and the row of each position, int64 [*sizes]."""

    rows: Variable
    order: np.ndarray

    @property
    def batch(self) -> Dim:
        """The number of images."""
        return self.rows.dims[1]

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(self.rows.dims[2])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The spatial sizes."""
        return self.order.shape

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the plain image, [N, C, *sizes]."""
        return (self.batch, self.channels, *self.sizes)

    def like(self, rows: Variable) -> "Image":
        """Return other rows in the same order."""
        return Image(rows, self.order)


def row_major(sizes: Sequence[Dim]) -> np.ndarray:
    """Return the order of positions in a plain image."""
    known = static(sizes)
    return np.arange(math.prod(known)).reshape(known)


def tiled(sizes: Sequence[int], side: int = TILE) -> np.ndarray:
    """Return an order by index within a tile, then by tile: that of Winograd's results."""
    height, width = sizes
    down, across = -(-height // side), -(-width // side)
    y, x = np.mgrid[:height, :width]
    index = ((y % side * side + x % side) * down + y // side) * across + x // side
    return index.ravel().argsort(kind="stable").argsort().reshape(height, width)


class Rows:
    """Builds Gathers of rows; what was built once is used again."""

    def __init__(self, cache: dict):
        self.cache = cache

    def once(self, key: tuple, build: Callable[[], Any]) -> Any:
        """Return what `build()` returned for this key the first time."""
        key = ("positions", *key)
        if key not in self.cache:
            self.cache[key] = build()
        return self.cache[key]

    def take(self, rows: Variable, index: np.ndarray, absent: float = 0.0) -> Variable:
        """Return rows [P, ...] by index, flattened; ABSENT stands for a row of `absent`."""
        index = index.ravel()
        count = int(rows.dims[0])
        if index.shape == (count,) and (index == np.arange(count)).all():
            return rows
        key = ("take", rows, index.tobytes(), absent)
        return self.once(key, lambda: self._gathered(rows, index, count, absent))

    def _gathered(self, rows, index, count, absent):
        source = rows
        if (index == ABSENT).any():
            key = ("with another", rows, absent)
            source = self.once(key, lambda: self._with_another(rows, absent))
            index = np.where(index == ABSENT, count, index)
        return apply("Gather", source, index, axis=0, known=(len(index), *rows.dims[1:]))

    @staticmethod
    def _with_another(rows, value):
        shape = apply("Shape", rows, start=1)
        cell = constant(np.full((1,) * rows.rank, value), rows.dtype)
        row = apply("Expand", cell, shape, known=(1, *rows.dims[1:]))
        dims = (int(rows.dims[0]) + 1, *rows.dims[1:])
        return apply("Concat", rows, row, axis=0, known=dims)

    def ordered(self, image: Image, order: np.ndarray) -> Image:
        """Return the same image in another order."""
        if (image.order == order).all():
            return image
        index = np.empty(order.size, np.int64)
        index[order.ravel()] = image.order.ravel()
        return Image(self.take(image.rows, index), order)


def packed(x: Variable) -> Image:
    """Return a plain image [N, C, *sizes] position-major."""
    n, channels, *sizes = x.dims
    count = math.prod(static(sizes))
    flat = reshape_dims(x, [merged(n, channels), count])
    rows = apply("Transpose", flat, perm=[1, 0])
    return Image(_with_channels(rows, (count, n, channels)), row_major(sizes))


def unpacked(image: Image, rows: Rows) -> Variable:
    """Return the plain image."""
    n, channels, *sizes = image.dims
    count = math.prod(static(sizes))
    plain = rows.ordered(image, row_major(sizes)).rows
    flat = reshape_dims(plain, [count, merged(n, channels)])
    flat = apply("Transpose", flat, perm=[1, 0])
    target = np.array([-1, channels, *sizes])
    return apply("Reshape", flat, target, known=tuple(image.dims))


def _with_channels(rows, dims):
    """Rows with their last axis divided, so that the batch takes what remains."""
    return apply("Reshape", rows, np.array([dims[0], -1, dims[2]]), known=dims)


def matrix(rows: Variable) -> Variable:
    """Return rows [P, N, C] as a matrix [P * N, C]."""
    p, n, channels = rows.dims
    return apply("Reshape", rows, np.array([-1, channels]), known=(merged(n, p), channels))


def of_matrix(flat: Variable, positions: int, batch: Dim) -> Variable:
    """Return a matrix [P * N, C] as rows [P, N, C]."""
    dims = (positions, batch, flat.dims[1])
    return _with_channels(flat, dims)
