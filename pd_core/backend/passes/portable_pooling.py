"""The gradient of a max pooling in operators that WebGPU has.

Its MaxPool gives no Indices, and 64-bit integers stay on the CPU: so windows are read tap by tap,
row by row, and what has won already is a mask.
"""

import numpy as np

from ...node import apply
from ...variable import constant
from .pooling import LOWEST, is_every, max_pool_grad_without_indices, windows_of
from .windows import merged, reshape

_MOST = 9  # taps; five operators each
_FLOAT32 = 1


def max_pool_grad(node, inputs, sizes, seed):
    """dy at the first of the largest elements of each window, in the image itself."""
    windows, (x, y, dy) = windows_of(node, inputs), inputs
    if is_every(node) or windows.count > _MOST:
        return max_pool_grad_without_indices(node, inputs, sizes, seed)
    n, c = x.dims[:2]
    cells = [apply("Mul", won, dy) for won in _winners(windows, windows.padded(x, LOWEST), y)]
    cells = [reshape(cell, [merged(n, c), 1, *windows.result]) for cell in cells]
    image = windows.scatter(apply("Concat", *cells, axis=1), (n, c))
    return (windows.unpadded(image),)


def _winners(windows, padded, y):
    """A mask for each tap: 1 where it is the first that is as large as y.

    Where nothing is, as in windows of NaN, the first in the image wins.
    """
    free, won = constant(1.0, np.float32), []
    inside = [_inside(windows, tap) for tap in windows.taps()]
    for tap, mask in zip(windows.taps(), inside, strict=True):
        largest = apply("GreaterOrEqual", windows.slice(padded, tap), y)
        largest = apply("Mul", apply("Cast", largest, to=_FLOAT32), mask)
        won.append(apply("Mul", largest, free))
        free = apply("Sub", free, won[-1])
    for place, mask in enumerate(_first_of(inside)):
        if mask.any():
            won[place] = apply("Add", won[place], apply("Mul", free, constant(mask, np.float32)))
    return won


def _inside(windows, tap):
    """1 where the cell at `tap` of a window is in the image, [1, 1, *result]."""
    axes = zip(tap, windows.dilations, windows.result, windows.strides, strict=True)
    places = tuple(slice(k * d, k * d + (r - 1) * s + 1, s) for k, d, r, s in axes)
    return windows.inside()[places][None, None].astype(np.float32)


def _first_of(masks):
    """Of the masks in order, 1 where each is the first that is 1."""
    free = np.ones_like(masks[0])
    for mask in masks:
        yield mask * free
        free = free - mask * free
