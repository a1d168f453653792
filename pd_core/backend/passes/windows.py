"""Geometry of sliding windows, as the gradients of pooling and convolution need it."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from ... import ops
from ...graph.errors import GraphError
from ...graph.node import Node, apply
from ...graph.variable import Dim, Variable, constant, static


class Windows:
    """The geometry of windows over images [N, C, *S] of known spatial sizes."""

    def __init__(self, node: Node, image: Variable, result: Variable, window: Sequence[int]):
        self.n = len(window)
        self.window = list(window)
        a = node.attributes
        self.strides = a.get("strides") or [1] * self.n
        self.dilations = a.get("dilations") or [1] * self.n
        self.pads = a.get("pads") or [0] * (2 * self.n)
        self.image, self.result = static(image.dims[2:]), static(result.dims[2:])
        # how far the windows reach, counted from the start of the padded image
        self.reach = [
            (r - 1) * s + (k - 1) * d + 1
            for r, s, k, d in zip(
                self.result, self.strides, self.window, self.dilations, strict=True
            )
        ]

    @property
    def geometry(self) -> dict[str, list[int]]:
        """The attributes of a pooling beside the size of its windows."""
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}

    @property
    def count(self) -> int:
        """The number of cells (kernel taps) of a window."""
        return math.prod(self.window)

    @property
    def blocks(self) -> int:
        """The number of windows (output positions) of an image."""
        return math.prod(self.result)

    @property
    def pixels(self) -> int:
        """The number of pixels that the windows of an image cover."""
        return math.prod(self.reach)

    @property
    def tile(self) -> bool:
        """Whether the windows lie side by side: no overlap, no gap."""
        axes = zip(self.window, self.strides, self.dilations, self.result, strict=True)
        return all((d == 1 or k == 1) and (s == k or r == 1) for k, s, d, r in axes)

    @property
    def onnx_pads(self) -> bool:
        """Whether ONNX's pooling takes these pads: less than the window on each side."""
        return all(p < k for p, k in zip(self.pads, self.window * 2, strict=True))

    def inside(self) -> np.ndarray:
        """Return a mask [*reach]: 1 for pixels of the image, 0 for padding."""
        mask = np.ones(())
        for r, p, size in zip(self.reach, self.pads, self.image, strict=False):
            at = np.arange(r) - p
            mask = np.multiply.outer(mask, (at >= 0) & (at < size))
        return mask

    def inside_taps(self) -> np.ndarray:
        """Return a mask [taps, *result]: whether a cell of a window is a pixel of the image."""
        axes = list(zip(self.dilations, self.result, self.strides, strict=True))
        at = [
            tuple(
                slice(t * d, t * d + (r - 1) * s + 1, s)
                for t, (d, r, s) in zip(tap, axes, strict=True)
            )
            for tap in self.taps()
        ]
        inside = self.inside() > 0
        return np.stack([inside[k] for k in at])

    def ranks(self) -> np.ndarray:
        """Return numbers [*reach] that fall from cell to cell of each window, row by row, and are
        0 in the padding, where windows tile the image.
        """
        at = np.zeros((), np.int64)
        for r, k in zip(self.reach, self.window, strict=True):
            at = np.add.outer(at * k, np.arange(r) % k)
        return (self.count - at) * self.inside()

    def firsts(self, ranks: np.ndarray) -> np.ndarray:
        """Return a mask of the first cell of each window inside the image, by their ranks."""
        split = [n for pair in zip(self.result, self.window, strict=True) for n in pair]
        cells = ranks.reshape(split)
        within = tuple(range(1, 2 * self.n, 2))
        return (cells == cells.max(within, keepdims=True)).reshape(ranks.shape)

    def index(self) -> Variable:
        """Return the flat index of each cell within the reach, [taps, windows]."""
        taps, blocks = np.zeros((), np.int64), np.zeros((), np.int64)
        axes = (self.reach, self.window, self.dilations, self.result, self.strides)
        for size, k, d, r, s in zip(*axes, strict=True):
            taps = np.add.outer(taps * size, np.arange(k) * d)
            blocks = np.add.outer(blocks * size, np.arange(r) * s)
        return ops.add(taps.reshape(-1, 1), blocks.reshape(1, -1))

    def cells(self, padded: Variable) -> Variable:
        """Return the cells of each window (im2col), [N, C, taps, windows]."""
        flat = apply("Reshape", padded, _i64([0, 0, self.pixels]))
        return ops.gather(flat, self.index(), axis=2)

    def padded(self, x: Variable, value: float) -> Variable:
        """Return x cropped or padded to the reach of the windows."""
        after = [
            r - p - size for r, p, size in zip(self.reach, self.pads, self.image, strict=False)
        ]
        return pad_or_crop(x, self.pads[: self.n], after, value)

    def unpadded(self, x: Variable) -> Variable:
        """Return an image as large as the reach, cropped or padded to the size of the image."""
        before = [-p for p in self.pads[: self.n]]
        after = [
            size - (r - p) for r, p, size in zip(self.reach, self.pads, self.image, strict=False)
        ]
        return pad_or_crop(x, before, after, 0.0)

    def taps(self) -> list[tuple[int, ...]]:
        """Return the positions within a window, row by row."""
        return list(product(*(range(k) for k in self.window)))

    def slice(self, padded: Variable, tap: Sequence[int]) -> Variable:
        """Return the cell at `tap` of every window, [N, C, *result]."""
        return self._cells(padded, list(range(self.n)), tap)

    def slice_axis(self, padded: Variable, axis: int, tap: int) -> Variable:
        """Return the cells at `tap` along one spatial axis; the others stay whole."""
        return self._cells(padded, [axis], [tap])

    def _cells(self, padded, axes, taps):
        dims, starts, ends = list(padded.dims), [], []
        for axis, tap in zip(axes, taps, strict=True):
            start, count = tap * self.dilations[axis], self.result[axis]
            starts.append(start)
            ends.append(start + (count - 1) * self.strides[axis] + 1)
            dims[2 + axis] = count
        steps = [self.strides[k] for k in axes]
        if dims == list(padded.dims):
            return padded
        bounds = (starts, ends, [2 + axis for axis in axes], steps)
        return apply("Slice", padded, *map(_i64, bounds), known=tuple(dims))

    def scatter(self, cells: Variable, lead: Sequence[Dim]) -> Variable:
        """Return the sum of cells [N*C, taps, *result] at their pixels (col2im): [*lead, *reach].

        It is a transposed convolution with one filter per tap, each a single 1.
        """
        count = len(self.taps())
        filters = constant(np.eye(count).reshape(count, 1, *self.window), cells.dtype)
        image = apply(
            "ConvTranspose", cells, filters, strides=self.strides, dilations=self.dilations
        )
        return reshape_dims(image, [*lead, *self.reach])


def pad_or_crop(x: Variable, before: Sequence[int], after: Sequence[int], value: float) -> Variable:
    """Pad the last axes by `before` and `after` cells of `value`; crop where these are negative."""
    lead = x.rank - len(before)
    image = static(x.dims[lead:])
    sizes = [d + b + a for d, b, a in zip(image, before, after, strict=True)]
    if any(v < 0 for v in (*before, *after)):
        starts = [max(0, -b) for b in before]
        ends = [d + min(0, a) for d, a in zip(image, after, strict=True)]
        x = apply("Slice", x, _i64(starts), _i64(ends), np.arange(lead, x.rank))
    if any(v > 0 for v in (*before, *after)):
        widths = [*[0] * lead, *np.maximum(before, 0), *[0] * lead, *np.maximum(after, 0)]
        fill = constant(value, x.dtype)
        x = apply("Pad", x, _i64(widths), fill, known=(*x.dims[:lead], *sizes))
    return x


def reshape_dims(x: Variable, dims: Sequence[Dim]) -> Variable:
    """Reshape to dims of which at most one is a name: that axis takes what remains."""
    named = [d for d in dims if isinstance(d, str)]
    if len(named) > 1:
        raise GraphError(f"a pass met more than one unknown size in {dims}")
    target = [-1 if isinstance(d, str) else int(d) for d in dims]
    return apply("Reshape", x, _i64(target), known=tuple(dims))


def merged(a: Dim, b: Dim) -> Dim:
    """Return the size of two axes in one."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return f"{a}*{b}"


def _i64(values):
    return np.array(values, np.int64)
