"""Arrays of numbers from what users pass."""

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .errors import DTypeError

_RANKS = {"b": 0, "i": 1, "u": 1}
_TENSORS = {f"torch.float{bits}" for bits in (16, 32, 64)}  # that NumPy has, too


_UNKNOWN_SIZE = (
    "a None of x.shape is a size that only evaluations know; "
    "pd.shape_of(x) has all of them, pd.size_of(x, axis) one"
)
_MASKED = "masked elements, which have no value"
_OF_VARIABLES = "pd.stack joins Variables and numbers"


def native(dtype: DTypeLike) -> np.dtype:
    """Return an element type in this machine's order of bytes, the only one that runtimes read."""
    dtype = np.dtype(dtype)  # where it is that already, the same object: feeds are compared with it
    return dtype if dtype.isnative else np.dtype(dtype.newbyteorder("=").str)


def host_array(value: Any) -> np.ndarray:
    """Return a value as an array: what NumPy makes of it, and any of PyTorch's dense tensors.

    Those may require gradients, be on another device, and be views that change signs; bfloat16 and
    floats of 8 bits become float32. Bytes in another order, as some files have them, are swapped;
    DTypeError if elements are masked.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise _dtype_error(None, value, _MASKED)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        if value.is_floating_point() and str(value.dtype) not in _TENSORS:
            value = value.float()
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(native(array.dtype))


def as_array(value: ArrayLike, dtype: DTypeLike | None = None, label: str = "") -> np.ndarray:
    """Copy a value into an array of numbers; DTypeError where the dtype would change them.

    Rounding to another float type does not count as a change; without a dtype, float64 becomes
    float32. `label` begins the message of an error.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise _dtype_error(label, value, _MASKED)
    try:
        array = host_array(value)
    except DTypeError:  # of a Variable among them
        raise _dtype_error(label, value, "Variables in a list", _OF_VARIABLES) from None
    except ValueError:
        raise _dtype_error(label, value, "rows of different lengths") from None
    if array.dtype == object and None in array.reshape(-1).tolist():
        raise _dtype_error(label, value, "None", _UNKNOWN_SIZE)
    if array.dtype.kind not in "fiub" and not is_float(array.dtype):
        raise _dtype_error(label, value, f"{array.dtype} values")
    if dtype is None:
        dtype = np.float32 if array.dtype == np.float64 else array.dtype
    dtype = native(dtype)
    if not represents(array, dtype):
        raise _dtype_error(label, value, f"{array.dtype} values where {dtype} is needed")
    return np.array(array, dtype, order="C")


def rank_of(dtype: np.dtype) -> int:
    """Return the rank of a kind in promotions: bools, integers, floats."""
    return 2 if is_float(dtype) else _RANKS.get(dtype.kind, 0)


def is_float(dtype: np.dtype) -> bool:
    """Return whether an element type is one of floats, bfloat16 among them, which NumPy lacks."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def common_dtype(a: np.dtype, b: np.dtype) -> np.dtype | None:
    """Return the dtype that both become where they meet: of the higher kind, or the wider one.

    None for uint64 beside signed integers: no integer type holds both.
    """
    if rank_of(a) != rank_of(b):
        return a if rank_of(a) > rank_of(b) else b
    dtype = np.promote_types(a, b)
    return dtype if rank_of(dtype) == rank_of(a) else None


def _dtype_error(
    label: str | None, value: object, what: object, hint: str | None = None
) -> DTypeError:
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:60]}…"
    text = f"{label or ''}{': ' if label else ''}cannot take {what}, {text}"
    return DTypeError(text if hint is None else f"{text}\n  hint: {hint}")


def represents(array: np.ndarray, dtype: np.dtype) -> bool:
    """Return whether a dtype holds the values of an array exactly; floats may be rounded."""
    if is_float(dtype) or np.can_cast(array.dtype, dtype):
        return True
    with np.errstate(invalid="ignore"):  # NaN is no integer
        return bool((array.astype(dtype) == array).all())
