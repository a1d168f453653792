"""Convolutions as one product: of positions for filters of 1 x 1, else of windows laid out in rows.

For strides, which Winograd's tiles do not have, and for images of few channels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ... import ops
from ...graph.node import apply, composite
from ...graph.variable import Dim, Variable, static
from ..passes.windows import merged, reshape_dims
from .image import ABSENT, Image, Rows, matrix, of_matrix, tiled


class Geometry(NamedTuple):
    """Windows of an image: sizes of the filters, strides, zeros before each axis, of the result."""

    window: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]
    sizes: tuple[int, int]


class Direct:
    """Convolutions of any stride and window."""

    def __init__(self, rows: Rows):
        self.rows = rows

    def conv(self, x: Image | Variable, w: Variable, g: Geometry) -> Image:
        """Return x convolved with w; x may be a plain image of few channels."""
        batch = x.batch if isinstance(x, Image) else x.dims[0]
        turned = {"transA": 1} if isinstance(x, Variable) else {}
        w = self._filters(w, isinstance(x, Image))
        flat = _product(self._windows(x, g), w, transB=1, **turned)
        order = tiled(g.sizes)
        return Image(of_matrix(flat, order.size, batch), order)

    def filter_grad(
        self, x: Image | Variable, dy: Image, dims: Sequence[Dim], g: Geometry
    ) -> Variable:
        """Return the gradient of filters of these dims."""
        dy = self.rows.ordered(dy, tiled(g.sizes))
        if isinstance(x, Variable):
            flat = _product(self._windows(x, g), matrix(dy.rows))
            return ops.reshape(apply("Transpose", flat, perm=[1, 0]), np.array(dims))
        flat = _product(matrix(dy.rows), self._windows(x, g), transA=1)
        filters, channels, *window = static(dims)
        taps = window[0] * window[1]
        if taps > 1:
            flat = ops.reshape(flat, np.array([filters, taps, channels]))
            flat = apply("Transpose", flat, perm=[0, 2, 1])
        return ops.reshape(flat, np.array(dims))

    def input_grad(self, dy: Image, w: Variable, image: Sequence[int], g: Geometry) -> Image:
        """Return the gradient of an image of these sizes: what each window gives, summed."""
        channels, taps = int(w.dims[1]), g.window[0] * g.window[1]
        flat = _product(matrix(dy.rows), self._filters(w, True))
        parts = self._in_rows(flat, dy, taps, channels)
        order = tiled(image)
        sources = sources_of(dy.order, image, g)
        index = np.empty((len(sources), order.size), np.int64)
        index[:, order.ravel()] = sources.reshape(len(sources), -1)
        terms = [self.rows.take(parts, i) for i in index]
        total = terms[0] if len(terms) == 1 else apply("Sum", *terms, known=terms[0].dims)
        return Image(total, order)

    @staticmethod
    def _in_rows(flat, dy, taps, channels):
        """A matrix [P * N, taps * C] as rows [P * taps, N, C]."""
        count = int(dy.rows.dims[0])
        if taps == 1:
            return of_matrix(flat, count, dy.batch)
        dims = (count, dy.batch, taps, channels)
        cells = apply("Reshape", flat, np.array([count, -1, taps, channels]), known=dims)
        cells = apply("Transpose", cells, perm=[0, 2, 1, 3])
        target = np.array([count * taps, -1, channels])
        return apply("Reshape", cells, target, known=(count * taps, dy.batch, channels))

    def _windows(self, x, g):
        """The cells of each window as a matrix [P * N, cells]."""
        if isinstance(x, Image):
            key = ("windows", x.rows, x.order.tobytes(), g)
            return self.rows.once(key, lambda: self._of_image(x, g))
        return self.rows.once(("windows", x, g), lambda: self._of_plain(x, g))

    def _of_image(self, x, g):
        index = cells_of(x.order, g)  # [P, taps]
        count, taps = index.shape
        cut = self.rows.take(x.rows, index)
        if taps == 1:
            return matrix(cut)
        dims = (count, taps, x.batch, x.channels)
        cells = apply("Reshape", cut, np.array([count, taps, -1, x.channels]), known=dims)
        cells = apply("Transpose", cells, perm=[0, 2, 1, 3])
        target = np.array([-1, taps * x.channels])
        known = (merged(x.batch, count), taps * x.channels)
        return apply("Reshape", cells, target, known=known)

    def _of_plain(self, x, g):
        """The same of a plain image, transposed: [C * taps, P * N]."""
        n, channels, height, width = x.dims
        pixels = height * width
        flat = reshape_dims(x, [n, channels * pixels])
        rows = apply("Transpose", flat, perm=[1, 0])
        index = cells_of(np.arange(pixels).reshape(height, width), g).T
        offset = np.arange(channels)[:, None, None] * pixels
        index = np.where(index == ABSENT, ABSENT, index + offset)  # [C, taps, P]
        cells, count = channels * index.shape[1], index.shape[2]
        cut = self.rows.take(rows, index)
        return apply("Reshape", cut, np.array([cells, -1]), known=(cells, merged(n, count)))

    def _filters(self, w, taps_first):
        """Filters [K, C, r, r] as a matrix [K, r * r * C], or [K, C * r * r]."""
        filters, channels, *window = w.dims
        taps = window[0] * window[1]
        if not taps_first or taps == 1:
            return ops.reshape(w, np.array([filters, channels * taps]))
        return self.rows.once(("channels last", w), lambda: _channels_last(w))


def _channels_last(w):
    filters, channels, *window = w.dims
    taps = window[0] * window[1]
    flat = ops.reshape(w, np.array([filters, channels, taps]))
    flat = apply("Transpose", flat, perm=[0, 2, 1])
    return ops.reshape(flat, np.array([filters, taps * channels]))


def cells_of(order: np.ndarray, g: Geometry) -> np.ndarray:
    """Return the row of each cell of each window [P, taps], windows in the order of the result."""
    axes = [
        _axis(tap, stride, pad, result, size)
        for tap, stride, pad, result, size in zip(
            g.window, g.strides, g.pads, g.sizes, order.shape, strict=True
        )
    ]
    y, x = axes[0][:, None, :, None], axes[1][None, :, None, :]
    index = np.where((y >= 0) & (x >= 0), order[y, x], ABSENT)
    flat = index.reshape(g.sizes[0] * g.sizes[1], -1)
    sorted_ = np.empty_like(flat)
    sorted_[tiled(g.sizes).ravel()] = flat
    return sorted_


def _axis(taps, stride, pad, result, size):
    """The index in an axis of each tap of each window, [result, taps]; -1 outside of the image."""
    at = np.arange(result)[:, None] * stride + np.arange(taps) - pad
    return np.where((at >= 0) & (at < size), at, -1)


def sources_of(order: np.ndarray, image: Sequence[int], g: Geometry) -> np.ndarray:
    """Return which rows [P * taps] of what the windows give each position sums up, [q, *image]."""
    terms = [
        _windows_at(size, *axis)
        for size, *axis in zip(image, g.window, g.strides, g.pads, g.sizes, strict=True)
    ]
    taps = g.window[0] * g.window[1]
    found = []
    for wy, ty in terms[0]:
        for wx, tx in terms[1]:
            inside = (wy >= 0)[:, None] & (wx >= 0)
            row = order[wy[:, None], wx] * taps + ty[:, None] * g.window[1] + tx
            found.append(np.where(inside, row, ABSENT))
    return np.array(found)


def _windows_at(size, taps, stride, pad, result):
    """(window, tap) that reach each pixel of an axis: as many pairs of arrays [size] as needed."""
    pairs = []
    at = np.arange(size) + pad
    for k in range(-(-taps // stride)):
        window = at // stride - k
        tap = at - window * stride
        fits = (window >= 0) & (window < result) & (tap < taps)
        pairs.append((np.where(fits, window, -1), np.where(fits, tap, 0)))
    return pairs


def _product(a, b, **transposed):
    """The product of two matrices, of which one may be stored transposed."""
    rows = a.dims[1] if "transA" in transposed else a.dims[0]
    columns = b.dims[0] if "transB" in transposed else b.dims[1]
    dims = (rows, columns)
    if not transposed:
        return apply("MatMul", a, b, known=dims)
    types = [(dims, np.dtype(np.float32))]
    return composite("FusedMatMul", a, b, types=types, domain="com.microsoft", **transposed)
