"""Derivatives of pooling over regions of images."""

import numpy as np

from ... import ops
from ..expression import expression


@expression("MaxRoiPool")
def max_roi_pool(a, x, regions):
    return ops.roi_max_pool(x, regions, a["pooled_shape"], a.get("spatial_scale", 1.0))


@expression("RoiAlign")
def roi_align(a, x, regions, image):
    """Samples between the pixels of each cell of a region, averaged (He et al. 2017)."""
    scale, count = a.get("spatial_scale", 1.0), a.get("sampling_ratio", 0)
    half = a.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    sides = []
    for k, name in ((1, "output_height"), (0, "output_width")):
        ends = [ops.slice(regions, [j], [j + 1], [1]) for j in (k, k + 2)]
        first, last = (v * scale - (0.5 if half else 0.0) for v in ends)
        size = last - first if half else ops.maximum(last - first, 1.0)
        pixels = ops.cast(ops.reshape(ops.size_of(x, 3 - k), []), x.dtype)
        sides.append(_Side(first, size, a.get(name, 1), count, pixels))
    x = ops.gather(x, image)
    return (_average if a.get("mode", "avg") == "avg" else _largest)(x, *sides)


class _Side:
    """The samples along one axis of each region: places [R, cells, samples] within the image."""

    def __init__(self, first, size, cells, count, pixels):
        width, dtype = size * (1.0 / cells), size.dtype
        if count:
            number, most = ops.ones_like(width) * float(count), count
        else:  # as many as a cell has pixels
            number = ops.stop_gradient(-ops.floor(-width))
            most = ops.cast(ops.reduce_max(number), np.int64)
        numbers = ops.cast(ops.arange(most), dtype)
        first, width, number = (ops.unsqueeze(v, 2) for v in (first, width, number))
        self.number, self.pixels, self.cells = ops.maximum(number, 1.0), pixels, cells
        made = numbers < number
        cell = np.arange(cells, dtype=dtype).reshape(1, -1, 1)
        at = first + width * cell + (numbers + 0.5) * width / self.number
        seen = ops.logical_and(at >= -1.0, at <= pixels)
        self.made = ops.expand_like(made, at)
        self.seen = ops.logical_and(seen, made)
        self.at = ops.clip(at, 0.0, pixels - 1.0)

    def shares(self):
        """[R, cells, pixels]: how much each pixel counts in a cell's average."""
        pixel = ops.cast(ops.arange(ops.cast(self.pixels, np.int64)), self.at.dtype)
        weights = ops.relu(1.0 - abs(ops.unsqueeze(self.at, 3) - pixel))
        weights = ops.where(ops.unsqueeze(self.seen, 3), weights, 0.0)
        return ops.reduce_sum(weights, [2]) / self.number

    def around(self):
        """The pixels before and behind each sample, with their weights: [R, cells samples]."""
        before = ops.stop_gradient(ops.floor(self.at))
        behind = ops.minimum(before + 1.0, self.pixels - 1.0)
        part = self.at - before
        return [tuple(map(_flat, pair)) for pair in ((before, 1.0 - part), (behind, part))]


def _flat(v):
    return ops.reshape(v, ops.concat([ops.size_of(v, 0), np.array([-1])]))


def _average(x, rows, columns):
    """Rows times image times columns, for each region."""
    along = ops.unsqueeze(rows.shares(), 1), ops.unsqueeze(columns.shares(), 1)
    return along[0] @ x @ ops.swap_last(along[1])


def _largest(x, rows, columns):
    """The largest weighted pixel around the samples of each cell."""
    pixels, largest = ops.reshape(x, [0, 0, -1]), None
    there = _beside(_flat(rows.seen), _flat(columns.seen), ops.logical_and)
    for row, across in rows.around():
        for column, along in columns.around():
            at = ops.cast(_beside(row * columns.pixels, column, ops.add), np.int64)
            weight = ops.where(there, _beside(across, along, ops.mul), 0.0)
            found = _read(pixels, at) * ops.unsqueeze(weight, 1)
            largest = found if largest is None else ops.maximum(largest, found)
    sizes = [ops.slice(ops.shape_of(pixels), [0], [2], [0])]
    for side in (rows, columns):
        sizes += [np.array([side.cells]), ops.size_of(side.made, 2)]
    largest = ops.reshape(largest, ops.concat(sizes))
    made = _beside(_flat(rows.made), _flat(columns.made), ops.logical_and)
    made = ops.reshape(made, ops.concat([ops.size_of(made, 0), np.array([1]), *sizes[1:]]))
    lowest = float(np.finfo(x.dtype).min)
    found = ops.reduce_max(ops.where(made, largest, lowest), [3, 5])
    return ops.where(found > lowest, found, 0.0)


def _beside(a, b, join):
    return join(ops.unsqueeze(a, 2), ops.unsqueeze(b, 1))


def _read(pixels, at):
    """[R, C, rows, columns]: pixels [R, C, H W] by their numbers [R, rows, columns]."""
    lead = ops.slice(ops.shape_of(pixels), [0], [2], [0])
    index = ops.reshape(at, ops.concat([ops.size_of(at, 0), np.array([1, -1])]))
    index = ops.expand(index, ops.concat([lead, ops.size_of(index, 2)]))
    found = ops.gather_elements(pixels, index, 2)
    return ops.reshape(found, ops.concat([lead, ops.slice(ops.shape_of(at), [1], [3], [0])]))
