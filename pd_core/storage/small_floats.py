"""Floats that NumPy lacks: bfloat16, and those of 8 bits, by the package ml_dtypes of onnx."""

from functools import cache

import numpy as np
from numpy.typing import DTypeLike

from ..graph.errors import DTypeError

# of the names in files, in the format safetensors
_NAMES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


@cache
def small_floats() -> dict[str, np.dtype]:
    """Return {name in the format safetensors: dtype}."""
    import ml_dtypes  # comes with onnx; of the processes that have such files

    return {key: np.dtype(getattr(ml_dtypes, name)) for key, name in _NAMES.items()}


def is_small_float(dtype: np.dtype) -> bool:
    """Return whether a dtype is one of them, without an import of their package."""
    return dtype.name in _NAMES.values()


def is_float(dtype: np.dtype) -> bool:
    """Return whether a dtype is one of floats, of NumPy or of these."""
    return dtype.kind == "f" or is_small_float(dtype)


def widened(array: np.ndarray) -> np.ndarray:
    """Return an array of these floats as float32, which has all of them; another one as it is."""
    return array.astype(np.float32) if is_small_float(array.dtype) else array


def dtype_named(name: DTypeLike) -> np.dtype:
    """Return the dtype of a name, `"bfloat16"` too; TypeError if there is none."""
    if isinstance(name, str) and name in _NAMES.values():
        return next(dtype for dtype in small_floats().values() if dtype.name == name)
    return np.dtype(name)


def rounded(label: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return floats as another float type; DTypeError for a value that it does not have.

    `label` begins its message.
    """
    value = exceeding(array, dtype)
    if value is not None:
        raise DTypeError(f"{label} has {value:g}, which {dtype} does not hold")
    return array.astype(dtype, copy=False)


def exceeding(array: np.ndarray, dtype: np.dtype) -> float | None:
    """Return the largest value that another float type does not hold, or None.

    Such are numbers beyond its largest one, and what becomes NaN: infinity in some types of 8 bits,
    and in one of them zero and numbers below.
    """
    if np.can_cast(array.dtype, dtype) or not array.size:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    lost = ~np.isfinite(cast)
    if not lost.any():
        return None
    left = array[lost]
    left = left[np.isfinite(left) | (np.isinf(left) & np.isnan(cast[lost]))].astype(np.float64)
    return float(left[np.argmax(np.abs(left))]) if left.size else None
