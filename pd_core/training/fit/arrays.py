"""Arrays that a user gives to a training, checked: types, numbers of samples, labels."""

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from ...graph.arrays import host_array
from ...graph.errors import DTypeError, ShapeError
from ...layers.layer import Layer

_HINT = "  hint: a reader gives batches of arrays, not samples"
Arrays = dict[str, np.ndarray]  # by what errors call them: x, or x[0] and x[1]


def is_array(data: Any) -> bool:
    """Whether data is an array, or several of them, rather than a reader."""
    # data sets of samples have a shape, too
    is_one = hasattr(data, "shape") and (hasattr(data, "dtype") or hasattr(data, "__array__"))
    return is_one or len(columns(data)) > 1


def checked(who: str, parts: Mapping[str, Any], inputs: Container[str] = ("x",)) -> Arrays:
    """Return the arrays of all parts by name, after a check of their types, lengths and labels.

    Only in `inputs` a sample may be NaN.
    """
    arrays: Arrays = {}
    for part, data in parts.items():
        given = columns(data)
        for k, column in enumerate(given):
            name = part if len(given) == 1 else f"{part}[{k}]"
            arrays[name] = _checked_array(who, name, column, part in inputs)
    sizes = {len(a) for a in arrays.values()}
    shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
    if len(sizes) > 1:
        raise ShapeError(f"{who}: different numbers of samples: {shapes}")
    if sizes == {0}:
        raise ShapeError(f"{who}: there are no samples: {shapes}")
    return arrays


def float_type(layer: Layer) -> np.dtype:
    """Return the type that floats are fed to a layer in: float64 if its parameters are that."""
    types = {v.dtype for v in layer.parameters() if v.dtype.kind == "f"}
    return np.dtype(np.float64 if types == {np.dtype(np.float64)} else np.float32)


def columns(data: Any) -> list[Any]:
    """Return several arrays, or one that may be a nested list of numbers."""
    is_several = isinstance(data, (tuple, list)) and all(getattr(a, "shape", ()) for a in data)
    return list(data) if is_several and data else [data]


def _checked_array(who, name, data, is_input):
    try:
        array = host_array(data)
    except DTypeError as error:
        raise DTypeError(f"{who}: {name}: {error}") from None
    except ValueError as error:
        raise ShapeError(f"{who}: {name} is no array: {error}\n{_HINT}") from None
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{who}: {name} holds {array.dtype} values, which are no numbers")
    if not array.ndim:
        raise ShapeError(
            f"{who}: {name} is the number {array}, the samples are along the first axis of arrays\n"
            f"{_HINT}"
        )
    if not is_input and array.dtype.kind == "f":
        rows = np.isnan(array).any(tuple(range(1, array.ndim)))
        if rows.any():
            raise ValueError(
                f"{who}: {name} {array.shape} is nan in {rows.sum()} of {len(rows)} samples"
            )
    return array
