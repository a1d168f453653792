"""Rows of the image ops."""

import numpy as np

from pd_core import ops

from .case import case, distinct, fixed, normal


def interpolate(x, sizes):
    """Axis by axis, pixel by pixel, between the two neighbours."""
    for axis, count in zip(range(2, x.ndim), np.broadcast_to(sizes, x.ndim - 2), strict=True):
        size, x = x.shape[axis], np.moveaxis(x, axis, 0)
        pixels = []
        for k in range(count):
            at = k * (size - 1) / (count - 1) if count > 1 else 0
            low = min(int(at), size - 1)
            high, share = min(low + 1, size - 1), at - low
            pixels.append((1 - share) * x[low] + share * x[high])
        x = np.moveaxis(np.stack(pixels), 0, axis)
    return x


def _row(label, x, sizes):
    return case("Resize", ops.interpolate, interpolate, [normal(*x)], label=label, sizes=sizes)


def roi(x, regions, sizes, scale=1.0):
    """Region by region, cell by cell."""
    y = np.zeros((len(regions), x.shape[1], *sizes))
    for place in np.ndindex(len(regions), *sizes):
        image, x1, y1, x2, y2 = regions[place[0]][:5]
        spans = []
        for low, high, k, count, size in (
            (y1, y2, place[1], sizes[0], x.shape[2]),
            (x1, x2, place[2], sizes[1], x.shape[3]),
        ):
            low, high = (int(np.floor(v * scale + 0.5)) for v in (low, high))
            step = max(high - low + 1, 1) / count
            ends = low + int(np.floor(k * step)), low + int(np.ceil((k + 1) * step))
            spans.append(slice(*np.clip(ends, 0, size)))
        cell = x[int(image), :, spans[0], spans[1]].reshape(x.shape[1], -1)
        if cell.shape[1]:
            y[place[0], :, place[1], place[2]] = cell.max(1)
    return y


REGIONS = [[1, 0, 1, 5, 4], [0, 2, 2, 2, 2], [1, -3, 3, 0, 9]]


def _regions(label, values, sizes, **options):
    return case(
        "roi_max_pool",
        lambda x, regions, **o: ops.roi_max_pool(x, ops.cast(regions, x.dtype), **o),
        roi,
        [distinct(2, 2, 5, 6), fixed(values)],
        label=label,
        sizes=sizes,
        batch=(0, 1),
        **options,
    )


def _starts(size, block, stride, pad):
    """Until the last block holds the end of the border."""
    starts = [-pad]
    while starts[-1] + block < size + pad:
        starts.append(starts[-1] + stride)
    return starts


def _blocks(x, block, strides, pads):
    """Block by block, over an image with more zeros around it than any block reaches."""
    n, channels, height, width = x.shape
    wide = np.zeros((n, channels, height + 20, width + 20))
    wide[:, :, 10 : 10 + height, 10 : 10 + width] = x
    ys, xs = map(_starts, (height, width), block, strides, pads)
    out = [
        image[:, 10 + top : 10 + top + block[0], 10 + left : 10 + left + block[1]].reshape(-1)
        for image in wide
        for top in ys
        for left in xs
    ]
    return np.array(out).reshape(-1, channels * block[0] * block[1])


def _cut_up(label, shape, block, strides=(1, 1), pads=(0, 0)):
    return case(
        "im2col",
        lambda x, **o: ops.im2col(x, **o)[0],
        _blocks,
        [normal(*shape)],
        label=label,
        block=block,
        strides=strides,
        pads=pads,
    )


CASES = [
    _cut_up("overlapping", (2, 2, 4, 5), (3, 2)),
    _cut_up("side by side", (2, 2, 4, 6), (2, 3), (2, 3)),
    _cut_up("beyond the end", (2, 1, 4, 5), (3, 2), (2, 2)),
    _cut_up("apart", (1, 1, 7, 3), (2, 1), (3, 2)),
    _cut_up("padded", (2, 2, 3, 4), (3, 3), (2, 2), (1, 2)),
    _cut_up("larger than the image", (2, 2, 3, 4), (5, 1)),
    _regions("", REGIONS, [2, 2]),
    _regions("scaled", [[0, 1, 2, 9, 7, 77]], [1, 4], scale=0.5),
    _regions("outside", [[1, 8, 1, 9, 3]], [2, 1]),
    _row("larger", (2, 2, 3, 4), [5, 9]),
    _row("smaller", (2, 1, 5, 7), [3, 4]),
    _row("larger and smaller", (1, 2, 3, 6), [6, 3]),
    _row("the same", (2, 2, 3, 3), 3),
    _row("to one pixel", (2, 2, 3, 4), [1, 1]),
    _row("to one row", (2, 2, 3, 4), [1, 6]),
    _row("from one pixel", (2, 2, 1, 1), [3, 2]),
    _row("1-D", (2, 3, 4), 7),
]
