"""Values that are loaded into variables: as arrays, and all of them that do not fit."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..graph.arrays import host_array, represents
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.misfits import Misfits
from ..graph.variable import Variable
from ..storage.small_floats import exceeding, is_float, widened


class Loading:
    """The mismatches between values and parameters, collected for one error that lists them.

    `who` begins its message.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        self.wrong: list[tuple[type[GraphError], str]] = []

    def add(self, kind: type[GraphError], text: str) -> None:
        """Note that something is wrong, unless the text is empty."""
        if text:
            self.wrong.append((kind, text))

    def numbers(self, name: str, value: ArrayLike) -> np.ndarray | None:
        """Return a copy of a value as an array of numbers, bfloat16 and the like as float32.

        It may be a tensor of PyTorch on any device. None, and a note, for what holds no numbers.
        """
        if np.ma.is_masked(value):
            self.add(DTypeError, f"the value of {name} has masked elements, which are no numbers")
            return None
        try:
            array = widened(np.array(host_array(value)))
        except (TypeError, ValueError, RuntimeError) as error:
            self.add(DTypeError, f"{name!r} cannot be read as an array: {error}")
            return None
        if array.dtype.kind not in "fiub":
            self.add(DTypeError, f"the value of {name} is {array.dtype}, not numbers")
            return None
        return array

    def check(self, v: Variable, array: np.ndarray, name: str) -> None:
        """Note whether an array is none that a variable takes."""
        self.add(ShapeError, shape_text(v.name, array, v.dims, name))
        text = unfit(v, array)
        if text:
            text = (
                f"{v.name}: a value of {text} is loaded, it is {v.dtype} ({name!r} of the values)"
            )
        self.add(DTypeError, text)

    def check_twin(self, name: str, array: np.ndarray, first: str, before: np.ndarray) -> None:
        """Note whether two values of one variable differ."""
        if not same(array, before):
            self.add(GraphError, f"{first!r} and {name!r} are one parameter here, and differ")

    def raise_error(self, misfits: Misfits, known: Iterable[str] = (), hint: str = "") -> None:
        """Raise an error that has all that is wrong, and names that do not fit; else return.

        ShapeError if a shape is, else DTypeError if a dtype is, else GraphError.
        """
        kinds = [kind for kind, _ in self.wrong]
        names = f"{misfits.text(self.who, known)}\n{hint}" if any(misfits) else ""
        if not kinds:
            if names:
                raise GraphError(names)
            return
        kind = next((k for k in (ShapeError, DTypeError) if k in kinds), GraphError)
        first, *rest = [text for _, text in self.wrong]
        names = names.replace(f"{self.who}: ", "  ", 1)
        raise kind(
            "\n".join([f"{self.who}: {first}", *[f"  {text}" for text in rest], names]).rstrip()
        )


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays are equal, NaN to NaN."""
    is_both = a.dtype.kind == "f" and b.dtype.kind == "f"
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=is_both)


def check_shape(name: str, value: np.ndarray, shape: Iterable[Any]) -> None:
    """Check that a loaded value has the shape of its variable."""
    text = shape_text(name, value, shape)
    if text:
        raise ShapeError(text)


def shape_text(name: str, value: np.ndarray, shape: Iterable[Any], origin: str = "") -> str:
    """Return what an error says of a value of another shape than its variable, or nothing."""
    wanted = tuple(shape)
    if value.shape == wanted:
        return ""
    text = f"{name}: a value of {list(value.shape)} is loaded, it is {list(wanted)}"
    text += ", as its transpose" if value.T.shape == wanted else ""
    return text + (f" ({origin!r} of the values)" if origin else "")


def unfit(v: Variable, array: np.ndarray) -> str:
    """Return the dtype or number of an array that a variable does not take, or nothing."""
    if is_float(v.dtype):
        largest = exceeding(array, v.dtype)
        return "" if largest is None else f"{largest:g}"
    is_unfit = (is_float(array.dtype) and array.size) or not represents(array, v.dtype)
    return str(array.dtype) if is_unfit else ""
