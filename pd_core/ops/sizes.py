"""Shapes that users write: numbers, with Variables among them for sizes that only runs know."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from ..graph.checks import whole
from ..graph.errors import DTypeError, ShapeError
from ..graph.node import apply
from ..graph.size_entries import as_dims, entries_of, settled_numbers
from ..graph.sized_results import reshaped_sizes
from ..graph.variable import Dims, Operand, Variable, describe, format_dims, fresh_dim

TargetShape = Operand | Sequence[int | Variable]


def shape_operand(shape: TargetShape) -> Variable:
    """Return a shape as int64 [rank], a constant where all of its sizes are known numbers.

    A Variable among the sizes is an integer: a scalar, or [1] as `size_of` gives it. What is known
    of the sizes, such as that one is the batch, is what `entries_of` says of the result.

    Raises:
        DTypeError: a size is no integer.
        ShapeError: a size is no single number.
    """
    given: Any = shape
    if isinstance(given, Variable):
        if given.dtype.kind not in "iu":
            raise DTypeError(f"sizes are integers, not {describe(given)}")
        return settled_numbers(_as_int64(given))
    if not isinstance(given, (list, tuple)) or not any(isinstance(d, Variable) for d in given):
        return whole(given)
    parts = [_vector(_size(d)) if isinstance(d, Variable) else whole([d]) for d in given]
    return settled_numbers(apply("Concat", *parts, axis=0))


def dims_of(shape: Variable) -> Dims:
    """Return the sizes of a shape [rank], with new names for those that are not known."""
    entries = entries_of(shape)
    if entries is not None:
        return as_dims(entries)
    return tuple([fresh_dim() for _ in range(int(shape.dims[0]))])


def reshape_operand(x: Variable, shape: TargetShape) -> tuple[Variable, bool]:
    """Return the shape of a Reshape of x, and whether a 0 in it is a size, no axis to be copied.

    A -1 becomes the size that it stands for where that is known: ONNX infers none beside a 0. Sizes
    that only runs know are sizes where they stand beside known ones, and may be 0.
    """
    target = shape_operand(shape)
    if not target.rank:
        target = _vector(target)
    entries = entries_of(target)
    if entries is None:
        return target, False
    settled = reshaped_sizes(x.dims, entries)
    if target.value is not None:
        return whole(_constant_sizes(x, entries, settled)), False
    if entries.count(-1) > 1:
        shown = format_dims(as_dims(entries))
        raise ShapeError(f"{shown} leaves several sizes to be inferred")
    if -1 in entries or 0 in entries:
        parts = [
            _part(x, target, k, d, size)
            for k, (d, size) in enumerate(zip(entries, settled, strict=True))
        ]
        target = apply("Concat", *parts, axis=0)
    return target, -1 not in entries or settled[entries.index(-1)] is not None


def _constant_sizes(x, entries, settled):
    """Sizes of a Reshape with one -1 for one name, or a 0 for the same axis of x."""
    names = [d for d in settled if isinstance(d, str)]
    alone = len(names) == 1 and None not in settled and 0 not in settled
    sizes = []
    for k, (given, size) in enumerate(zip(entries, settled, strict=True)):
        same = k < x.rank and size == x.dims[k]
        if isinstance(size, int) and size > 0:
            sizes.append(size)
        elif isinstance(size, str) and (alone or same):
            sizes.append(-1 if alone else 0)
        else:
            sizes.append(given)
    return sizes


def _part(x, target, k, given, size):
    """A size of a Reshape as int64 [1]."""
    if isinstance(size, int) or (given == -1 and size is None):
        return whole([-1 if size is None else size])
    if given in (0, -1):
        axis = k if given == 0 else x.dims.index(size)
        return apply("Shape", x, start=axis, end=axis + 1)
    parts = target.node.inputs if target.is_output_of("Concat") else ()
    if parts and all(p.dims == (1,) for p in parts):
        return parts[k]
    return apply("Slice", target, whole([k]), whole([k + 1]))


def whole_number(x: Operand, what: str) -> Variable:
    """Return an integer, a number or a Variable of one element, as an int64 scalar.

    `what` names it in errors.

    Raises:
        DTypeError: it is no integer.
        ShapeError: it has several elements.
    """
    x = x if isinstance(x, Variable) else whole(x)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"{what} is an integer, not {describe(x)}")
    if x.dims not in ((), (1,)):
        raise ShapeError(f"{what} is one number, not {describe(x)}")
    if x.value is not None:
        return whole(x.value.reshape(()))
    number = _as_int64(x)
    return settled_numbers(apply("Squeeze", number, whole([0])) if number.rank else number)


def _size(x):
    """A Variable that is one size."""
    if x.dtype.kind not in "iu":
        raise DTypeError(f"a size is an integer, not {describe(x)}")
    if x.dims not in ((), (1,)):
        raise ShapeError(f"a size is one number, not {describe(x)}")
    return x


def _as_int64(x: Variable) -> Variable:
    return x if x.dtype == np.int64 else apply("Cast", x, to=TensorProto.INT64)


def _vector(x):
    """A size as int64 [1]."""
    x = _as_int64(x)
    return x if x.rank == 1 else settled_numbers(apply("Unsqueeze", x, whole([0])))
