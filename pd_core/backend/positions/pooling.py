"""Pooling of images that are position-major: the cells of all windows are rows."""

from collections.abc import Sequence

import numpy as np

from ...graph.node import Node, apply
from ...graph.variable import Variable, constant
from ..passes.relu import masked
from .direct import Geometry, cells_of, sources_of
from .image import Image, Rows, tiled

MOST_CELLS = 25  # of a window, each of which is a Gather


class Pooling:
    """Pools windows that lie inside of the image."""

    def __init__(self, rows: Rows):
        self.rows = rows

    def max(self, x: Image, g: Geometry) -> Image:
        """Return the largest element of each window."""
        cells = self._cells(x, g)
        y = cells[0] if len(cells) == 1 else apply("Max", *cells, known=cells[0].dims)
        return Image(y, tiled(g.sizes))

    def mean(self, x: Image, g: Geometry) -> Image:
        """Return the mean of each window."""
        order, count = tiled(g.sizes), g.window[0] * g.window[1]
        if order.size == 1 and count == x.order.size:
            axis = np.array([0])
            y = apply("ReduceMean", x.rows, axis, keepdims=1, known=(1, *x.rows.dims[1:]))
            return Image(y, order)
        cells = self._cells(x, g)
        total = apply("Sum", *cells, known=cells[0].dims)
        return Image(total * constant(1 / count, np.float32), order)

    def max_grad(self, x: Image, y: Image, dy: Image, g: Geometry, all_ties: bool) -> Image:
        """Return dy at the largest element of each window; windows must not overlap.

        Of equal elements the first wins, or all of them.
        """
        order = tiled(g.sizes)
        y, dy = self.rows.ordered(y, order), self.rows.ordered(dy, order)
        parts, left = [], dy.rows
        cells = self._cells(x, g)
        for cell in cells if all_ties else cells[:-1]:
            largest = apply("Equal", cell, y.rows, known=cell.dims)
            part = masked(largest, left)
            parts.append(part)
            if not all_ties:
                left = left - part
        if not all_ties:
            parts.append(left)
        dims = (len(cells) * order.size, *dy.rows.dims[1:])
        rows = apply("Concat", *parts, axis=0, known=dims)
        return self._placed(rows, order, x.sizes, g)

    def mean_grad(self, dy: Image, image: Sequence[int], g: Geometry) -> Image:
        """Return dy spread evenly over each window; windows must not overlap."""
        order, count = tiled(g.sizes), g.window[0] * g.window[1]
        dy = self.rows.ordered(dy, order)
        share = dy.rows * constant(1 / count, np.float32)
        sources = sources_of(order, image, g)[0]
        sources = np.where(sources >= 0, sources // count, sources)
        return self._at(share, sources, image)

    def _placed(self, parts, order, image, g):
        """Rows [taps, P] at their pixels."""
        count = g.window[0] * g.window[1]
        (sources,) = sources_of(order, image, g)  # rows of [P, taps]
        place = (sources % count) * order.size + sources // count
        if (sources >= 0).all() and parts.dims[0] == sources.size:
            return Image(parts, place)
        return self._at(parts, np.where(sources >= 0, place, sources), image)

    def _at(self, rows, sources, image):
        order = tiled(image)
        index = np.empty(order.size, np.int64)
        index[order.ravel()] = sources.ravel()
        return Image(self.rows.take(rows, index), order)

    def _cells(self, x, g) -> list[Variable]:
        """The rows of each cell of the windows, in the order of the result."""
        return [self.rows.take(x.rows, index) for index in cells_of(x.order, g).T]


def geometry_of(node: Node, image: Sequence[int], result: Sequence[int]) -> Geometry | None:
    """Return the windows of a pooling inside of the image, None for others."""
    a = node.attributes
    if node.op_type in ("GlobalAveragePool", "GlobalMaxPool"):
        return Geometry(tuple(image), tuple(image), (0, 0), (1, 1))
    window = tuple(a["kernel_shape"])
    strides = tuple(a.get("strides") or (1, 1))
    padded = any(a.get("pads") or ()) or a.get("auto_pad", "NOTSET") != "NOTSET"
    dilated = any(d != 1 for d in a.get("dilations") or ())
    axes = zip(window, strides, image, result, strict=True)
    inside = all((r - 1) * s + k <= size for k, s, size, r in axes)
    if padded or dilated or not inside:
        return None
    strides = tuple(k if r == 1 else s for k, s, r in zip(window, strides, result, strict=True))
    return Geometry(window, strides, (0, 0), tuple(result))


def tiles(g: Geometry) -> bool:
    """Whether no two windows overlap."""
    axes = zip(g.window, g.strides, g.sizes, strict=True)
    return all(k <= s or r == 1 for k, s, r in axes)
