"""Derivatives of pooling over regions of images."""

from typing import Any

import numpy as np

from ... import ops
from ...graph.variable import Operand, Variable
from ..expression import expression
from ..registry import Attributes


@expression("MaxRoiPool")
def max_roi_pool(a: Attributes, x: Variable, regions: Variable) -> Variable:
    return ops.roi_max_pool(x, regions, a["pooled_shape"], a.get("spatial_scale", 1.0))


@expression("RoiAlign")
def roi_align(a: Attributes, x: Variable, regions: Variable, image: Variable) -> Variable:
    """Average or maximum of bilinear samples in each cell of a region (He et al. 2017)."""
    scale, count = a.get("spatial_scale", 1.0), a.get("sampling_ratio", 0)
    half = a.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    sides = []
    for k, name in ((1, "output_height"), (0, "output_width")):
        ends = [ops.gather(regions, np.array([j]), 1) for j in (k, k + 2)]
        first, last = (v * scale - (0.5 if half else 0.0) for v in ends)
        size = last - first if half else ops.maximum(last - first, 1.0)
        pixels = ops.cast(ops.reshape(ops.size_of(x, 3 - k), []), x.dtype)
        sides.append(_Side(first, size, a.get(name, 1), count, pixels))
    x = ops.gather(x, image)
    return (_average if a.get("mode", "avg") == "avg" else _largest)(x, *sides)


class _Side:
    """The samples along one axis of each region: coordinates [R, cells, samples] in the image.

    `exists` masks the samples that a cell has, `inside` those of them within the image.
    """

    def __init__(self, first, size, cells, count, pixels):
        width, dtype = size * (1.0 / cells), size.dtype
        if count:
            number, largest = ops.ones_like(width) * float(count), count
        else:  # sampling_ratio 0: one sample for each pixel of a cell
            number = ops.stop_gradient(-ops.floor(-width))
            largest = ops.cast(ops.reduce_max(number), np.int64)
        samples = ops.cast(ops.arange(largest), dtype)
        first, width, number = (ops.unsqueeze(v, 2) for v in (first, width, number))
        self.number, self.pixels, self.cells = ops.maximum(number, 1.0), pixels, cells
        exists = samples < number
        cell = np.arange(cells, dtype=dtype).reshape(1, -1, 1)
        at = first + width * cell + (samples + 0.5) * width / self.number
        inside = ops.logical_and(at >= -1.0, at <= pixels)
        self.exists = ops.expand_like(exists, at)
        self.inside = ops.logical_and(inside, exists)
        self.at = ops.clip(at, 0.0, pixels - 1.0)

    def weights(self):
        """Return the weight of each pixel in a cell's average, [R, cells, pixels]."""
        pixel = ops.cast(ops.arange(ops.cast(self.pixels, np.int64)), self.at.dtype)
        weights = ops.relu(1.0 - abs(ops.unsqueeze(self.at, 3) - pixel))
        weights = ops.where(ops.unsqueeze(self.inside, 3), weights, 0.0)
        return ops.reduce_sum(weights, [2]) / self.number

    def neighbours(self):
        """Return the pixels on both sides of each sample with their weights, [R, cells samples]."""
        lower = ops.stop_gradient(ops.floor(self.at))
        upper = ops.minimum(lower + 1.0, self.pixels - 1.0)
        fraction = self.at - lower
        pairs = (lower, 1.0 - fraction), (upper, fraction)
        return [tuple(map(_flatten, pair)) for pair in pairs]


def _flatten(v):
    return ops.reshape(v, ops.concat([ops.size_of(v, 0), np.array([-1])]))


def _average(x, rows, columns):
    """Multiply the weights of rows, the image, and the weights of columns, for each region."""
    vertical, horizontal = (ops.unsqueeze(side.weights(), 1) for side in (rows, columns))
    return vertical @ x @ ops.matrix_transpose(horizontal)


def _largest(x, rows, columns):
    """Return the largest weighted pixel around the samples of each cell."""
    pixels = ops.reshape(x, [0, 0, -1])
    largest: Any = None
    inside = _outer(_flatten(rows.inside), _flatten(columns.inside), ops.logical_and)
    for row, vertical in rows.neighbours():
        for column, horizontal in columns.neighbours():
            index = ops.cast(_outer(row * columns.pixels, column, ops.add), np.int64)
            weight = ops.where(inside, _outer(vertical, horizontal, ops.mul), 0.0)
            weighted = _gather_pixels(pixels, index) * ops.unsqueeze(weight, 1)
            largest = weighted if largest is None else ops.maximum(largest, weighted)
    sizes: list[Operand] = [ops.slice(ops.shape_of(pixels), [0], [2], [0])]
    for side in (rows, columns):
        sizes += [np.array([side.cells]), ops.size_of(side.exists, 2)]
    largest = ops.reshape(largest, ops.concat(sizes))
    exists = _outer(_flatten(rows.exists), _flatten(columns.exists), ops.logical_and)
    exists = ops.reshape(exists, ops.concat([ops.size_of(exists, 0), np.array([1]), *sizes[1:]]))
    lowest = float(np.finfo(x.dtype).min)
    maximum = ops.reduce_max(ops.where(exists, largest, lowest), [3, 5])
    return ops.where(maximum > lowest, maximum, 0.0)  # 0 for cells without samples


def _outer(a, b, function):
    """Combine rows and columns as an outer product does: [R, rows, columns]."""
    return function(ops.unsqueeze(a, 2), ops.unsqueeze(b, 1))


def _gather_pixels(pixels, at):
    """Gather from pixels [R, C, H W] by flat indices [R, rows, columns]: [R, C, rows, columns]."""
    lead = ops.slice(ops.shape_of(pixels), [0], [2], [0])
    index = ops.reshape(at, ops.concat([ops.size_of(at, 0), np.array([1, -1])]))
    index = ops.expand(index, ops.concat([lead, ops.size_of(index, 2)]))
    values = ops.gather_elements(pixels, index, 2)
    return ops.reshape(values, ops.concat([lead, ops.slice(ops.shape_of(at), [1], [3], [0])]))
