"""Placeholders: inputs that are declared before there are values for them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.errors import NotComputed, ShapeError
from ..graph.recording import recorder
from ..graph.site import site_text, user_site
from ..graph.variable import Shape, Variable, as_dim
from ..run.feeds import feed_array


class Placeholder(Variable):
    """A feed slot that may be filled: a shape, with None where any size will do, and a dtype.

    Inside `pd.guard()` it has the value that `copy_from` took last; it needs no memory before.
    Outside it is a feed slot, filled or not. `name` is that of the input in exported models.
    """

    _array: np.ndarray | None = None
    _leaf: Variable | None = None  # stands for the value in recorded graphs

    def __init__(
        self, shape: Shape, dtype: DTypeLike = "float32", name: str = "placeholder"
    ) -> None:
        if not isinstance(shape, (list, tuple)):
            raise ShapeError(f"placeholder: a shape is a list or tuple of sizes, not {shape!r}")
        attributes = self.__dict__
        attributes["dims"] = tuple([as_dim(name, d) for d in shape])
        attributes["dtype"], attributes["name"] = np.dtype(dtype), name
        self.site = user_site()

    def copy_from(self, value: ArrayLike) -> None:
        """Take a copy of an array as the value, from this line on; ShapeError if it does not fit.

        The gradient of the value before is forgotten.
        """
        self._array, self._leaf = np.array(feed_array(self, value)), None

    def filled(self, recording: Any) -> Variable:
        """Return the Variable that stands for the value in a recorded graph."""
        array = self._filled_array()
        if self._leaf is None:
            self._leaf = recording.leaf(array, self.dtype, copy=False)
        self._leaf.__dict__["tracked"] = self.tracked
        return self._leaf

    def _filled_array(self) -> np.ndarray:
        if self._array is None:
            raise NotComputed(
                f"{self!r}, created at {site_text(self.site)}, has no value\n"
                "  hint: copy_from() gives it one"
            )
        return self._array

    @property
    def has_value(self) -> bool:
        """Whether its value is at hand: it is filled, and this is inside `pd.guard()`."""
        return self._array is not None and recorder() is not None

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes as declared; inside `pd.guard()` those of the value."""
        array = self._array
        return super().shape if array is None or recorder() is None else array.shape

    def numpy(self) -> np.ndarray:
        """Return a copy of the value; NotComputed if it is not filled."""
        return self._filled_array().copy()

    def gradient(self) -> np.ndarray | None:
        """Return the sum of the gradients of the value since it was cleared; None without any."""
        return None if self._leaf is None else self._leaf.gradient()

    def clear_gradient(self) -> None:
        """Forget the gradient."""
        if self._leaf is not None:
            self._leaf.clear_gradient()
