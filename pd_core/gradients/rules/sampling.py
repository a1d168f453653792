"""Derivatives of sampling images at places between their pixels."""

from itertools import product

import numpy as np

from ... import ops
from ...graph.errors import NoGradient
from ...graph.variable import constant
from ..expression import expression

_CUBIC = -0.75  # the free coefficient of cubic convolution (Keys 1981)


@expression("GridSample")
def grid_sample(a, x, grid):
    """Images [N, C, *S] at places [N, *O, n], the last spatial axis first, from -1 to 1."""
    n, mode = x.rank - 2, a.get("mode", "linear")
    padding, corners = a.get("padding_mode", "zeros"), a.get("align_corners", 0)
    axes = []
    for k in range(n):
        size = ops.cast(ops.reshape(ops.size_of(x, 2 + k), []), x.dtype)
        at = ops.reshape(ops.slice(grid, [n - 1 - k], [n - k], [n + 1]), [0, -1])
        at = (at + 1.0) * 0.5 * (size - 1.0) if corners else ((at + 1.0) * size - 1.0) * 0.5
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        at = ops.round(at) if mode == "nearest" else at
        axes.append(_Axis(size, low, high, padding, at))
    found = _sampled(ops.reshape(x, [0, 0, -1]), axes, _TAPS[mode])
    lead = ops.slice(ops.shape_of(x), [0], [2], [0])
    return ops.reshape(found, ops.concat([lead, ops.slice(ops.shape_of(grid), [1], [-1], [0])]))


class _Axis:
    """One axis of an image, and the places [N, P] along it that are asked for."""

    def __init__(self, size, low, high, padding, at):
        self.size, self.low, self.high, self.padding = size, low, high, padding
        self.at = at if padding == "zeros" else ops.where(self._beyond(at), self._held(at), at)
        self.base = ops.floor(self.at)
        self.part = self.at - self.base

    def _beyond(self, at):
        return ops.logical_or(at < self.low, at > self.high)

    def _held(self, at):
        if self.padding == "border":
            return self._within(at)
        return _reflected(at, self.low, self.high)

    def _within(self, at):
        return ops.clip(at, 0.0, self.size - 1.0)

    def pixel(self, tap):
        """(the pixel a step of `tap` from the places, whether there is one or None)."""
        at = ops.stop_gradient(self.base + float(tap))
        if self.padding == "reflection":
            at = ops.where(self._beyond(at), ops.floor(self._held(at) + 0.5), at)
        held = self._within(at)
        return held, ops.equal(held, at) if self.padding == "zeros" else None


def _reflected(at, low, high):
    """Places beyond the ends turned back, as often as it takes."""
    width = high - low
    below = at < low
    beyond = ops.where(below, low - at, at - high)
    turns = ops.floor(beyond / width)
    rest = beyond - turns * width
    even = ops.equal(turns - ops.floor(turns * 0.5) * 2.0, 0.0)
    from_low = ops.equal(even, below)
    return ops.where(from_low, low + rest, high - rest)


def _nearest(part):
    return {0: None}


def linear_taps(part):
    """The weights of the pixels before and behind a place, by its distance from the one before."""
    return {0: 1.0 - part, 1: part}


def cubic_taps(part, a=_CUBIC):
    """The weights of the four pixels around (Keys 1981)."""

    def near(t):
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0

    def far(t):
        return ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a

    other = 1.0 - part
    return {-1: far(part + 1.0), 0: near(part), 1: near(other), 2: far(other + 1.0)}


_TAPS = {"nearest": _nearest, "linear": linear_taps, "cubic": cubic_taps}


def _sampled(x, axes, taps):
    """[N, C, P] from x [N, C, pixels]: the weighted pixels around each place."""
    total = None
    for choice in product(*(taps(axis.part).items() for axis in axes)):
        at, weight, there = None, None, None
        for axis, (tap, w) in zip(axes, choice, strict=True):
            pixel, inside = axis.pixel(tap)
            at = pixel if at is None else at * axis.size + pixel
            weight = w if weight is None else weight * w
            there = inside if there is None else ops.logical_and(there, inside)
        found = _pixels(x, at)
        if there is not None:
            found = ops.where(ops.unsqueeze(there, 1), found, 0.0)
        found = found if weight is None else found * ops.unsqueeze(weight, 1)
        total = found if total is None else total + found
    return total


def _pixels(x, at):
    """Pixels [N, C, P] of x [N, C, pixels] by their numbers [N, P]."""
    at = ops.unsqueeze(ops.cast(at, np.int64), 1)
    sizes = ops.concat([ops.slice(ops.shape_of(x), [0], [2], [0]), ops.size_of(at, 2)])
    return ops.gather_elements(x, ops.expand(at, sizes), 2)


@expression("AffineGrid")
def affine_grid(a, theta, size):
    """Places for `grid_sample`: an affine map of a regular grid (Jaderberg et al. 2015)."""
    n = theta.dims[1]
    if not isinstance(n, int):
        raise NoGradient(f"the number of axes of {theta!r} is not known")
    rows = []
    for k in reversed(range(n)):
        length = ops.slice(size, [2 + k], [3 + k], [0])
        at, whole = (ops.cast(v, theta.dtype) for v in (ops.arange(length), length))
        if a.get("align_corners", 0):
            at = at * 2.0 / (whole - 1.0) - 1.0
        else:
            at = (at * 2.0 + 1.0) / whole - 1.0
        shape = [-1 if m == k else 1 for m in range(n)]
        rows.append(ops.expand(ops.reshape(at, shape), ops.slice(size, [2], [2 + n], [0])))
    rows.append(ops.ones_like(rows[0]))
    points = ops.reshape(ops.concat([ops.unsqueeze(r, n) for r in rows], n), [-1, n + 1])
    found = points @ ops.transpose(theta, [0, 2, 1])
    sizes = [ops.size_of(theta, 0), ops.slice(size, [2], [2 + n], [0]), np.array([n])]
    return ops.reshape(found, ops.concat(sizes))


@expression("DeformConv")
def deform_conv(a, x, w, offset, bias=None, mask=None):
    """A convolution each of whose taps is moved by an offset of its own (Dai et al. 2017)."""
    n, window = x.rank - 2, w.dims[2:]
    if not all(isinstance(d, int) for d in (*x.dims[1:], *w.dims, *offset.dims[1:])):
        raise NoGradient("a deformable convolution has a gradient where its sizes are known")
    steps, holes = (a.get(k) or [1] * n for k in ("strides", "dilations"))
    pads, groups = a.get("pads") or [0] * (2 * n), a.get("group", 1)
    own, taps, result = a.get("offset_group", 1), int(np.prod(window)), offset.dims[2:]
    cells, channels = int(np.prod(result)), x.dims[1]
    moved = ops.reshape(offset, [-1, taps, n, cells])
    axes = []
    for k in range(n):
        first = np.arange(result[k]) * steps[k] - pads[k]
        rest = np.arange(window[k]) * holes[k]
        regular = _spread(rest, k, window)[:, None] + _spread(first, k, result)[None]
        at = ops.squeeze(ops.slice(moved, [k], [k + 1], [2]), 2) + regular.astype(x.dtype)
        size = constant(float(x.dims[2 + k]), x.dtype)
        axes.append(_Axis(size, 0.0, 0.0, "zeros", ops.reshape(at, [-1, taps * cells])))
    pixels = ops.reshape(x, [-1, channels // own, int(np.prod(x.dims[2:]))])
    found = ops.reshape(
        _sampled(pixels, axes, linear_taps), [-1, own, channels // own, taps, cells]
    )
    if mask is not None:
        found = found * ops.reshape(mask, [-1, own, 1, taps, cells])
    columns = ops.reshape(found, [-1, groups, channels // groups * taps, cells])
    filters = ops.reshape(w, [groups, w.dims[0] // groups, channels // groups * taps])
    y = ops.reshape(filters @ columns, [-1, w.dims[0], *result])
    return y if bias is None else y + ops.reshape(bias, [-1, *[1] * n])


def _spread(values, axis, sizes):
    """Values along one axis of a grid of these sizes, as a vector over its cells."""
    shape = [-1 if k == axis else 1 for k in range(len(sizes))]
    return np.broadcast_to(values.reshape(shape), sizes).reshape(-1)
