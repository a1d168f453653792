"""Gradients of Variables, as `backward()` leaves them."""

from typing import Any

import numpy as np

from ..graph.variable import Variable, static


class Gradient:
    """The gradient of a Variable: values on the device, of some rows if it is row-sparse."""

    __slots__ = ("rows", "values")

    def __init__(self, *parts: Any) -> None:
        *rows, self.values = parts
        self.rows = rows[0] if rows else None

    def numpy(self, v: Variable) -> np.ndarray:
        """Return the gradient in the shape of its Variable."""
        values = as_host(self.values)
        if self.rows is None:
            return values
        whole = np.zeros(static(v.dims), values.dtype)
        np.add.at(whole, as_host(self.rows), values)
        return whole

    def plus(self, other: "Gradient", v: Variable) -> "Gradient":
        """Return the sum of two gradients of a Variable."""
        if self.rows is None and other.rows is None:
            # NumPy returns the sum of two scalars as a number
            return Gradient(np.asarray(as_host(self.values) + as_host(other.values)))
        if self.rows is None or other.rows is None:
            return Gradient(self.numpy(v) + other.numpy(v))
        rows = np.concatenate([as_host(self.rows), as_host(other.rows)])
        values = np.concatenate([as_host(self.values), as_host(other.values)])
        distinct, inverse = np.unique(rows, return_inverse=True)
        sums = np.zeros((len(distinct), *values.shape[1:]), values.dtype)
        np.add.at(sums, inverse, values)
        return Gradient(distinct, sums)


def as_host(value: Any) -> np.ndarray:
    """Return a value on the device as an array."""
    return value if isinstance(value, np.ndarray) else value.numpy()
