"""Pooling of images that are position-major: the cells of all windows are rows."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable, constant, static
from ..passes.context import Context
from ..passes.nan import if_nan
from ..passes.relu import masked
from .direct import Geometry, cells_of, sources_of
from .image import ABSENT, Image, Rows, tiled

POOLS = frozenset(
    {
        *("MaxPool", "TiedMaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
        *("MaxPoolGrad", "AveragePoolGrad"),
    }
)
_MOST_CELLS = 25  # of a window, each of which is a Gather
_LOWEST = float(np.finfo(np.float32).min)


class Pooling:
    """Pools windows; `image_of(x)` makes a plain image position-major."""

    def __init__(self, rows: Rows, image_of: Callable[[Variable], Image], context: Context):
        self.rows, self.image_of, self.context = rows, image_of, context

    def apply(self, node: Node, inputs: Inputs) -> Image | None:
        """Return a pooling or its gradient, None for windows that are not for rows."""
        is_grad = node.op_type.endswith("Grad")
        result = node.inputs[-1] if is_grad else node.outputs[0]
        g = geometry_of(node, inputs[0], result)
        if g is None or len(node.outputs) > 1:
            return None
        mean = "Average" in node.op_type
        whole = mean and g.sizes == (1, 1) and g.window == tuple(inputs[0].dims[2:])
        if math.prod(g.window) > _MOST_CELLS and not whole:
            return None
        if mean and any(g.pads):
            return None  # how many cells count depends on the window
        if not is_grad:
            x = self.image_of(inputs[0])
            return self._mean(x, g) if mean else self._max(x, g)
        if mean:
            dy = self.image_of(inputs[-1])
            return self._mean_grad(dy, static(inputs[0].dims[2:]), g)
        all_ties = node.attributes.get("ties", "first") == "all"
        largest, y, dy = map(self.image_of, inputs)
        return self._max_grad(largest, y, dy, g, all_ties)

    def _max(self, x, g):
        cells = self._cells(x, g)
        y = cells[0] if len(cells) == 1 else apply("Max", *cells, known=cells[0].dims)
        return Image(y, tiled(g.sizes))

    def _mean(self, x, g):
        order, count = tiled(g.sizes), math.prod(g.window)
        if order.size == 1 and count == x.order.size:
            axis = np.array([0])
            y = apply("ReduceMean", x.rows, axis, keepdims=1, known=(1, *x.rows.dims[1:]))
            return Image(y, order)
        cells = self._cells(x, g)
        total = apply("Sum", *cells, known=cells[0].dims)
        return Image(total * constant(1 / count, np.float32), order)

    def _max_grad(self, x, y, dy, g, all_ties):
        """dy at the largest element of each window: the first of equal ones, or all of them.

        The last NaN of a window is its largest, or all of them are.
        """
        order = tiled(g.sizes)
        y, dy = self.rows.ordered(y, order).rows, self.rows.ordered(dy, order).rows
        cells = self._cells(x, g)
        dims = (len(cells) * order.size, *dy.dims[1:])

        def spread(is_nan: bool) -> list[Variable]:
            parts, left = shares([apply("Equal", c, y, known=c.dims) for c in cells], dy, all_ties)
            if is_nan:  # of which none is equal to y
                last = [apply("IsNaN", c) for c in reversed(cells)]
                more, _ = shares(last, left, all_ties)
                parts = [a + b for a, b in zip(parts, reversed(more), strict=True)]
            return [apply("Concat", *parts, axis=0, known=dims)]

        rows = if_nan(y, self.context, lambda: spread(True), lambda: spread(False))[0]
        return self._summed(rows, order, x.sizes, g, by_cell=True)

    def _mean_grad(self, dy, image: Sequence[int], g):
        order, count = tiled(g.sizes), math.prod(g.window)
        share = self.rows.ordered(dy, order).rows * constant(1 / count, np.float32)
        return self._summed(share, order, image, g, by_cell=False)

    def _summed(self, rows, order, image, g, by_cell):
        """The sum at each pixel of rows [cells, P], or [P], of the windows that it lies in."""
        count = math.prod(g.window)
        sources = sources_of(order, image, g)  # rows of [P, cells]
        pixel = sources // count
        if by_cell:
            pixel = (sources % count) * order.size + pixel
        pixel = np.where(sources == ABSENT, ABSENT, pixel)
        if len(pixel) == 1 and by_cell and (pixel >= 0).all() and rows.dims[0] == pixel.size:
            return Image(rows, pixel[0])
        order = tiled(image)
        index = np.empty((len(pixel), order.size), np.int64)
        index[:, order.ravel()] = pixel.reshape(len(pixel), -1)
        terms = [self.rows.take(rows, i) for i in index]
        total = terms[0] if len(terms) == 1 else apply("Sum", *terms, known=terms[0].dims)
        return Image(total, order)

    def _cells(self, x, g) -> list[Variable]:
        """The rows of each cell of the windows, in the order of the result."""
        index = cells_of(x.order, g).T
        return [self.rows.take(x.rows, i, absent=_LOWEST) for i in index]


def shares(
    winners: Iterable[Variable], dy: Variable, all_ties: bool
) -> tuple[list[Variable], Variable]:
    """Return dy where each mask holds and what is left; unless `all_ties` the first one gets it."""
    parts = []
    for mask in winners:
        parts.append(masked(mask, dy))
        dy = dy if all_ties else dy - parts[-1]
    return parts, dy


def geometry_of(node: Node, image: Variable, result: Variable) -> Geometry | None:
    """Return the windows of a pooling; None for dilations and where they reach beyond padding."""
    sizes = [*image.dims[1:], *result.dims[1:]]
    if image.rank != 4 or image.dtype != np.float32 or not all(isinstance(d, int) for d in sizes):
        return None
    pixels: Any = image.dims[2:]
    found: Any = result.dims[2:]
    if node.op_type.startswith("Global"):
        return Geometry(pixels, pixels, (0, 0), (1, 1))
    a = node.attributes
    window = tuple(a["kernel_shape"])
    strides = tuple(a.get("strides") or (1, 1))
    pads = tuple(a.get("pads") or (0, 0, 0, 0))
    dilated = any(d != 1 for d in a.get("dilations") or ())
    if dilated or a.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    axes = list(zip(window, strides, pixels, found, pads, strict=False))
    inside = all((r - 1) * s + k <= size + p for k, s, size, r, p in axes)
    if "Average" in node.op_type and (any(pads) or not inside):
        return None
    # the last window of an axis with one window reaches as far as its stride
    strides = tuple(max(k, s) if r == 1 else s for k, s, _, r, _ in axes)
    return Geometry(window, strides, pads[:2], found)
