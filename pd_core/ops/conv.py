"""Convolution and pooling, written once over the number of spatial axes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph.checks import per_axis, whole
from ..graph.errors import GraphError, NoGradient, ShapeError
from ..graph.node import apply, composite, refined
from ..graph.op import op
from ..graph.recording import as_number
from ..graph.variable import Operand, Variable, constant
from . import math as m
from .control import cond
from .padding import pad
from .shape import (
    concat,
    expand,
    product_of_sizes,
    reshape,
    shape_of,
    size_of,
    slice,
    transpose,
)

Sizes = int | Sequence[int]  # a number for all spatial axes, or one for each
Padding = Sizes | str  # or (before..., after...), "same" or "valid"


@op
def conv(
    x: Operand,
    w: Operand,
    bias: Operand | None = None,
    strides: Sizes = 1,
    pads: Padding = 0,
    dilations: Sizes = 1,
    group: int = 1,
) -> Variable:
    """Convolve (cross-correlate) images [N, C, *S] with filters [O, C/group, *K].

    `pads` is one number, one per spatial axis, or (before..., after...); "valid" is none, and
    with "same" the result has ceil(size / stride) pixels: the pads at both ends of an axis differ
    by at most 1, in favour of the end. With strides "same" takes images of known sizes.

    Args:
        x: floats [N, C, *S].
        w: filters [O, C/group, *K] of the same dtype.
        bias: floats [O].
        strides: the step of the window on each axis.
        pads: the zeros around the image.
        dilations: the distances of the filter's elements.
        group: the number of groups of channels.

    Returns:
        [N, O, *S'], of the sizes that the windows give.

    Raises:
        DTypeError: x and w are no floats.
        ShapeError: the channels, the axes or the sizes do not fit each other.
    """
    x, w = constant(x), constant(w)
    n = x.rank - 2
    strides, dilations = per_axis(strides, n), per_axis(dilations, n)
    return apply(
        "Conv",
        x,
        w,
        bias,
        strides=strides,
        pads=explicit_pads(pads, x, w.dims[2:], strides, dilations),
        dilations=dilations,
        group=int(group),
    )


@op
def conv_transpose(
    x: Operand,
    w: Operand,
    bias: Operand | None = None,
    strides: Sizes = 1,
    pads: Sizes = 0,
    dilations: Sizes = 1,
    group: int = 1,
    output_padding: Sizes = 0,
) -> Variable:
    """Transposed convolution: x [N, O, *S] and filters [O, C/group, *K] give [N, C, ...].

    Args:
        x: floats [N, O, *S].
        w: filters [O, C/group, *K] of the same dtype.
        bias: floats [C].
        strides: the distance of the windows on each axis.
        pads: what is cut off at both ends of each axis.
        dilations: the distances of the filter's elements.
        group: the number of groups of channels.
        output_padding: what is added at the end of each axis, less than the larger one of stride
            and dilation.

    Returns:
        [N, C, *S'], of the sizes that the windows give.

    Raises:
        DTypeError: x and w are no floats.
        ShapeError: the channels or the axes do not fit each other, or an output padding is too
            large.
    """
    x = constant(x)
    n = x.rank - 2
    steps, holes, extra = (per_axis(v, n) for v in (strides, dilations, output_padding))
    windows: dict[str, Any] = {"strides": steps, "dilations": holes, "group": int(group)}
    edges = _pads(pads, n)
    wide = any(step <= more < hole for more, step, hole in zip(extra, steps, holes, strict=True))
    if not wide:
        padding: dict[str, Any] = {"pads": edges, "output_padding": extra}
        return apply("ConvTranspose", x, w, bias, **windows, **padding)
    # which ONNX does not allow: lengthen or crop what is not padded
    full = apply("ConvTranspose", x, w, **windows, pads=[0] * (2 * n), output_padding=[0] * n)
    ends = [more - cut for more, cut in zip(extra, edges[n:], strict=True)]
    y = pad(full, [0, 0, *(-cut for cut in edges[:n])], [0, 0, *ends])
    return y if bias is None else y + reshape(bias, [-1, *[1] * n])


@op
def conv_input_grad(w: Variable, dy: Variable, x: Variable, **attributes: Any) -> Variable:
    """Gradient of y = conv(x, w) in x."""
    if not _known_sizes(x, dy, w):
        return _input_grad(w, dy, x, **attributes)
    return composite("ConvInputGrad", w, dy, x, types=[(x.dims, dy.dtype)], **attributes)


@op
def conv_filter_grad(x: Variable, dy: Variable, w: Variable, **attributes: Any) -> Variable:
    """Gradient of y = conv(x, w) in w."""
    if not _known_sizes(x, dy, w):
        return _filter_grad(x, dy, w, **attributes)
    return composite("ConvFilterGrad", x, dy, w, types=[(w.dims, dy.dtype)], **attributes)


def _input_grad(w, dy, x, strides, pads, dilations, group):
    """Compute the gradient for unknown sizes: a transposed convolution without pads, cropped."""
    n = x.rank - 2
    full = conv_transpose(dy, w, None, strides, 0, dilations, group)
    starts = np.array(pads[:n], np.int64)
    ends = [size_of(x, 2 + k) + starts[k : k + 1] for k in range(n)]
    # with strides, the last windows may end before the image does
    missing = [m.maximum(end - size_of(full, 2 + k), 0) for k, end in enumerate(ends)]
    batch_and_channels = constant(np.zeros(2, np.int64))
    full = pad(full, np.zeros(n + 2, np.int64), concat([batch_and_channels, *missing]))
    return refined(slice(full, starts, concat(ends), list(range(2, n + 2))), x.dims)


def _filter_grad(x, dy, w, strides, pads, dilations, group):
    """Compute the gradient for unknown sizes: convolve x, batch and channels swapped, with dy as
    filters, strides and dilations swapped.
    """
    shape = shape_of(w)  # the branches read it, and not w: nothing flows back to that
    window = slice(shape, [2], [x.rank])

    def grad() -> Variable:
        return _convolved(x, dy, window, strides, pads, dilations, group)

    def zero() -> Variable:
        return expand(constant(0, dy.dtype), shape)

    # of no images it is zero: ONNX Runtime's kernel does not end where there are no channels
    some = apply("Size", x) * apply("Size", dy) > 0
    return refined(cond(some, grad, zero), w.dims)


def _convolved(x, dy, window, strides, pads, dilations, group):
    n, axes = x.rank - 2, list(range(2, x.rank))
    channels, pixels = m.quotient(size_of(x, 1), group), product_of_sizes(x, axes)
    grouped = reshape(x, concat([size_of(x, 0), [group], channels, pixels]))
    images = transpose(grouped, [2, 1, 0, 3])
    sizes = [size_of(x, 0) * group, *(size_of(x, k) for k in axes)]
    images = apply("Reshape", images, concat([size_of(images, 0), *sizes]), allowzero=1)
    filters = transpose(dy, [1, 0, *axes])
    y = conv(images, filters, None, dilations, pads, strides, group)
    y = transpose(y, [1, 0, *axes])
    return slice(y, [0] * n, window, axes)


def _known_sizes(*images):
    """Return whether all sizes but the numbers of images are known."""
    return all(isinstance(d, int) for x in images for d in x.dims[1:])


@op
def max_pool(
    x: Operand,
    window: Sizes,
    strides: Sizes = 1,
    pads: Padding = 0,
    ceil_mode: bool = False,
    ties: str = "first",
    dilations: Sizes = 1,
) -> Variable:
    """Maximum of each window of [N, C, *S]; padding is never the maximum.

    With ceil_mode a last window may reach beyond the end, if it starts within the image or the
    padding before it. `pads` are those of `conv`. Of equal maxima of a window the first, row by
    row, gets the gradient, as in PyTorch; with ties="all" each of them gets all of it, which needs
    known sizes. Of a window with NaN the maximum is NaN, and the last NaN the one for the gradient;
    but where nothing else reads the result of `conv` that is pooled, or of a `relu` of it, as in
    inference, a CPU may lose the NaN.

    Args:
        x: floats or 8-bit integers [N, C, *S].
        window: the sizes of a window.
        strides: the step of the window on each axis.
        pads: the padding of the image.
        ceil_mode: whether a last window may reach beyond the end.
        ties: "first" or "all": which of equal maxima have the gradient.
        dilations: the distance of the elements of a window on each axis.

    Returns:
        [N, C, *S'], of the sizes that the windows give.

    Raises:
        DTypeError: x are neither floats nor 8-bit integers.
        GraphError: `ties` is another.
        ShapeError: x has no spatial axes, or the windows do not fit into them.
    """
    x = constant(x)
    y = apply("MaxPool", x, **_windows(x, window, strides, pads, ceil_mode, dilations))
    if ties not in ("first", "all"):
        raise GraphError(f"ties is 'first' or 'all', not {ties!r}")
    if ties == "first":
        return y
    return composite("TiedMaxPool", x, types=[(y.dims, y.dtype)], ties=ties, **y.node.attributes)


@op
def avg_pool(
    x: Operand,
    window: Sizes,
    strides: Sizes = 1,
    pads: Padding = 0,
    ceil_mode: bool = False,
    include_pad: bool = False,
) -> Variable:
    """Mean of each window of [N, C, *S], over the pixels inside the image unless include_pad.

    `pads` are those of `conv`. The part of a window that reaches beyond the end with ceil_mode is
    never counted.

    Args:
        x: floats [N, C, *S].
        window: the sizes of a window.
        strides: the step of the window on each axis.
        pads: the padding of the image.
        ceil_mode: whether a last window may reach beyond the end.
        include_pad: whether the padding counts.

    Returns:
        [N, C, *S'], of the sizes that the windows give.

    Raises:
        DTypeError: x are no floats.
        ShapeError: x has no spatial axes, or the windows do not fit into them.
    """
    x = constant(x)
    geometry = _windows(x, window, strides, pads, ceil_mode)
    y = apply("AveragePool", x, count_include_pad=int(include_pad), **geometry)
    if isinstance(pads, str):
        return y  # there is none that only ceil_mode adds
    pads = _pads(pads, x.rank - 2)
    if pads == geometry["pads"] or not include_pad:
        return y
    return y * _divisor_correction(x, y, geometry, pads)


def _windows(x, window, strides, pads, ceil_mode, dilations=1):
    """Return the attributes of a pooling, ceil_mode expressed as padding where sizes are known:
    ONNX 21 and the runtimes disagree on the number of windows that ceil_mode gives.
    """
    n = x.rank - 2
    if isinstance(pads, str) and ceil_mode:
        raise GraphError(f"ceil_mode is without pads={pads!r}")
    window, strides = per_axis(window, n), per_axis(strides, n)
    dilations = per_axis(dilations, n)
    pads = explicit_pads(pads, x, window, strides, dilations)
    known = all(isinstance(size, int) for size in x.dims[2:])
    if ceil_mode and not known and all(as_number(size) is not None for size in x.dims[2:]):
        raise ShapeError(f"ceil_mode takes images of known sizes, not {x!r}")  # tried with numbers
    if ceil_mode and known and min(strides, default=0) > 0:
        reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
        axes = zip(x.dims[2:], reach, strides, pads[:n], pads[n:], strict=True)
        pads = pads[:n] + [_padding_to_last_window(*axis) for axis in axes]
    return {
        "kernel_shape": window,
        "strides": strides,
        "pads": pads,
        "ceil_mode": int(ceil_mode and not known),
        **({"dilations": dilations} if any(d != 1 for d in dilations) else {}),
    }


def _padding_to_last_window(size, window, stride, before, after):
    """Return the padding after an axis with which the last window of ceil_mode ends."""
    count = -(-(size + before + after - window) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return max(0, (count - 1) * stride + window - size - before)


def _divisor_correction(x, y, geometry, pads):
    """Divide each window's area by its area inside the image and the user's `pads`, [*result]."""
    ratio, n = np.ones(()), x.rank - 2
    for axis, (count, k, s) in enumerate(
        zip(y.dims[2:], geometry["kernel_shape"], geometry["strides"], strict=True)
    ):
        starts = np.arange(count) * s
        ends = np.minimum(starts + k, x.dims[2 + axis] + pads[axis] + pads[axis + n])
        ratio = np.multiply.outer(ratio, k / (ends - starts))
    return ratio


@op
def max_pool_grad(x: Variable, y: Variable, dy: Variable, **attributes: Any) -> Variable:
    """Gradient of y = max_pool(x) in x: dy goes to the first maximum of a window, or to all."""
    _check_sizes(x)
    return composite("MaxPoolGrad", x, y, dy, types=[(x.dims, dy.dtype)], **attributes)


@op
def max_pool_pick(x: Variable, y: Variable, u: Variable, **attributes: Any) -> Variable:
    """Transpose of `max_pool_grad`: sum u over the maxima of each window of x."""
    _check_sizes(x)
    return composite("MaxPoolPick", x, y, u, types=[(y.dims, u.dtype)], **attributes)


@op
def avg_pool_grad(x: Variable, dy: Variable, **attributes: Any) -> Variable:
    """Gradient of y = avg_pool(x) in x: dy spread evenly over the pixels of each window."""
    _check_sizes(x)
    return composite("AveragePoolGrad", x, dy, types=[(x.dims, dy.dtype)], **attributes)


@op
def pool2d(
    x: Operand,
    pool_size: Sizes = 2,
    pool_stride: Sizes | None = None,
    pool_type: str = "max",
    pool_padding: Sizes = 0,
    ceil_mode: bool = False,
) -> Variable:
    """Max or average pooling of images [N, C, H, W]; the stride defaults to the window size."""
    pools: dict[str, Callable[..., Variable]] = {"max": max_pool, "avg": avg_pool}
    if pool_type not in pools:
        raise ShapeError(f"pool_type is one of {sorted(pools)}, not {pool_type!r}")
    stride = pool_size if pool_stride is None else pool_stride
    return pools[pool_type](x, pool_size, stride, pool_padding, ceil_mode)


def _check_sizes(image):
    """Refuse images of unknown sizes: the lowerings of these gradients need the numbers."""
    if not all(isinstance(d, int) for d in image.dims[2:]):
        raise NoGradient(f"only images of known sizes have a gradient, not {image!r}")


def explicit_pads(
    pads: Padding,
    x: Variable,
    window: Sequence[Any],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Return the padding of x as ONNX wants it; "same" and "valid" in numbers."""
    n = x.rank - 2
    if not isinstance(pads, str):
        return _pads(pads, n)
    if pads not in ("same", "valid"):
        raise GraphError(f"pads are numbers, 'same' or 'valid', not {pads!r}")
    if pads == "valid":
        return [0] * 2 * n
    widths, image = [], list[Any](x.dims[2:])
    for size, k, step, d in zip(image, window, strides, dilations, strict=True):
        if not isinstance(k, int) or (step > 1 and not isinstance(size, int)):
            raise ShapeError(f"pads='same' with strides takes images of known sizes, not {x!r}")
        # from the last pixel to the start of the last window
        start = (-(-size // step) - 1) * step - (size - 1) if step > 1 else 0
        widths.append(max(0, start + d * (k - 1)))
    return [w // 2 for w in widths] + [w - w // 2 for w in widths]


def _pads(pads, n):
    """Return the padding as ONNX wants it: before each of n axes, then after each."""
    array: Any = whole(pads).value
    values = array.reshape(-1).tolist()
    return values if len(values) == 2 * n else per_axis(values, n) * 2
