"""Gradients of pooling in ONNX operators.

Of equal elements the first of a window, row by row, has the whole gradient, as in PyTorch and by
the Indices of ONNX's MaxPool; with ties="all" each of them has it.
"""

import numpy as np

from ...graph.node import apply
from ...graph.rewrite import is_output_of
from ...graph.variable import constant
from .relu import masked
from .windows import Windows, merged, reshape

_LOWEST = float(np.finfo(np.float32).min)
_FEW = 9  # taps up to which windows that overlap are read tap by tap, five operators each
_SQUARE = 64  # taps up to which a convolution adds them up, whose filters hold the square of that
_PIXELS = 16_384  # of an image up to which channels are stacked
_FLOAT32, _INT64 = 1, 7


def max_pool(node, inputs, sizes, seed):
    """ONNX's own operator, which does not say how ties are resolved."""
    attributes = {k: v for k, v in node.attributes.items() if k != "ties"}
    return (apply("MaxPool", *inputs, known=node.outputs[0].dims, **attributes),)


def max_pool_grad(node, inputs, sizes, seed):
    """dy at the winners of each window.

    By the Indices of a MaxPool where windows overlap. Where they tile the image a comparison of
    whole images is faster: ONNX Runtime's pooling with Indices takes 10 times as long on a CPU.
    """
    windows, (x, _, dy) = _windows(node, inputs), inputs
    if _every(node) or windows.tile or not windows.onnx_pads:
        return max_pool_grad_without_indices(node, inputs, sizes, seed)
    index = _indices(windows, x)
    size = apply("ReduceProd", apply("Shape", x), keepdims=1)
    flat = _added_up(size, _vector(index), _vector(dy), axis=0)
    return (_like(flat, x),)


def sum_of_gradient(node, inputs):
    """The sum of `max_pool_grad` over whole images is that of dy: each window has one winner."""
    if node.op_type != "ReduceSum" or len(inputs) < 2 or not is_output_of(inputs[0], "MaxPoolGrad"):
        return None
    (dx, axes), pool = inputs, inputs[0].node
    if _every(pool) or axes.value is None or not set(range(2, dx.rank)) <= set(axes.value.tolist()):
        return None
    return (apply("ReduceSum", pool.inputs[2], axes, **node.attributes),)


def max_pool_pick(node, inputs, sizes, seed):
    """The sum over the winners of each window of u: `max_pool_grad` transposed."""
    windows, (x, y, u) = _windows(node, inputs), inputs
    if _every(node) or not windows.onnx_pads:
        return max_pool_pick_without_indices(node, inputs, sizes, seed)
    return (_like(apply("Gather", _vector(u), _vector(_indices(windows, x))), y),)


def max_pool_grad_without_indices(node, inputs, sizes, seed):
    """The same for runtimes whose MaxPool gives no Indices."""
    windows, (x, y, dy) = _windows(node, inputs), inputs
    if windows.tile:
        won = _winners_of_tiles(windows, x, y, _every(node))
        return (windows.unpadded(masked(won, _enlarged(windows, dy))),)
    if not _every(node):
        return (windows.unpadded(_at_first(windows, x, dy)),)
    spread = _at_each_tap if windows.count <= _FEW else _at_all
    return (windows.unpadded(spread(windows, x, y, dy)),)


def max_pool_pick_without_indices(node, inputs, sizes, seed):
    """The same for runtimes whose MaxPool gives no Indices."""
    windows, (x, y, u) = _windows(node, inputs), inputs
    won = _winners_of_cells(windows, x, _every(node))
    picked = masked(won, windows.cells(windows.padded(u, 0.0)))
    return (_like(apply("ReduceSum", picked, np.array([2]), keepdims=0), y),)


def _windows(node, inputs):
    x, y, _ = inputs
    return Windows(node, x, y, node.attributes["kernel_shape"])


def _every(node):
    """Whether all elements that equal the maximum win."""
    return node.attributes.get("ties", "first") == "all"


def _indices(windows, x):
    """The number of each window's first largest element among all elements of x."""
    geometry = {k: getattr(windows, k) for k in ("strides", "dilations", "pads")}
    return apply("MaxPool", x, outputs=2, kernel_shape=windows.window, **geometry)[1]


def _winners_of_tiles(windows, x, y, every):
    """Which elements win, in an image as large as the reach."""
    bounded = is_output_of(x, "Relu")
    x = windows.padded(x, _LOWEST)
    largest = apply("GreaterOrEqual", x, _enlarged(windows, y))
    return largest if every else _first_of_tiles(windows, largest, bounded)


def _first_of_tiles(windows, largest, bounded):
    """The first element of each window of a mask; of a window without any, the first at all.

    Each has a rank, and the largest rank is pooled. Images of a few channels stand one above the
    other meanwhile: kernels take their time for each image.
    """
    dims, ranks = largest.dims, windows.ranks()
    otherwise, sizes = windows.firsts(ranks), windows.reach
    height = _stacked_channels(dims[1], windows.pixels)
    if height > 1:
        sizes = [height * sizes[0], *sizes[1:]]
        largest = apply("Reshape", largest, np.array([-1, 1, *sizes]))
        ranks, otherwise = (np.concatenate([v] * height) for v in (ranks, otherwise))
    found = _ranked(largest, 2.0 * ranks[None, None], None if bounded else otherwise[None, None])
    first = apply("MaxPool", found, kernel_shape=windows.window, strides=windows.window)
    won = apply("Equal", found, _enlarged(windows, first, sizes))
    if height == 1:
        return won
    return apply("Reshape", won, np.array([-1, *dims[1:]]), known=dims)


def _stacked_channels(channels, pixels):
    """The number of channels to stack into one image of at most _PIXELS pixels."""
    if not isinstance(channels, int):
        return 1
    fit = (k for k in range(1, channels + 1) if channels % k == 0 and k * pixels <= _PIXELS)
    return max(fit, default=1)


def _ranked(largest, ranks, otherwise):
    """The rank of what is largest, plus 1 somewhere: windows of NaN or -inf have nothing else."""
    found = apply("Mul", apply("Cast", largest, to=_FLOAT32), constant(ranks, np.float32))
    return found if otherwise is None else apply("Add", found, constant(otherwise, np.float32))


def _enlarged(windows, v, sizes=None):
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
    """dy at all largest elements, a mask for each place within a window."""
    x, (n, c), cells = windows.padded(x, _LOWEST), x.dims[:2], []
    for tap in windows.taps():
        cell = masked(apply("GreaterOrEqual", windows.slice(x, tap), y), dy)
        cells.append(reshape(cell, [merged(n, c), 1, *windows.result]))
    return windows.scatter(apply("Concat", *cells, axis=1), (n, c))


def _at_all(windows, x, y, dy):
    """dy at all largest elements, however many places a window has."""
    return _summed(
        windows, x, masked(_winners_of_cells(windows, x, True), _beside_taps(windows, dy))
    )


def _summed(windows, x, cells):
    """The sum of the window cells at their pixels (col2im): [N, C, *reach]."""
    n, c = x.dims[:2]
    if windows.count <= _SQUARE:
        return windows.scatter(
            reshape(cells, [merged(n, c), windows.count, *windows.result]), (n, c)
        )
    taps = c * windows.count if isinstance(c, int) else None
    columns = apply("Reshape", cells, np.array([0, taps or -1, windows.places]))
    image = apply(
        "Col2Im",
        columns,
        np.array(windows.reach),
        np.array(windows.window),
        strides=windows.strides,
        dilations=windows.dilations,
    )
    return reshape(image, [n, c, *windows.reach])


def _at_first(windows, x, dy):
    """dy at the first largest element, without Indices."""
    won = _winners_of_cells(windows, x, False)
    if windows.count <= _SQUARE:
        return _summed(windows, x, masked(won, _beside_taps(windows, dy)))
    at = apply("Cast", windows.index(), to=_FLOAT32)
    at = apply("ReduceSum", masked(won, at), np.array([2]), keepdims=0)
    at = apply("Reshape", apply("Cast", at, to=_INT64), np.array([-1, windows.places]))
    values = apply("Reshape", dy, np.array([-1, windows.places]))
    images = apply("ReduceProd", apply("Shape", x, end=2), keepdims=1)
    size = apply("Concat", images, np.array([windows.pixels]), axis=0)
    flat = _added_up(size, at, values, axis=1)
    shape = apply("Concat", apply("Shape", x, end=2), np.array(windows.reach), axis=0)
    known = (*x.dims[:2], *windows.reach)
    return apply("Reshape", flat, shape, known=known, allowzero=1)


def _winners_of_cells(windows, x, every):
    """Which cells of each window win, [N, C, taps, places]."""
    taps = np.array([2], np.int64)
    cells = windows.cells(windows.padded(x, _LOWEST))
    largest = apply("GreaterOrEqual", cells, apply("ReduceMax", cells, taps, keepdims=1))
    ranks = _ranks_of_cells(windows)
    if every:
        found = apply("Mul", apply("Cast", largest, to=_FLOAT32), ranks)
        return apply("Greater", found, np.float32(0))
    first = apply("Equal", ranks, apply("ReduceMax", ranks, np.array([0]), keepdims=1))
    first = apply("Cast", first, to=_FLOAT32)
    found = _ranked(largest, apply("Mul", ranks, np.float32(2)), first)
    return apply("Equal", found, apply("ReduceMax", found, taps, keepdims=1))


def _ranks_of_cells(windows):
    """`Windows.ranks`, unfolded: a rank for each cell of each window."""
    ranks = constant(np.arange(windows.count, 0, -1)[:, None], np.float32)
    if not any(windows.pads):
        return ranks
    inside = constant(windows.inside().reshape(-1), np.float32)
    return apply("Mul", ranks, apply("Gather", inside, windows.index()))


def _beside_taps(windows, v):
    """A value of each window as [N, C, 1, places]."""
    return apply("Reshape", v, np.array([0, 0, 1, windows.places]))


def _added_up(size, index, values, axis):
    """Zeros of a size, with values added at their index along an axis."""
    zeros = apply("Expand", constant(0, values.dtype), size)
    return apply("ScatterElements", zeros, index, values, axis=axis, reduction="add")


def _vector(x):
    return apply("Reshape", x, np.array([-1]))


def _like(flat, x):
    """Elements in the shape of x."""
    return apply("Reshape", flat, apply("Shape", x), known=x.dims, allowzero=1)


def avg_pool_grad(node, inputs, sizes, seed):
    """dy over the number of cells averaged, at every cell of its window."""
    x, dy = inputs
    windows = Windows(node, x, dy, node.attributes["kernel_shape"])
    n, c = x.dims[:2]
    share = apply("Mul", dy, constant(1.0 / _counts(windows, node), dy.dtype))
    if windows.reach == list(windows.image) and set(windows.result) == {1}:
        return (apply("Mul", share, constant(np.ones((1, 1, *windows.image)), dy.dtype)),)
    share = reshape(share, [merged(n, c), 1, *windows.result])
    ones = constant(np.ones((1, 1, *windows.window)), dy.dtype)
    image = apply("ConvTranspose", share, ones, strides=windows.strides)
    return (windows.unpadded(reshape(image, [n, c, *windows.reach])),)


def _counts(windows, node):
    """How many cells each window averages, [*result]."""
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
