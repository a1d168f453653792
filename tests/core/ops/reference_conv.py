"""Convolution and pooling in numpy loops, cell by cell, and their gradients by definition."""

import numpy as np


def per_axis(value, n):
    values = list(np.atleast_1d(value))
    return values * n if len(values) == 1 else values


def both_sides(pads, n):
    """Widths (before, after) of each axis."""
    values = list(np.atleast_1d(pads))
    before, after = (values[:n], values[n:]) if len(values) == 2 * n else [per_axis(values, n)] * 2
    return list(zip(before, after, strict=True))


def count(size, reach, stride, before, after, ceil_mode=False):
    """Windows along an axis; with ceil_mode also one that hangs over the end, if it starts within
    the image or the padding before it."""
    padded, windows = before + size + after, 0
    while windows * stride + reach <= padded:
        windows += 1
    uncovered = (windows - 1) * stride + reach < padded
    return windows + (ceil_mode and uncovered and windows * stride < before + size)


def cells(image, result, window, strides, pads, dilations):
    """(place in the result, place in the window, place in the image) wherever the last exists."""
    for place in np.ndindex(*result):
        for tap in np.ndindex(*window):
            at = tuple(
                p * s + t * d - before
                for p, s, t, d, (before, _) in zip(
                    place, strides, tap, dilations, pads, strict=True
                )
            )
            if all(0 <= i < size for i, size in zip(at, image, strict=True)):
                yield place, tap, at


class Geometry:
    """What the keywords of `conv` say, spelled out for each axis."""

    def __init__(self, image, window, strides=1, pads=0, dilations=1, ceil_mode=False):
        n = len(window)
        self.image, self.window = tuple(image), tuple(window)
        self.strides, self.dilations = per_axis(strides, n), per_axis(dilations, n)
        self.pads = both_sides(pads, n)
        self.result = tuple(
            count(size, (k - 1) * d + 1, s, *p, ceil_mode)
            for size, k, d, s, p in zip(
                image, window, self.dilations, self.strides, self.pads, strict=True
            )
        )

    def cells(self):
        return cells(self.image, self.result, self.window, self.strides, self.pads, self.dilations)


def conv_form(x, w, dy, geometry, group):
    """y, dx and dw of the trilinear form sum dy x w over all cells."""
    y = np.zeros((x.shape[0], w.shape[0], *geometry.result), x.dtype)
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    dy = y if dy is None else dy
    per_in, per_out = w.shape[1], w.shape[0] // group
    for place, tap, at in geometry.cells():
        for g in range(group):
            i = slice(g * per_in, (g + 1) * per_in)
            o = slice(g * per_out, (g + 1) * per_out)
            filters = w[(o, slice(None), *tap)]
            y[(slice(None), o, *place)] += x[(slice(None), i, *at)] @ filters.T
            dx[(slice(None), i, *at)] += dy[(slice(None), o, *place)] @ filters
            dw[(o, slice(None), *tap)] += dy[(slice(None), o, *place)].T @ x[(slice(None), i, *at)]
    return y, dx, dw


def conv(x, w, bias=None, strides=1, pads=0, dilations=1, group=1):
    y = conv_form(x, w, None, Geometry(x.shape[2:], w.shape[2:], strides, pads, dilations), group)[
        0
    ]
    return y if bias is None else y + bias.reshape(-1, *[1] * (x.ndim - 2))


def conv_input_grad(w, dy, x, strides=1, pads=0, dilations=1, group=1):
    geometry = Geometry(x.shape[2:], w.shape[2:], strides, pads, dilations)
    return conv_form(x, w, dy, geometry, group)[1]


def conv_filter_grad(x, dy, w, strides=1, pads=0, dilations=1, group=1):
    geometry = Geometry(x.shape[2:], w.shape[2:], strides, pads, dilations)
    return conv_form(x, w, dy, geometry, group)[2]


def conv_transpose(x, w, bias=None, strides=1, pads=0, dilations=1, group=1, output_padding=0):
    """The image whose convolution has x's sizes, by the gradient of that convolution."""
    n = x.ndim - 2
    image = [
        (size - 1) * s + (k - 1) * d + 1 - before - after + extra
        for size, s, k, d, (before, after), extra in zip(
            x.shape[2:],
            per_axis(strides, n),
            w.shape[2:],
            per_axis(dilations, n),
            both_sides(pads, n),
            per_axis(output_padding, n),
            strict=True,
        )
    ]
    blank = np.zeros((x.shape[0], w.shape[1] * group, *image))
    y = conv_input_grad(w, x, blank, strides, pads, dilations, group)
    return y if bias is None else y + bias.reshape(-1, *[1] * n)


def max_pool(x, window, strides=1, pads=0, ceil_mode=False, ties="first", dilations=1):
    window = per_axis(window, x.ndim - 2)
    geometry = Geometry(x.shape[2:], window, strides, pads, dilations, ceil_mode)
    y = np.full((*x.shape[:2], *geometry.result), -np.inf)
    for place, _, at in geometry.cells():
        cell = (slice(None), slice(None), *place)
        y[cell] = np.maximum(y[cell], x[(slice(None), slice(None), *at)])
    return y


def max_pool_grad(x, y, dy, window, strides=1, pads=0, ceil_mode=False):
    geometry = Geometry(x.shape[2:], per_axis(window, x.ndim - 2), strides, pads, 1, ceil_mode)
    dx = np.zeros_like(x)
    for place, _, at in geometry.cells():
        cell, pixel = (slice(None), slice(None), *place), (slice(None), slice(None), *at)
        dx[pixel] += np.where(x[pixel] == y[cell], dy[cell], 0)
    return dx


def max_pool_pick(x, y, u, window, strides=1, pads=0, ceil_mode=False):
    geometry = Geometry(x.shape[2:], per_axis(window, x.ndim - 2), strides, pads, 1, ceil_mode)
    out = np.zeros_like(y)
    for place, _, at in geometry.cells():
        cell, pixel = (slice(None), slice(None), *place), (slice(None), slice(None), *at)
        out[cell] += np.where(x[pixel] == y[cell], u[pixel], 0)
    return out


def shares(geometry, include_pad):
    """One over the number of cells that each window averages, [*result]."""
    counts = np.zeros(geometry.result)
    if include_pad:
        shifted = [(size + before + after, 0) for size, (before, after) in _padded(geometry)]
        image, none = [s for s, _ in shifted], [(0, 0)] * len(shifted)
    else:
        image, none = geometry.image, geometry.pads
    for place, _, _ in cells(
        image, geometry.result, geometry.window, geometry.strides, none, geometry.dilations
    ):
        counts[place] += 1
    return 1 / counts


def _padded(geometry):
    return zip(geometry.image, geometry.pads, strict=True)


def avg_pool(x, window, strides=1, pads=0, ceil_mode=False, include_pad=False):
    geometry = Geometry(x.shape[2:], per_axis(window, x.ndim - 2), strides, pads, 1, ceil_mode)
    y = np.zeros((*x.shape[:2], *geometry.result))
    for place, _, at in geometry.cells():
        y[(slice(None), slice(None), *place)] += x[(slice(None), slice(None), *at)]
    return y * shares(geometry, include_pad)


def avg_pool_grad(x, dy, window, strides=1, pads=0, ceil_mode=False, include_pad=False):
    geometry = Geometry(x.shape[2:], per_axis(window, x.ndim - 2), strides, pads, 1, ceil_mode)
    dx, dy = np.zeros_like(x), dy * shares(geometry, include_pad)
    for place, _, at in geometry.cells():
        dx[(slice(None), slice(None), *at)] += dy[(slice(None), slice(None), *place)]
    return dx
