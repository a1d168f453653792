"""Derivatives of sampling images at points between their pixels."""

from itertools import product

import numpy as np

from ... import ops
from ...graph.errors import NoGradient
from ...graph.variable import Variable, constant, static
from ..expression import expression
from ..registry import Attributes

_CUBIC = -0.75  # the free coefficient of cubic convolution (Keys 1981)


@expression("GridSample")
def grid_sample(a: Attributes, x: Variable, grid: Variable) -> Variable:
    """Sample images [N, C, *S] at points [N, *O, n] from -1 to 1, the last spatial axis first."""
    n, mode = x.rank - 2, a.get("mode", "linear")
    padding, corners = a.get("padding_mode", "zeros"), a.get("align_corners", 0)
    axes = []
    for k in range(n):
        size = ops.cast(ops.reshape(ops.size_of(x, 2 + k), []), x.dtype)
        at = ops.reshape(ops.slice(grid, [n - 1 - k], [n - k], [n + 1]), [0, -1])
        at = (at + 1.0) * 0.5 * (size - 1.0) if corners else ((at + 1.0) * size - 1.0) * 0.5
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        at = ops.round(at) if mode == "nearest" else at
        # ONNX Runtime and PyTorch clip the 16 pixels of a cubic point, not the point
        axes.append(_Axis(size, low, high, padding, at, (mode, padding) != ("cubic", "border")))
    samples = _sample(ops.reshape(x, [0, 0, -1]), axes, _TAPS[mode])
    lead = ops.slice(ops.shape_of(x), [0], [2], [0])
    return ops.reshape(samples, ops.concat([lead, ops.slice(ops.shape_of(grid), [1], [-1], [0])]))


class _Axis:
    """One axis of an image, and the coordinates [N, P] along it of the points to sample."""

    def __init__(self, size, low, high, padding, at, moves_points=True):
        self.size, self.low, self.high, self.padding = size, low, high, padding
        moved = padding != "zeros" and moves_points
        self.at = ops.where(self._outside(at), self._padded(at), at) if moved else at
        self.base = ops.floor(self.at)
        self.fraction = self.at - self.base

    def _outside(self, at):
        return ops.logical_or(at < self.low, at > self.high)

    def _padded(self, at):
        """Move coordinates into the image by the padding mode."""
        if self.padding == "border":
            return self._clipped(at)
        return _reflect(at, self.low, self.high)

    def _clipped(self, at):
        return ops.clip(at, 0.0, self.size - 1.0)

    def pixel(self, tap):
        """Return (the pixels at an offset of `tap`, a mask of those in the image or None)."""
        at = ops.stop_gradient(self.base + float(tap))
        if self.padding == "reflection":
            at = ops.where(self._outside(at), ops.floor(self._padded(at) + 0.5), at)
        clipped = self._clipped(at)
        return clipped, ops.equal(clipped, at) if self.padding == "zeros" else None


def _reflect(at, low, high):
    """Reflect coordinates outside of the ends until they lie between them."""
    width = high - low
    below = at < low
    distance = ops.where(below, low - at, at - high)
    reflections = ops.floor(distance / width)
    rest = distance - reflections * width
    even = ops.equal(reflections - ops.floor(reflections * 0.5) * 2.0, 0.0)
    from_low = ops.equal(even, below)
    return ops.where(from_low, low + rest, high - rest)


def _nearest(fraction):
    return {0: None}


def linear_taps(fraction: Variable) -> dict[int, Variable]:
    """Return {offset of a pixel: weight} of linear interpolation, from the fraction of a point."""
    return {0: 1.0 - fraction, 1: fraction}


def cubic_taps(fraction: Variable, a: float = _CUBIC) -> dict[int, Variable]:
    """Return {offset of a pixel: weight} of cubic convolution (Keys 1981)."""

    def near(t):
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0

    def far(t):
        return ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a

    other = 1.0 - fraction
    return {-1: far(fraction + 1.0), 0: near(fraction), 1: near(other), 2: far(other + 1.0)}


_TAPS = {"nearest": _nearest, "linear": linear_taps, "cubic": cubic_taps}


def _sample(x, axes, taps):
    """Sum the weighted pixels around each point: [N, C, P] from x [N, C, pixels]."""
    total = None
    for choice in product(*(taps(axis.fraction).items() for axis in axes)):
        index, weight, mask = None, None, None
        for axis, (tap, w) in zip(axes, choice, strict=True):
            pixel, inside = axis.pixel(tap)
            index = pixel if index is None else index * axis.size + pixel
            weight = w if weight is None else weight * w
            mask = inside if mask is None else ops.logical_and(mask, inside)
        values = _gather_pixels(x, index)
        if mask is not None:
            values = ops.where(ops.unsqueeze(mask, 1), values, 0.0)
        values = values if weight is None else values * ops.unsqueeze(weight, 1)
        total = values if total is None else total + values
    return total


def _gather_pixels(x, index):
    """Gather from x [N, C, pixels] by flat indices [N, P]: [N, C, P]."""
    index = ops.unsqueeze(ops.cast(index, np.int64), 1)
    sizes = ops.concat([ops.slice(ops.shape_of(x), [0], [2], [0]), ops.size_of(index, 2)])
    return ops.gather_elements(x, ops.expand(index, sizes), 2)


@expression("AffineGrid")
def affine_grid(a: Attributes, theta: Variable, size: Variable) -> Variable:
    """Points for `grid_sample`: an affine map of a regular grid (Jaderberg et al. 2015)."""
    n = theta.dims[1]
    if not isinstance(n, int) and isinstance(size.dims[0], int):
        n = size.dims[0] - 2
    if not isinstance(n, int):
        raise NoGradient(f"the number of axes of {theta!r} is not known")
    rows: list[Variable] = []
    for k in reversed(range(n)):
        length = ops.slice(size, [2 + k], [3 + k], [0])
        at, count = (ops.cast(v, theta.dtype) for v in (ops.arange(length), length))
        if a.get("align_corners", 0):
            one = ops.equal(count, 1.0)  # a single point is the last one, as ONNX Runtime has it
            at = ops.where(one, 1.0, at * 2.0 / ops.where(one, 1.0, count - 1.0) - 1.0)
        else:
            at = (at * 2.0 + 1.0) / count - 1.0
        shape = [-1 if m == k else 1 for m in range(n)]
        rows.append(ops.expand(ops.reshape(at, shape), ops.slice(size, [2], [2 + n], [0])))
    rows.append(ops.ones_like(rows[0]))
    points = ops.reshape(ops.concat([ops.unsqueeze(r, n) for r in rows], n), [-1, n + 1])
    mapped = points @ ops.transpose(theta, [0, 2, 1])
    sizes = [ops.size_of(theta, 0), ops.slice(size, [2], [2 + n], [0]), constant(np.array([n]))]
    return ops.reshape(mapped, ops.concat(sizes))


@expression("DeformConv")
def deform_conv(
    a: Attributes,
    x: Variable,
    w: Variable,
    offset: Variable,
    bias: Variable | None = None,
    mask: Variable | None = None,
) -> Variable:
    """Deformable convolution: an offset for each tap of each window (Dai et al. 2017)."""
    n = x.rank - 2
    if not all(isinstance(d, int) for d in (*x.dims[1:], *w.dims, *offset.dims[1:])):
        raise NoGradient("a deformable convolution has a gradient where its sizes are known")
    strides, dilations = (a.get(k) or [1] * n for k in ("strides", "dilations"))
    pads, groups = a.get("pads") or [0] * (2 * n), a.get("group", 1)
    window, result, (channels, *image) = (
        static(d) for d in (w.dims[2:], offset.dims[2:], x.dims[1:])
    )
    offset_groups, taps, cells = (
        a.get("offset_group", 1),
        int(np.prod(window)),
        int(np.prod(result)),
    )
    offsets = ops.reshape(offset, [-1, taps, n, cells])
    axes = []
    for k in range(n):
        start = np.arange(result[k]) * strides[k] - pads[k]
        tap = np.arange(window[k]) * dilations[k]
        regular = _on_grid(tap, k, window)[:, None] + _on_grid(start, k, result)[None]
        at = ops.squeeze(ops.slice(offsets, [k], [k + 1], [2]), 2) + regular.astype(x.dtype)
        size = constant(float(x.dims[2 + k]), x.dtype)
        axes.append(_Axis(size, 0.0, 0.0, "zeros", ops.reshape(at, [-1, taps * cells])))
    pixels = ops.reshape(x, [-1, channels // offset_groups, int(np.prod(image))])
    samples = ops.reshape(
        _sample(pixels, axes, linear_taps),
        [-1, offset_groups, channels // offset_groups, taps, cells],
    )
    if mask is not None:
        samples = samples * ops.reshape(mask, [-1, offset_groups, 1, taps, cells])
    columns = ops.reshape(samples, [-1, groups, channels // groups * taps, cells])
    filters = ops.reshape(w, [groups, w.dims[0] // groups, channels // groups * taps])
    y = ops.reshape(filters @ columns, [-1, w.dims[0], *result])
    return y if bias is None else y + ops.reshape(bias, [-1, *[1] * n])


def _on_grid(values, axis, sizes):
    """Repeat values along one axis of a grid of these sizes, as a vector over its cells."""
    shape = [-1 if k == axis else 1 for k in range(len(sizes))]
    return np.broadcast_to(values.reshape(shape), sizes).reshape(-1)
