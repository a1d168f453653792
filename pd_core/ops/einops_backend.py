"""Variables in einops: `rearrange`, `reduce`, `repeat`, `einsum`, `pack` and `unpack` take them.

einops asks each subclass of its AbstractBackend whether a tensor is its own. This module is
imported when einops is, before this package or after it.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from einops._backends import AbstractBackend

from ..graph.node import apply
from ..graph.variable import Dims, Variable, constant, fresh_dim
from . import copies, matrix
from . import shape as shapes


class Size:
    """A size known at run time, in einops' arithmetic of sizes: int64[1], and its name if any.

    It is not hashable, so that einops does not keep it in its caches.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Variable, dim: str | None = None):
        self.value, self.dim = value, dim

    def __mul__(self, other: Any) -> "Size":
        return self if _is_one(other) else Size(self.value * _value(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> "Size":
        return self if _is_one(other) else Size(self.value // _value(other))

    def __rfloordiv__(self, other: Any) -> "Size":
        return Size(_value(other) // self.value)

    def __radd__(self, other: Any) -> NoReturn:
        raise TypeError(
            "unpack: cuts an axis into parts whose sizes are known only at run time\n"
            "  hint: pd.slice takes bounds that are Variables, or use values at hand"
        )

    def __repr__(self) -> str:
        return "?"


def _is_one(size):
    return isinstance(size, int) and size == 1


def _value(size: Any) -> Variable:
    """A size as int64[1]."""
    if isinstance(size, Size):
        return size.value
    if isinstance(size, Variable):
        return shapes.reshape(size, [1])
    return constant(np.array([size], np.int64))


def sizes_of(x: Variable) -> tuple[int | Size, ...]:
    """Return the sizes of a Variable, Sizes where they are known only at run time."""
    known = zip(x.shape, x.dims, strict=True)
    return tuple(
        [
            Size(shapes.size_of(x, k), d if isinstance(d, str) else None) if n is None else n
            for k, (n, d) in enumerate(known)
        ]
    )


def reshaped(x: Variable, sizes: Sequence[Any]) -> Variable:
    """Return x with other sizes, some of which may be Sizes or Variables."""
    unknown = [k for k, d in enumerate(sizes) if not isinstance(d, (int, np.integer))]
    if len(unknown) == 1 and -1 not in sizes:
        return shapes.reshape(x, [-1 if k in unknown else d for k, d in enumerate(sizes)])
    if all(k < x.rank and getattr(sizes[k], "dim", None) == x.dims[k] for k in unknown):
        return shapes.reshape(x, [0 if k in unknown else d for k, d in enumerate(sizes)])
    dims: Dims = tuple(
        [
            getattr(d, "dim", None) or fresh_dim() if k in unknown or d == -1 else d
            for k, d in enumerate(sizes)
        ]
    )
    # a size that is 0 is no axis to be copied
    return apply("Reshape", x, _shape(sizes), known=dims, allowzero=1)


def _shape(sizes: Sequence[Any]) -> Any:
    """Sizes as numbers, or as int64[n]."""
    if all(isinstance(d, (int, np.integer)) for d in sizes):
        return list(sizes)
    return shapes.concat([_value(d) for d in sizes])


class PdBackend(AbstractBackend):
    """The backend of einops for Variables."""

    framework_name = "pd_core"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Variable)

    def from_numpy(self, x: np.ndarray) -> Variable:
        return constant(x)

    def to_numpy(self, x: Variable) -> np.ndarray:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Variable:
        return constant(np.arange(start, stop))

    def shape(self, x: Variable) -> tuple[int | Size, ...]:
        return sizes_of(x)

    def reshape(self, x: Variable, shape: Sequence[Any]) -> Variable:
        return reshaped(x, shape)

    def transpose(self, x: Variable, axes: Sequence[int]) -> Variable:
        return shapes.transpose(x, list(axes))

    def stack_on_zeroth_dimension(self, tensors: Sequence[Variable]) -> Variable:
        return copies.stack(tensors)

    def add_axis(self, x: Variable, new_position: int) -> Variable:
        return shapes.unsqueeze(x, new_position)

    def tile(self, x: Variable, repeats: Sequence[Any]) -> Variable:
        return copies.tile(x, _shape(repeats))

    def concat(self, tensors: Sequence[Variable], axis: int) -> Variable:
        return shapes.concat(tensors, axis)

    def is_float_type(self, x: Variable) -> bool:
        return x.dtype.kind == "f"

    def einsum(self, pattern: str, *x: Variable) -> Variable:
        return matrix.einsum(pattern, *x)
