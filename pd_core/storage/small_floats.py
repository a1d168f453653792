"""Floats that NumPy lacks: bfloat16, and those of 8 bits, by the package ml_dtypes of onnx."""

from functools import cache

import numpy as np
from numpy.typing import DTypeLike

# of the names in files, in the format safetensors
_NAMES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
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
