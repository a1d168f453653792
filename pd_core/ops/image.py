"""Image ops: resizing, pooling of regions, and blocks of pixels as rows (im2col)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.checks import per_axis, whole
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.node import apply, refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, fresh_dim, static
from . import math as m
from .gather import gather, gather_elements
from .padding import pad
from .reduce import arg_max, reduce_max
from .sequence.segments import repeat_rows
from .shape import concat, reshape, shape_of, size_of, slice, squeeze, transpose, unsqueeze
from .sizes import TargetShape, dims_of, shape_operand

# coordinate_transformation_mode and nearest_mode of ONNX's Resize
_NEAREST = {
    "nearest": ("asymmetric", "floor"),
    "nearest-exact": ("half_pixel", "round_prefer_ceil"),
}


@op
def interpolate(
    x: Operand,
    sizes: TargetShape | None = None,
    mode: str = "linear",
    align_corners: bool | None = None,
    scale: float | Sequence[float] | None = None,
    antialias: bool = False,
) -> Variable:
    """Resize images [N, C, *S] to `sizes` or by `scale`, as torch.nn.functional.interpolate.

    Sizes and scales are one number, or one for each spatial axis; sizes may be an int64 Variable.
    A scaled axis has floor(size scale) pixels. `mode` is "linear" along every axis, "cubic"
    (Keys 1981, a = -0.75), "nearest", or "nearest-exact", whose pixels lie symmetrically. Linear
    and cubic points have the first and the last pixel at the ends of an axis, where a result of
    one pixel is the first; with align_corners=False, the default of PyTorch, the borders of images
    coincide instead, half a pixel further out. With those, `antialias` averages over the pixels
    between points (a = -0.5).

    Args:
        x: [N, C, *S]; floats for linear and cubic.

    Returns:
        [N, C, ...], of the dtype of x.

    Raises:
        DTypeError: linear or cubic points of integers.
        GraphError: both or none of sizes and scale are given, or the mode is unknown or has no such
            option.
        ShapeError: x has no pixels, or the numbers do not fit its spatial axes.
    """
    x = constant(x)
    if (sizes is None) == (scale is None):
        raise GraphError("takes either sizes or a scale")
    attributes = _resize_attributes(mode, align_corners, antialias)
    axes = list(range(2, x.rank))
    target = _scales(scale, len(axes)) if sizes is None else _sizes(sizes, len(axes), x)
    if sizes is None and "align_corners" in attributes.values():
        target = _scaled_sizes(x, target)  # runtimes disagree on where the last pixel is
    if len(axes) != 2 and (mode == "cubic" or antialias):
        return _resize_as_images(x, target, attributes)  # ONNX Runtime has kernels for 2-D only
    return _resize(x, target, axes, attributes)


_MODES_OF_PYTORCH = {
    **dict.fromkeys(("bilinear", "trilinear"), "linear"),
    "bicubic": "cubic",
    "area": "pd.adaptive_avg_pool",
}


def _resize_attributes(mode, align_corners, antialias):
    if mode in _NEAREST:
        if align_corners is not None or antialias:
            raise GraphError(f"align_corners and antialias are for linear and cubic, not {mode!r}")
        transformation, rounding = _NEAREST[mode]
        return {
            "mode": "nearest",
            "coordinate_transformation_mode": transformation,
            "nearest_mode": rounding,
        }
    if mode not in ("linear", "cubic"):
        modes = ", ".join(["linear", "cubic", *_NEAREST])
        here = _MODES_OF_PYTORCH.get(mode)
        hint = f"; here it is {here}" if here else ""
        raise GraphError(f"there is no mode {mode!r}; there is {modes}{hint}")
    transformation = "half_pixel" if align_corners is False else "align_corners"
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transformation}
    if not antialias:
        return attributes
    if align_corners is not False:
        raise GraphError("antialias is for align_corners=False")
    attributes.update(antialias=1, exclude_outside=1)  # Pillow's filters, and PyTorch's
    return {**attributes, "cubic_coeff_a": -0.5} if mode == "cubic" else attributes


def _sizes(sizes, n, x):
    """Return the sizes of n axes, an int64 Variable [n]."""
    if isinstance(sizes, (list, tuple, Variable)):
        sizes = shape_operand(sizes)
    if isinstance(sizes, Variable) and sizes.value is None:
        if sizes.dims != (n,) or sizes.dtype != np.int64:
            raise ShapeError(f"takes int64 sizes [{n}] for {x!r}, not {sizes!r}")
        return sizes
    numbers = per_axis(sizes, n)
    if min(numbers, default=0) < 1:
        raise ShapeError(f"a size is a positive integer, not {numbers} for {x!r}")
    return whole(numbers)


def _scales(scale, n):
    """Return the scales of n axes, a float32 constant [n]."""
    numbers = np.atleast_1d(np.asarray(scale, np.float32))
    if numbers.shape not in ((1,), (n,)) or not (numbers > 0).all():
        raise ShapeError(f"{numbers.tolist()} are no scales of {n} spatial axes")
    return constant(np.broadcast_to(numbers, (n,)))


def _scaled_sizes(x, scales):
    """Return floor(size scale) of each spatial axis, int64."""
    if all(isinstance(d, int) for d in x.dims[2:]):
        return whole(np.floor(np.array(x.dims[2:], np.float32) * scales.value))
    return m.cast(
        m.floor(m.cast(slice(shape_of(x), [2], [x.rank], [0]), np.float32) * scales), np.int64
    )


def _resize(x, target, axes, attributes):
    """Resize some axes to int64 sizes, or by float32 scales."""
    if any(x.dims[axis] == 0 for axis in axes):
        raise ShapeError(f"{describe(x)} has no pixels")
    if x.dtype.kind != "f" and attributes["mode"] != "nearest":
        raise DTypeError(
            f"{attributes['mode']} interpolation is of floats, not of {describe(x)}\n"
            "  hint: cast() it to float32"
        )
    if target.dtype.kind == "f":
        return apply("Resize", x, None, target, None, axes=axes, **attributes)
    known = list(x.dims)
    for axis, size in zip(axes, dims_of(target), strict=True):
        known[axis] = size
    return apply("Resize", x, None, None, target, axes=axes, known=tuple(known), **attributes)


def _resize_as_images(x, target, attributes):
    """Resize sequences or volumes as images: the last two axes, then the ones before."""
    if x.rank == 3:
        return squeeze(_resize(unsqueeze(x, 2), target, [3], attributes), [2])
    n, c, d, *plane = (size_of(x, k) for k in range(5))
    images = refined(reshape(x, concat([n, c * d, *plane])), (x.dims[0], fresh_dim(), *x.dims[3:]))
    images = _resize(images, _part(target, 1, 3), [2, 3], attributes)
    h, w = size_of(images, 2), size_of(images, 3)
    columns = reshape(images, concat([n, c, d, h * w]))
    columns = refined(columns, (*x.dims[:3], fresh_dim()))
    columns = _resize(columns, _part(target, 0, 1), [2], attributes)
    y = reshape(columns, concat([n, c, size_of(columns, 2), h, w]))
    return refined(y, (*x.dims[:2], columns.dims[2], *images.dims[2:]))


def _part(target, start, end):
    """Return the sizes or scales of some of the axes, numbers if they are."""
    if target.value is not None:
        return constant(target.value[start:end])
    return slice(target, [start], [end], [0])


def interpolation_matrix(size: int, result: int) -> np.ndarray:
    """Return the matrix [result, size] of linear interpolation with aligned corners."""
    positions = np.arange(result) * ((size - 1) / (result - 1) if result > 1 else 0.0)
    return np.maximum(0.0, 1.0 - np.abs(positions[:, None] - np.arange(size)))


@op
def roi_max_pool(
    x: Operand, regions: Operand, sizes: int | Sequence[int], scale: float = 1.0
) -> Variable:
    """RoI max pooling of images [N, C, H, W]: [R, C, *sizes] (Girshick 2015).

    Each row of `regions` is [image, x1, y1, x2, y2, ...], corners inclusive; times `scale` and
    rounded the corners are pixels of x. Cells may overlap; an empty one gives 0. Of equal maxima
    the first, row by row, gets the gradient.

    Args:
        x: floats [N, C, H, W] of known sizes.
        regions: floats [R, 5 or more].
        sizes: a pair of numbers.

    Returns:
        [R, C, *sizes].

    Raises:
        DTypeError: x or the regions are no floats.
        ShapeError: x has unknown sizes, or a region less than five numbers.
    """
    x, regions = constant(x), constant(regions)
    sizes = per_axis(sizes, 2)
    if (
        x.rank != 4
        or not all(isinstance(d, int) for d in x.dims[2:])
        or min(*sizes, *static(x.dims[2:])) < 1
    ):
        raise ShapeError(f"takes images of known sizes, not {describe(x)} for {sizes}")
    if x.dtype.kind != "f" or regions.dtype != x.dtype:
        both = f"{describe(x)} and {describe(regions)}"
        raise DTypeError(f"takes images and regions of floats, not {both}")
    if regions.rank != 2 or not isinstance(regions.dims[1], int) or regions.dims[1] < 5:
        raise ShapeError(f"a region is 5 numbers or more, not {describe(regions)}")
    column = [slice(regions, [k], [k + 1], [1]) for k in range(5)]
    x1, y1, x2, y2 = (m.floor(v * scale + 0.5) for v in column[1:])
    rows = _cells(y1, y2, sizes[0], x.dims[2], regions.dtype)
    columns = _cells(x1, x2, sizes[1], x.dims[3], regions.dtype)
    y = gather(x, m.cast(reshape(column[0], [-1]), np.int64))
    y = _largest(unsqueeze(y, 3), unsqueeze(columns, [1, 2]), 4)
    y = _largest(unsqueeze(y, 2), unsqueeze(rows, [1, 4]), 3)
    filled = m.logical_and(unsqueeze(_any(rows), [1, 3]), unsqueeze(_any(columns), [1, 2]))
    return m.where(filled, y, 0.0)


def _cells(first, last, count, size, dtype):
    """Return the mask of the pixels in each cell of a region along an axis, [R, count, size]."""
    step = m.maximum(last - first + 1.0, 1.0) / float(count)
    cell, pixel = np.arange(count, dtype=dtype), np.arange(size, dtype=dtype)
    start = first + m.floor(step * cell)
    end = first - m.floor(-(step * (cell + 1)))
    start, end = (unsqueeze(v, 2) for v in (start, end))
    # functions, not operators: of an array and a Variable Python would swap the comparison
    return m.logical_and(m.greater_equal(pixel, start), m.less_than(pixel, end))


def _largest(x, inside, axis):
    """Return the maximum along an axis over the elements inside; its gradient goes to one."""
    lowest = float(np.finfo(x.dtype).min)
    x = m.where(inside, x, lowest)
    return squeeze(gather_elements(x, arg_max(x, axis, keep_dim=True), axis), [axis])


def _any(inside):
    return reduce_max(m.cast(inside, "float32"), [2]) > 0.0


@op
def im2col(
    x: Operand, block: tuple[int, int], strides: tuple[int, int], pads: tuple[int, int]
) -> tuple[Variable, int]:
    """im2col (PyTorch's unfold): the blocks of images [N, C, H, W] as rows, and their number P.

    The rows [N P, C block[0] block[1]] follow the image row by row. The other arguments are pairs
    (y, x); a border of `pads` zeros surrounds the image. Unlike unfold's, the last block of a row
    or column may reach beyond that border, where the strides do not fit: zeros there.

    Args:
        x: numbers [N, C, H, W] of known C, H and W.

    Returns:
        ([N P, C block[0] block[1]], P).

    Raises:
        ShapeError: x has other or unknown sizes.
    """
    x = constant(x)
    if x.rank != 4 or not all(isinstance(d, int) for d in x.dims[1:]):
        raise ShapeError(f"takes images [N, C, H, W] of known C, H and W, not {x!r}")
    if 0 in x.dims[1:]:
        raise ShapeError(f"images {describe(x)} have no elements")
    channels, *size = static(x.dims[1:])
    counts = [
        1 + max(0, -(-(n + 2 * p - b) // s))
        for n, b, s, p in zip(size, block, strides, pads, strict=True)
    ]
    pixels = size[0] * size[1]
    owner, inverse = _block_pixels(size, block, strides, pads, counts)
    columns = transpose(reshape(x, [-1, channels, pixels]), [2, 0, 1])
    taken = repeat_rows(columns, inverse, owner, holes=True)
    blocks, cells = counts[0] * counts[1], block[0] * block[1]
    sizes = concat([constant([blocks, cells]), size_of(x, 0), constant([channels])])
    taken = reshape(taken, sizes)
    taken = refined(taken, (blocks, cells, x.dims[0], channels))
    rows = transpose(taken, [2, 0, 3, 1])
    return reshape(rows, [-1, channels * cells]), blocks


@op
def unfold(
    x: Operand,
    block: int | Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
) -> Variable:
    """Blocks of images [N, C, *S] as columns, [N, C K, P], as torch.nn.functional.unfold.

    K is the number of elements of a block, P that of blocks. Arguments are one number, or one for
    each spatial axis; a border of `pads` zeros surrounds the image.

    Args:
        x: images [N, C, *S], C known.
        block: sizes of a block.
        strides: steps from block to block.
        pads: zeros at both ends of each axis.
        dilations: distances of the elements of a block.

    Returns:
        [N, C K, P].

    Raises:
        ShapeError: x has no spatial axes, or a block does not fit into them.
    """
    x = constant(x)
    n = x.rank - 2
    if n < 1 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes images [N, C, ...] with known C, not {describe(x)}")
    cells, steps, border, spread = _block_geometry(n, block, strides, pads, dilations)
    _block_counts(x.dims[2:], cells, steps, border, spread)
    y = pad(x, [0, 0, *border], [0, 0, *border]) if any(border) else x
    for k, (size, stride, dilation) in enumerate(zip(cells, steps, spread, strict=True)):
        axis = 2 + 2 * k  # behind the axes of blocks, and of places in them, that are done
        ends = [(i + 1 - size) * dilation or np.iinfo(np.int64).max for i in range(size)]
        taken = [slice(y, [i * dilation], [ends[i]], [axis], [stride]) for i in range(size)]
        y = concat([unsqueeze(t, 2 + k) for t in taken], 2 + k)
    return reshape(y, [0, x.dims[1] * int(np.prod(cells)), -1])


@op
def fold(
    x: Operand,
    size: Sequence[int],
    block: int | Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
) -> Variable:
    """Sum columns [N, C K, P] into images [N, C, *size], as torch.nn.functional.fold.

    It is ONNX's Col2Im, the transpose of `unfold`, whose arguments it has.

    Args:
        x: columns [N, C K, P].
        size: the sizes S of the images.
        block: sizes of a block.
        strides: steps from block to block.
        pads: zeros at both ends of each axis.
        dilations: distances of the elements of a block.

    Returns:
        [N, C, *S].

    Raises:
        ShapeError: the columns are not those of such blocks.
    """
    x = constant(x)
    size = per_axis(size, np.size(size))
    n = len(size)
    if x.rank != 3 or not isinstance(x.dims[1], int):
        raise ShapeError(f"takes columns [N, C K, P] with known C K, not {describe(x)}")
    cells, steps, border, spread = _block_geometry(n, block, strides, pads, dilations)
    count = int(np.prod(cells))
    places = int(np.prod(_block_counts(size, cells, steps, border, spread)))
    if x.dims[1] % count or not x.dims[1]:
        raise ShapeError(f"{x.dims[1]} rows do not split into blocks of {count} elements")
    if isinstance(x.dims[2], int) and x.dims[2] != places:
        raise ShapeError(f"{x.dims[2]} columns, but {places} blocks of {cells} fit into {size}")
    window: dict[str, Any] = {"strides": steps, "pads": [*border, *border], "dilations": spread}
    known = [x.dims[0], x.dims[1] // count, *size]
    return apply("Col2Im", x, whole(size), whole(cells), known=known, **window)


def _block_geometry(n, block, strides, pads, dilations):
    """Return block, strides, pads and dilations, each with a number for each of n axes."""
    geometry = [per_axis(v, n) for v in (block, strides, pads, dilations)]
    if any(v < 1 for k in (0, 1, 3) for v in geometry[k]) or min(geometry[2]) < 0:
        raise ShapeError("takes a block, strides and dilations of 1 or more, and pads of 0 or more")
    return geometry


def _block_counts(sizes, block, strides, pads, dilations):
    """Return the number of blocks along each axis, None where its size is not known."""
    counts = []
    for size, width, stride, border, dilation in zip(
        sizes, block, strides, pads, dilations, strict=True
    ):
        room = size + 2 * border - (width - 1) * dilation - 1 if isinstance(size, int) else 0
        if room < 0:
            raise ShapeError(
                f"a block of {(width - 1) * dilation + 1} does not fit into {size + 2 * border}"
            )
        counts.append(room // stride + 1 if isinstance(size, int) else None)
    return counts


def _block_pixels(size, block, strides, pads, counts):
    """Return the pixel of each cell of all blocks, H W outside the image, and the inverse: the
    cells of each pixel, [H W, K].
    """
    pixels = size[0] * size[1]
    y, x = (
        np.arange(n)[:, None] * s + np.arange(b) - p
        for n, b, s, p in zip(counts, block, strides, pads, strict=True)
    )
    inside = [(v >= 0) & (v < n) for v, n in zip((y, x), size, strict=True)]
    within = inside[0][:, None, :, None] & inside[1][None, :, None, :]
    pixel = y[:, None, :, None] * size[1] + x[None, :, None, :]
    owner = np.where(within, pixel, pixels).reshape(-1)
    cells = np.flatnonzero(owner < pixels)
    cells = cells[np.argsort(owner[cells], kind="stable")]
    counts = np.bincount(owner[cells], minlength=pixels)
    column = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
    inverse = np.full((pixels, counts.max()), len(owner))
    inverse[owner[cells], column] = cells
    return constant(owner), constant(inverse)
