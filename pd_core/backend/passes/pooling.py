"""Gradients of pooling in ONNX operators.

Of equal elements the first of a window, row by row, gets the whole gradient, as in PyTorch and by
the Indices of ONNX's MaxPool; with ties="all" each of them gets it.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, Variable, constant
from .context import Context, Outputs
from .nan import if_nan
from .relu import masked
from .windows import Windows, merged, reshape_dims

_LOWEST = float(np.finfo(np.float32).min)
_FEW = 9  # taps up to which overlapping windows are read tap by tap, five operators each
_SQUARE = 64  # taps up to which a convolution adds them up; its filters hold the square of that
_PIXELS = 16_384  # of an image up to which channels are stacked


def max_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to ONNX's own operator, which has no attribute for ties."""
    attributes = {k: v for k, v in node.attributes.items() if k != "ties"}
    return (apply("MaxPool", *inputs, known=node.outputs[0].dims, **attributes),)


def max_pool_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to dy scattered to the maximum of each window.

    By the Indices of a MaxPool where windows overlap. Where they tile the image a comparison of
    whole images is faster: ONNX Runtime's pooling with Indices takes 10 times as long on a CPU.
    """
    windows = _windows(node, inputs)
    if _all_ties(node) or windows.tile or not windows.onnx_pads:
        return max_pool_grad_without_indices(node, inputs, context)
    return (max_pool_grad_by_indices(node, inputs),)


def max_pool_grad_if_nan(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower `max_pool_grad` for kernels that have no place for NaN.

    dy goes to the last NaN of a window, as in PyTorch; with ties="all" to each of them.
    """
    windows, (x, y, dy) = _windows(node, inputs), inputs
    if not windows.onnx_pads or not (_all_ties(node) or windows.tile):
        return None  # `nan.max_pool` gives its Indices

    def exact():
        if not _all_ties(node):
            return [max_pool_grad_by_indices(node, inputs)]
        is_nan = ops.cast(apply("IsNaN", x), dy.dtype)
        pooled = apply("MaxPool", is_nan, kernel_shape=windows.window, **windows.geometry)
        parts = (
            (x, y, ops.where(pooled > 0, 0.0, dy)),
            (is_nan, pooled, ops.where(pooled > 0, dy, 0.0)),
        )
        return [ops.add(*(max_pool_grad_without_indices(node, p, context)[0] for p in parts))]

    return if_nan(y, context, exact, lambda: max_pool_grad(node, inputs, context))


def max_pool_grad_by_indices(node: Node, inputs: Inputs) -> Variable:
    """Lower `max_pool_grad` to dy scattered by the Indices of a MaxPool."""
    windows, (x, _, dy) = _windows(node, inputs), inputs
    index = _indices(windows, x)
    size = apply("ReduceProd", ops.shape_of(x), keepdims=1)
    flat = _scatter_add(size, _vector(index), _vector(dy), axis=0)
    return _in_shape_of(x, flat)


def sum_of_max_pool_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Replace the sum of `max_pool_grad` over whole images by that of dy: one winner a window."""
    if node.op_type != "ReduceSum" or len(inputs) < 2 or not is_output_of(inputs[0], "MaxPoolGrad"):
        return None
    (dx, axes), pool = inputs, inputs[0].node
    if _all_ties(pool) or axes.value is None:
        return None
    if not set(range(2, dx.rank)) <= set(axes.value.tolist()):
        return None
    return (apply("ReduceSum", pool.inputs[2], axes, **node.attributes),)


def max_pool_pick(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to u at the maximum of each window: the transpose of `max_pool_grad`."""
    windows, (x, y, u) = _windows(node, inputs), inputs
    if _all_ties(node) or not windows.onnx_pads:
        return max_pool_pick_without_indices(node, inputs, context)
    picked = apply("Gather", _vector(u), _vector(_indices(windows, x)))
    return (_in_shape_of(y, picked),)


def max_pool_grad_without_indices(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower `max_pool_grad` without the Indices of MaxPool, which some runtimes lack."""
    windows, (x, y, dy) = _windows(node, inputs), inputs
    if windows.tile:
        winners = _winners_of_tiles(windows, x, y, _all_ties(node))
        return (windows.unpadded(masked(winners, _upsampled(windows, dy))),)
    if not _all_ties(node):
        return (windows.unpadded(_at_first(windows, x, y, dy)),)
    spread = _at_each_tap if windows.count <= _FEW else _at_all
    return (windows.unpadded(spread(windows, x, y, dy)),)


def max_pool_pick_without_indices(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower `max_pool_pick` without the Indices of MaxPool."""
    windows, (x, y, u) = _windows(node, inputs), inputs
    winners = _winners_of_cells(windows, x, _all_ties(node))
    picked = masked(winners, windows.cells(windows.padded(u, 0.0)))
    return (_in_shape_of(y, ops.reduce_sum(picked, 2)),)


def _windows(node, inputs):
    x, y, _ = inputs
    return Windows(node, x, y, node.attributes["kernel_shape"])


def _all_ties(node):
    """Whether all elements that equal the maximum win, not the first alone."""
    return node.attributes.get("ties", "first") == "all"


def _indices(windows, x):
    """The flat index in x of the first maximum of each window."""
    return apply("MaxPool", x, outputs=2, kernel_shape=windows.window, **windows.geometry)[1]


def _winners_of_tiles(windows, x, y, all_ties):
    """A mask of the elements that win, as large as the reach."""
    bounded = is_output_of(x, "Relu")  # neither NaN nor -inf
    x = windows.padded(x, _LOWEST)
    largest = x >= _upsampled(windows, y)
    return largest if all_ties else _first_of_tiles(windows, largest, bounded)


def _first_of_tiles(windows, largest, bounded):
    """The first element of each window of a mask; of a window without any, its first cell.

    Each has a rank, and the largest rank is pooled. Channels are stacked into larger images
    meanwhile: kernels have a cost per image.
    """
    dims, ranks = largest.dims, windows.ranks()
    otherwise, sizes = windows.firsts(ranks), windows.reach
    height = _stacked_channels(dims[1], windows.pixels)
    if height > 1:
        sizes = [height * sizes[0], *sizes[1:]]
        largest = apply("Reshape", largest, np.array([-1, 1, *sizes]))
        ranks, otherwise = (np.concatenate([v] * height) for v in (ranks, otherwise))
    ranked = _ranked(largest, 2.0 * ranks[None, None], None if bounded else otherwise[None, None])
    first = apply("MaxPool", ranked, kernel_shape=windows.window, strides=windows.window)
    winners = ops.equal(ranked, _upsampled(windows, first, sizes))
    if height == 1:
        return winners
    return apply("Reshape", winners, np.array([-1, *dims[1:]]), known=dims)


def _stacked_channels(channels, pixels):
    """The number of channels to stack into one image of at most _PIXELS pixels."""
    if not isinstance(channels, int):
        return 1
    fit = (k for k in range(1, channels + 1) if channels % k == 0 and k * pixels <= _PIXELS)
    return max(fit, default=1)


def _ranked(largest, ranks, otherwise):
    """The rank of what is largest, plus 1 at `otherwise`: it decides where all is NaN or -inf."""
    ranked = ops.cast(largest, np.float32) * ranks
    return ranked if otherwise is None else ranked + otherwise


def _upsampled(windows, v, sizes=None):
    """The value of each window at all of its elements, where windows tile the image."""
    return apply(
        "Resize",
        v,
        None,
        np.array([1, 1, *windows.window], np.float32),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
        known=(*v.dims[:2], *(sizes or windows.reach)),
    )


def _at_each_tap(windows, x, y, dy):
    """dy at all maxima, by a mask for each tap."""
    x, (n, c), cells = windows.padded(x, _LOWEST), x.dims[:2], []
    for tap in windows.taps():
        cell = masked(windows.slice(x, tap) >= y, dy)
        cells.append(reshape_dims(cell, [merged(n, c), 1, *windows.result]))
    return windows.scatter(ops.concat(cells, axis=1), (n, c))


def _at_all(windows, x, y, dy):
    """dy at all maxima, however many taps a window has."""
    winners = _winners_of_cells(windows, x, True)
    return _col2im(windows, x, masked(winners, _per_place(windows, dy)))


def _col2im(windows, x, cells):
    """The sum of the window cells [N, C, taps, windows] at their pixels: [N, C, *reach]."""
    n, c = x.dims[:2]
    if windows.count <= _SQUARE:
        return windows.scatter(
            reshape_dims(cells, [merged(n, c), windows.count, *windows.result]), (n, c)
        )
    taps = c * windows.count if isinstance(c, int) else None
    columns = apply("Reshape", cells, np.array([0, taps or -1, windows.blocks]))
    image = apply(
        "Col2Im",
        columns,
        np.array(windows.reach),
        np.array(windows.window),
        strides=windows.strides,
        dilations=windows.dilations,
    )
    return reshape_dims(image, [n, c, *windows.reach])


def _at_first(windows, x, y, dy):
    """dy at the first maximum, without Indices."""
    if windows.count <= _FEW:
        return _at_first_tap(windows, x, y, dy)
    winners = _winners_of_cells(windows, x, False)
    if windows.count <= _SQUARE:
        return _col2im(windows, x, masked(winners, _per_place(windows, dy)))
    at = ops.reduce_sum(masked(winners, ops.cast(windows.index(), np.float32)), 2)
    at = apply("Reshape", ops.cast(at, np.int64), np.array([-1, windows.blocks]))
    values = apply("Reshape", dy, np.array([-1, windows.blocks]))
    images = apply("ReduceProd", apply("Shape", x, end=2), keepdims=1)
    size = ops.concat([images, np.array([windows.pixels])])
    flat = _scatter_add(size, at, values, axis=1)
    shape = ops.concat([apply("Shape", x, end=2), np.array(windows.reach)])
    known = (*x.dims[:2], *windows.reach)
    return apply("Reshape", flat, shape, known=known, allowzero=1)


def _at_first_tap(windows, x, y, dy):
    """dy at the first maximum, tap by tap: each that reaches the maximum takes what is left of dy.

    What no tap takes, where all is NaN, is for the first pixel of a window, and padding is no
    maximum where all is -inf.
    """
    bounded = is_output_of(x, "Relu")  # neither NaN nor -inf
    x, (n, c), left, cells = windows.padded(x, _LOWEST), x.dims[:2], dy, []
    inside = windows.inside_taps()
    for tap, pixels in zip(windows.taps(), inside, strict=True):
        wins = windows.slice(x, tap) >= y
        if not bounded and not pixels.all():
            wins = ops.logical_and(wins, constant(pixels[None, None], np.bool_))
        cells.append(masked(wins, left))
        left = left - cells[-1]
    if not bounded:
        firsts = inside & (np.cumsum(inside, axis=0) == 1)
        for k in np.flatnonzero(firsts.reshape(windows.count, -1).any(1)):
            mask = firsts[k]
            cells[k] = cells[k] + (left if mask.all() else left * mask[None, None].astype("f"))
    cells = [reshape_dims(cell, [merged(n, c), 1, *windows.result]) for cell in cells]
    return windows.scatter(ops.concat(cells, axis=1), (n, c))


def _winners_of_cells(windows, x, all_ties):
    """A mask of the cells of each window that win, [N, C, taps, windows]."""
    cells = windows.cells(windows.padded(x, _LOWEST))
    largest = cells >= ops.reduce_max(cells, 2, keep_dim=True)
    ranks = _ranks_of_cells(windows)
    if all_ties:
        return ops.cast(largest, np.float32) * ranks > 0
    first = ops.equal(ranks, ops.reduce_max(ranks, 0, keep_dim=True))
    ranked = _ranked(largest, ranks * 2, ops.cast(first, np.float32))
    return ops.equal(ranked, ops.reduce_max(ranked, 2, keep_dim=True))


def _ranks_of_cells(windows):
    """`Windows.ranks`, unfolded: a rank for each cell of each window."""
    ranks = constant(np.arange(windows.count, 0, -1)[:, None], np.float32)
    if not any(windows.pads):
        return ranks
    inside = constant(windows.inside().reshape(-1), np.float32)
    return ranks * apply("Gather", inside, windows.index())


def _per_place(windows, v):
    """A value of each window as [N, C, 1, windows]."""
    return apply("Reshape", v, np.array([0, 0, 1, windows.blocks]))


def _scatter_add(size, index, values, axis):
    """Zeros of a size, with values added at their index along an axis."""
    zeros = ops.expand(constant(0, values.dtype), size)
    return ops.scatter_add(zeros, index, values, axis)


def _vector(x):
    return apply("Reshape", x, np.array([-1]))


def _in_shape_of(x, flat):
    """Flat elements in the shape of x."""
    return apply("Reshape", flat, ops.shape_of(x), known=x.dims, allowzero=1)


def avg_pool_grad(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Lower to dy over the number of cells averaged, at every cell of its window."""
    x, dy = inputs
    windows = Windows(node, x, dy, node.attributes["kernel_shape"])
    n, c = x.dims[:2]
    share = dy * (1.0 / _counts(windows, node))
    if windows.reach == list(windows.image) and set(windows.result) == {1}:
        return (share * np.ones((1, 1, *windows.image)),)
    share = reshape_dims(share, [merged(n, c), 1, *windows.result])
    ones = constant(np.ones((1, 1, *windows.window)), dy.dtype)
    image = apply("ConvTranspose", share, ones, strides=windows.strides)
    return (windows.unpadded(reshape_dims(image, [n, c, *windows.reach])),)


def _counts(windows, node):
    """The number of cells that each window averages, [*result]."""
    include = node.attributes.get("count_include_pad", 0)
    total = np.ones(())
    for axis in range(windows.n):
        before = windows.pads[axis]
        after = windows.pads[axis + windows.n]
        low, high = (-before, windows.image[axis] + after) if include else (0, windows.image[axis])
        starts = np.arange(windows.result[axis]) * windows.strides[axis] - before
        ends = np.minimum(starts + windows.window[axis], high)
        total = np.multiply.outer(total, ends - np.maximum(starts, low))
    return total
