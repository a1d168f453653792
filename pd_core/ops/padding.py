"""Padding: elements around others, or with negative widths elements that are cut off."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.recording import as_number
from ..graph.size_entries import settled_numbers
from ..graph.variable import Operand, Variable, constant
from .shape import concat, slice
from .sizes import shape_operand

Widths = Variable | Sequence[int] | np.ndarray  # of a padding


@op
def pad(
    x: Operand, before: Widths, after: Widths, value: Operand = 0.0, mode: str = "constant"
) -> Variable:
    """Pad x with a constant: `before` and `after` hold a width for every axis.

    Either may be an int64 Variable. A negative width cuts elements off. The other modes are
    numpy's: "edge" repeats the last element, "reflect" mirrors x at it, "wrap" begins again at the
    other end. What is cut off at one end, "reflect" may still mirror at the other one, and "wrap"
    not, as in PyTorch.

    Args:
        x: numbers or bools of any shape.
        before: a width for each axis.
        after: a width for each axis.
        value: what the border has in the mode constant.

    Returns:
        Of the dtype of x.

    Raises:
        GraphError: there is no such mode.
        ShapeError: a width is too wide for the mode, or more is cut off than there is.
        TypeError: a width is text.
    """
    x = constant(x)
    if isinstance(before, str) or isinstance(after, str):
        raise TypeError(
            f"pad: before and after are widths of all axes, not {before!r} and {after!r}\n"
            "  hint: PyTorch's pad(x, (1, 2)) is pd.pad(x, [0, 1], [0, 2]) of a matrix"
        )
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise GraphError(f"the mode is constant, edge, reflect or wrap, not {mode!r}")
    fill = [constant(value, x.dtype)] if mode == "constant" else []
    if isinstance(before, Variable) or isinstance(after, Variable):
        widths = settled_numbers(concat([shape_operand(w) for w in (before, after)]))
    else:
        widths = shape_operand([*before, *after])
    if widths.value is None:
        return apply("Pad", x, widths, *fill, mode=mode)
    array: Any = widths.value
    if (array >= 0).all() or array.shape != (2 * x.rank,):  # whose error is the operator's
        return _padded(x, array, fill, mode)
    more, cut = np.maximum(array, 0), np.maximum(-array, 0)
    if not more.any():
        return _cut(x, cut)
    if mode == "reflect":
        return _cut(_padded(x, more, fill, mode), cut)
    return _padded(_cut(x, cut), more, fill, mode)


def _padded(x, widths, fill, mode):
    if widths.shape == (2 * x.rank,):
        _check_mirrored(x, widths, mode)
    return apply("Pad", x, constant(widths), *fill, mode=mode)


def _cut(x, widths):
    """Leave elements out at both ends of each axis."""
    before, after = widths[: x.rank], widths[x.rank :]
    axes = [a for a in range(x.rank) if before[a] or after[a]]
    for a in axes:
        size = as_number(x.dims[a])
        if size is not None and size < before[a] + after[a]:
            raise ShapeError(f"{before[a]} and {after[a]} elements of axis {a} of {x!r} are cut")
    ends = [-after[a] if after[a] else np.iinfo(np.int64).max for a in axes]
    return slice(x, before[axes].tolist(), ends, axes)


def _check_mirrored(x, widths, mode):
    """Check that an axis has the elements that fill its padding."""
    least = {"reflect": 1, "wrap": 0}.get(mode)
    if least is None:
        return
    for size, *ends in zip(x.dims, widths[: x.rank], widths[x.rank :], strict=True):
        if isinstance(size, int) and max(ends) > size - least:
            raise ShapeError(f"{mode} of {max(ends)} elements at an axis of {size} of {x!r}")
