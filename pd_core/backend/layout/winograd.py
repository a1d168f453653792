"""Convolutions by Winograd's minimal filtering of images that are kept position-major.

F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5) of Lavin and Gray, "Fast algorithms for convolutional neural
networks" (2015), with the interpolation points 0, 1, -1, 2, -2 and infinity: tiles of 6 x 6. Their
transforms are products with Kronecker squares of the matrices of one axis, of whole rows.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ... import ops
from ...graph.node import apply, composite
from ...graph.variable import Dim, Variable, constant, static
from ..passes.windows import merged
from .image import ABSENT, Image, Rows, tiled

SIDE = 6  # of a tile
_POINTS = (0, 1, -1, 2, -2)
# B^T of these points, of which A^T and G are functions.
_BT = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)


class Transforms(NamedTuple):
    """Matrices on flattened squares, float32."""

    image: np.ndarray  # [36, 36]: a tile, transformed
    filters: np.ndarray  # [36, r * r]
    result: np.ndarray  # [m * m, 36]: products, transformed back


@cache
def transforms(r: int) -> Transforms:
    """Return the matrices for filters of r x r, whose tiles give (7 - r) x (7 - r) results."""
    m = SIDE + 1 - r
    weights = [np.prod([p - q for q in _POINTS if q != p]) for p in _POINTS]
    rows = [[p**k / w for k in range(r)] for p, w in zip(_POINTS, weights, strict=True)]
    g = np.array([*rows, [0] * (r - 1) + [1]])
    at = np.array([[*(p**i for p in _POINTS), int(i == m - 1)] for i in range(m)])
    squares = (np.kron(a, a).astype(np.float32) for a in (_BT, g, at))
    return Transforms(*squares)


class Winograd:
    """Convolutions with stride 1 of filters [K, C, r, r], by tiles."""

    def __init__(self, rows: Rows):
        self.rows = rows

    def conv(self, x: Image, w: Variable, pads: Sequence[int], sizes: Sequence[int]) -> Image:
        """Return x convolved with w; `pads` are zeros before each axis, `sizes` of the result."""
        r = int(w.dims[2])
        u = self._filters(w)
        products = _product(self._tiles(x, r, pads, sizes), u, "transB")
        return self._result(products, x, r, int(w.dims[0]), sizes)

    def input_grad(
        self, dy: Image, w: Variable, pads: Sequence[int], sizes: Sequence[int]
    ) -> Image:
        """Return the gradient of an image of these sizes: each step of `conv` transposed."""
        r, channels = int(w.dims[2]), int(w.dims[1])
        m = SIDE + 1 - r
        down, across = _tiles_of(dy.sizes, m)
        products = _product(self._slopes(dy, r), self._filters(w))
        columns = merged(products.dims[1], channels)
        flat = _reshaped(products, [SIDE * SIDE, -1], (SIDE * SIDE, columns))
        flat = _left(transforms(r).image.T, flat)
        count = SIDE * SIDE * down * across
        cells = _reshaped(flat, [count, -1, channels], (count, dy.batch, channels))
        order = tiled(sizes)
        terms = []
        for y in _covering(sizes[0], down, m, pads[0]):
            for x in _covering(sizes[1], across, m, pads[1]):
                (tile_y, y_in), (tile_x, x_in) = y, x
                inside = (tile_y >= 0)[:, None] & (tile_x >= 0)
                cell = y_in[:, None] * SIDE + x_in
                row = (cell * down + tile_y[:, None]) * across + tile_x
                index = np.empty(order.size, np.int64)
                index[order.ravel()] = np.where(inside, row, ABSENT).ravel()
                terms.append(self.rows.take(cells, index))
        return Image(apply("Sum", *terms, known=terms[0].dims), order)

    def filter_grad(
        self, x: Image, dy: Image, dims: Sequence[Dim], pads: Sequence[int]
    ) -> Variable:
        """Return the gradient of filters of these dims."""
        filters, channels, r, _ = static(dims)
        du = _product(self._slopes(dy, r), self._tiles(x, r, pads, dy.sizes), "transA")
        du = _reshaped(du, [SIDE * SIDE, -1], (SIDE * SIDE, filters * channels))
        dw = _left(transforms(r).filters.T, du)
        return ops.reshape(apply("Transpose", dw, perm=[1, 0]), np.array(dims))

    def _slopes(self, dy, r):
        """The gradient of the products, [36, tiles * N, K]."""
        return self.rows.once(("slopes", dy.rows, r), lambda: self._products_of(dy, r))

    def _products_of(self, dy, r):
        m = SIDE + 1 - r
        down, across = _tiles_of(dy.sizes, m)
        wanted = np.full((m, m, down, across), ABSENT)
        y, x = np.mgrid[: dy.sizes[0], : dy.sizes[1]]
        wanted[y % m, x % m, y // m, x // m] = dy.order
        cut = self.rows.take(dy.rows, wanted)
        tiles = merged(dy.batch, down * across)
        flat = _reshaped(cut, [m * m, -1], (m * m, merged(tiles, dy.channels)))
        dm = _left(transforms(r).result.T, flat)
        return _reshaped(dm, [SIDE * SIDE, -1, dy.channels], (SIDE * SIDE, tiles, dy.channels))

    def _filters(self, w):
        """The transformed filters, [36, K, C]."""
        return self.rows.once(("filters", w), lambda: _transformed_filters(w))

    def _tiles(self, x, r, pads, sizes):
        """The transformed tiles of an image, [36, tiles * N, C]."""
        key = ("tiles", x.rows, r, tuple(pads), tuple(sizes))
        return self.rows.once(key, lambda: self._transformed(x, r, pads, sizes))

    def _transformed(self, x, r, pads, sizes):
        m = SIDE + 1 - r
        down, across = _tiles_of(sizes, m)
        y = _cells(down, m, pads[0], x.sizes[0])
        x_ = _cells(across, m, pads[1], x.sizes[1])
        inside = (y >= 0)[:, None, :, None] & (x_ >= 0)[None, :, None, :]
        index = np.where(inside, x.order[y[:, None, :, None], x_[None, :, None, :]], ABSENT)
        cut = self.rows.take(x.rows, index)
        tiles = merged(x.batch, down * across)
        flat = _reshaped(cut, [SIDE * SIDE, -1], (SIDE * SIDE, merged(tiles, x.channels)))
        v = _left(transforms(r).image, flat)
        return _reshaped(v, [SIDE * SIDE, -1, x.channels], (SIDE * SIDE, tiles, x.channels))

    def _result(self, products, x, r, channels, sizes):
        """The image of these products [36, tiles * N, channels]."""
        m = SIDE + 1 - r
        down, across = _tiles_of(sizes, m)
        columns = merged(products.dims[1], channels)
        flat = _reshaped(products, [SIDE * SIDE, -1], (SIDE * SIDE, columns))
        y = _left(transforms(r).result, flat)
        count = m * m * down * across
        rows = _reshaped(y, [count, -1, channels], (count, x.batch, channels))
        if (down * m, across * m) == tuple(sizes):
            return Image(rows, tiled(sizes, m))
        whole = tiled((down * m, across * m), m)[: sizes[0], : sizes[1]]
        return Image(self.rows.take(rows, np.sort(whole, axis=None)), tiled(sizes, m))


def _transformed_filters(w):
    """Filters [K, C, r, r] transformed, [36, K, C]."""
    filters, channels, r, _ = w.dims
    flat = ops.reshape(w, np.array([filters * channels, r * r]))
    u = _turned(constant(np.ascontiguousarray(transforms(r).filters)), flat)
    return ops.reshape(u, np.array([SIDE * SIDE, filters, channels]))


def _tiles_of(sizes, m):
    return tuple(-(-size // m) for size in sizes)


def _cells(tiles, m, pad, size):
    """The index in an axis of each cell of each tile, [6, tiles]; -1 outside of the image."""
    at = np.arange(SIDE)[:, None] + m * np.arange(tiles) - pad
    return np.where((at >= 0) & (at < size), at, -1)


def _covering(size, tiles, m, pad):
    """(tile, offset in it) of the tiles over each pixel of an axis: as many pairs as needed."""
    at = np.arange(size) + pad
    for k in range(-(-SIDE // m)):
        tile = at // m - k
        offset = at - tile * m
        fits = (tile >= 0) & (tile < tiles) & (offset < SIDE)
        yield np.where(fits, tile, -1), np.where(fits, offset, 0)


def _left(transform, x):
    """The product of a transform and the matrix x."""
    known = (transform.shape[0], x.dims[1])
    return apply("MatMul", constant(np.ascontiguousarray(transform)), x, known=known)


def _product(a, b, transposed=""):
    """The products of matrices [36, I, J] and [36, J, K]; one may be stored transposed."""
    rows = a.dims[2] if transposed == "transA" else a.dims[1]
    columns = b.dims[1] if transposed == "transB" else b.dims[2]
    dims = (a.dims[0], rows, columns)
    if not transposed:
        return apply("MatMul", a, b, known=dims)
    return _fused(a, b, dims, transposed)


def _turned(a, b):
    """The product of a matrix and a transposed one."""
    return _fused(a, b, (a.dims[0], b.dims[0]), "transB")


def _fused(a, b, dims, transposed):
    types = [(dims, np.dtype(np.float32))]
    turned: dict[str, Any] = {transposed: 1}
    return composite("FusedMatMul", a, b, types=types, domain="com.microsoft", **turned)


def _reshaped(x, target, dims):
    return apply("Reshape", x, np.array(target), known=tuple(dims))
