"""Rows of the image ops."""

import numpy as np

from pd_core import ops

from .case import between, case, distinct, fixed, normal


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


def _cubic(d, a):
    """The kernel of Keys (1981)."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d < 1, near, np.where(d < 2, (((d - 5) * d + 8) * d - 4) * a, 0))


def _axis(size, count, scale, mode, align_corners, antialias):
    """The weights of the pixels of an axis in those of the result, [count, size]."""
    k, pixels = np.arange(count)[:, None], np.arange(size)
    if mode.startswith("nearest"):
        return pixels == np.floor((k + 0.5 * (mode != "nearest")) / scale)
    at = k * (size - 1) / max(count - 1, 1) if align_corners else (k + 0.5) / scale - 0.5
    wide, a = (max(1 / scale, 1), -0.5) if antialias else (1, -0.75)
    outer = np.arange(-3, size + 3)  # the border is repeated, but averages end at it
    distance = np.abs(at - outer) / wide
    weights = _cubic(distance, a) if mode == "cubic" else np.maximum(1 - distance, 0)
    if antialias:
        weights = weights * ((outer >= 0) & (outer < size))
    weights = weights / weights.sum(1, keepdims=True)
    return weights @ (np.clip(outer, 0, size - 1)[:, None] == pixels)


def resize(x, sizes=None, mode="linear", align_corners=None, scale=None, antialias=False):
    """Axis by axis, as a matrix product."""
    for axis, size in enumerate(x.shape[2:]):
        if sizes is None:
            ratio = np.broadcast_to(scale, x.ndim - 2)[axis]
            count = int(np.floor(size * ratio))
        else:
            count = np.broadcast_to(sizes, x.ndim - 2)[axis]
            ratio = count / size
        matrix = _axis(size, count, ratio, mode, align_corners is not False, antialias)
        x = np.moveaxis(np.moveaxis(x, axis + 2, -1) @ matrix.T, -1, axis + 2)
    return x


NEAREST = [("nearest", None, False), ("nearest-exact", None, False)]
POINTS = [(m, c, False) for m in ("linear", "cubic") for c in (True, False)]
AVERAGES = [(m, False, True) for m in ("linear", "cubic")]


def _resized(label, shape, modes, **options):
    """A row of all these modes."""

    def every(function):
        def call(x):
            return [
                function(x, mode=mode, align_corners=corners, antialias=antialias, **options)
                for mode, corners, antialias in modes
            ]

        return call

    return case("interpolate", every(ops.interpolate), every(resize), [normal(*shape)], label=label)


THETA = fixed([[[0.9, 0.2, 0.05], [-0.15, 0.8, 0.1]], [[0.4, 0, 0], [0, -0.5, 0.3]]])


def _affine(theta, shape, align_corners=False):
    """Each pixel's own place, mapped."""
    ends = [
        np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1
        for n in shape[2:]
    ]
    y, x = np.meshgrid(*ends, indexing="ij")
    return np.einsum("nij,hwj->nhwi", theta, np.stack([x, y, np.ones_like(x)], -1))


def _sampled(x, grid, mode="linear", padding_mode="zeros", align_corners=False):
    """Point by point, by the weights of `_axis`' kernels on the four pixels around it."""
    n, channels, *size = x.shape
    out = np.zeros((n, channels, *grid.shape[1:3]))
    for place in np.ndindex(n, *grid.shape[1:3]):
        at = [
            (g + 1) / 2 * (s - 1) if align_corners else ((g + 1) * s - 1) / 2
            for g, s in zip(grid[place][::-1], size, strict=True)
        ]
        if padding_mode == "border":
            at = np.clip(at, 0, np.array(size) - 1)
        if mode == "nearest":
            at = np.rint(at)
        ys, xs = (
            np.maximum(1 - np.abs(p - np.arange(s)), 0) for p, s in zip(at, size, strict=True)
        )
        out[place[0], :, place[1], place[2]] = np.einsum("chw,h,w->c", x[place[0]], ys, xs)
    return out


def _samplers(function):
    return lambda x, grid: [
        function(x, grid),
        function(x, grid, padding_mode="border", align_corners=True),
        function(x, grid, "nearest"),
    ]


SAMPLED = [
    case(
        "affine_grid",
        lambda theta: [ops.affine_grid(theta, [2, 3, 4, 5], c) for c in (False, True)],
        lambda theta: [_affine(theta, (2, 3, 4, 5), c) for c in (False, True)],
        [THETA],
        smooth=False,  # ONNX's evaluator computes points in float32
    ),
    case(
        "grid_sample",
        _samplers(ops.grid_sample),
        _samplers(_sampled),
        [normal(2, 2, 3, 4), between(-1.2, 1.2, 2, 3, 2, 2)],
        batch=(0, 1),
        smooth=False,
    ),
]

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


def _unfolded(x, block, strides=1, pads=0, dilations=1):
    """Block by block, as torch.nn.functional.unfold has them."""
    n = x.ndim - 2
    block, strides, pads, dilations = (
        np.broadcast_to(v, n).tolist() for v in (block, strides, pads, dilations)
    )
    wide = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pads]])
    reach = [(b - 1) * d + 1 for b, d in zip(block, dilations, strict=True)]
    counts = [(s - r) // t + 1 for s, r, t in zip(wide.shape[2:], reach, strides, strict=True)]
    columns = []
    for place in np.ndindex(*counts):
        starts = [k * t for k, t in zip(place, strides, strict=True)]
        cut = [np.s_[s : s + r : d] for s, r, d in zip(starts, reach, dilations, strict=True)]
        columns.append(wide[:, :, *cut].reshape(len(x), -1))
    return np.stack(columns, -1)


def _folded(columns, size, block, **window):
    """Each column lands on the pixels that `_unfolded` takes it from."""
    cells = columns.shape[1] // int(np.prod(np.broadcast_to(block, len(size))))
    pixels = np.arange(1, cells * np.prod(size) + 1).reshape(1, cells, *size)
    owner = _unfolded(pixels, block, **window)[0].reshape(-1)
    y = np.zeros((len(columns), cells * int(np.prod(size)) + 1))
    for image, row in zip(y, columns.reshape(len(columns), -1), strict=True):
        np.add.at(image, owner, row)
    return y[:, 1:].reshape(len(columns), cells, *size)


WINDOWS = {
    "images": ((2, 2, 5, 6), (3, 2), {}),
    "strides and pads": ((2, 1, 5, 6), (3, 2), {"strides": (2, 3), "pads": (1, 0)}),
    "dilated": ((1, 2, 6, 5), 2, {"dilations": (3, 2)}),
    "sequences": ((2, 2, 7), 3, {"strides": 2, "pads": 1}),
    "volumes": ((1, 1, 3, 4, 2), 2, {}),
}


def _columns(shape, block, window):
    return _unfolded(np.zeros(shape), block, **window).shape


CASES = [
    *[
        case("unfold", ops.unfold, _unfolded, [normal(*shape)], label=k, block=block, **window)
        for k, (shape, block, window) in WINDOWS.items()
    ],
    *[
        case(
            "Col2Im",
            ops.fold,
            _folded,
            [normal(*_columns(shape, block, window))],
            label=k,
            size=shape[2:],
            block=block,
            **window,
        )
        for k, (shape, block, window) in WINDOWS.items()
    ],
    _cut_up("overlapping", (2, 2, 4, 5), (3, 2)),
    _cut_up("side by side", (2, 2, 4, 6), (2, 3), (2, 3)),
    _cut_up("beyond the end", (2, 1, 4, 5), (3, 2), (2, 2)),
    _cut_up("apart", (1, 1, 7, 3), (2, 1), (3, 2)),
    _cut_up("padded", (2, 2, 3, 4), (3, 3), (2, 2), (1, 2)),
    _cut_up("larger than the image", (2, 2, 3, 4), (5, 1)),
    _regions("", REGIONS, [2, 2]),
    _regions("scaled", [[0, 1, 2, 9, 7, 77]], [1, 4], scale=0.5),
    _regions("outside", [[1, 8, 1, 9, 3]], [2, 1]),
    *SAMPLED,
    _resized("images", (2, 2, 4, 5), NEAREST + POINTS + AVERAGES, sizes=[6, 3]),
    _resized("scaled", (1, 2, 4, 6), NEAREST + POINTS + AVERAGES, scale=[1.75, 0.5]),
    _resized("sequences", (2, 2, 5), NEAREST + POINTS + AVERAGES, sizes=8),
    _resized("volumes", (1, 2, 3, 4, 2), NEAREST + POINTS[::3], scale=1.5),
    _row("larger", (2, 2, 3, 4), [5, 9]),
    _row("smaller", (2, 1, 5, 7), [3, 4]),
    _row("larger and smaller", (1, 2, 3, 6), [6, 3]),
    _row("the same", (2, 2, 3, 3), 3),
    _row("to one pixel", (2, 2, 3, 4), [1, 1]),
    _row("to one row", (2, 2, 3, 4), [1, 6]),
    _row("from one pixel", (2, 2, 1, 1), [3, 2]),
    _row("1-D", (2, 3, 4), 7),
]
