"""Arrays as values of ONNX Runtime, those of bfloat16 too.

Its Python interface takes and returns arrays of NumPy's own types. The package ml_dtypes, which
comes with onnx, has arrays of bfloat16; their bits are handed over as those of unsigned integers.
"""

import ctypes
from math import prod
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto

from ..graph.errors import DTypeError


def is_bfloat16(dtype: np.dtype) -> bool:
    """Return whether an element type is bfloat16."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def ort_value(array: np.ndarray, kind: str = "cpu", number: int = 0) -> onnxruntime.OrtValue:
    """Return an array as a value on a device; on a CPU it shares the array's memory.

    DTypeError for bfloat16 on another device, which takes no bits of other types.
    """
    if not is_bfloat16(array.dtype):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, kind, number)
    if kind != "cpu":
        raise DTypeError(
            f"ONNX Runtime copies no arrays of bfloat16 to {kind}\n"
            "  hint: cast() a float32 one on the device"
        )
    bits = array.view(np.uint16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)


def empty_value(dims: Any, dtype: np.dtype, kind: str, number: int) -> onnxruntime.OrtValue:
    """Return a value of these sizes on a device, whose elements are not set."""
    own: Any = TensorProto.BFLOAT16 if is_bfloat16(dtype) else dtype
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(dims, own, kind, number)


def array_of(value: Any) -> np.ndarray:
    """Return a value as an array, which is a copy of bfloat16; else see `OrtValue.numpy`."""
    try:
        array: np.ndarray = value.numpy()
    except RuntimeError:
        if value.data_type() != "tensor(bfloat16)":
            raise
        array = _shared(value).copy()
    return array


def _shared(value):
    """A value of bfloat16 as an array on its memory, as long as that is there."""
    if value.device_name().lower() != "cpu":
        raise DTypeError(
            f"ONNX Runtime copies no arrays of bfloat16 from {value.device_name()}\n"
            "  hint: cast() it to float32 first"
        )
    from ml_dtypes import bfloat16

    shape = value.shape()
    if not prod(shape):
        return np.empty(shape, bfloat16)
    memory = (ctypes.c_uint16 * prod(shape)).from_address(value.data_ptr())
    return np.frombuffer(memory, np.uint16).reshape(shape).view(bfloat16)


def overwrite(value: onnxruntime.OrtValue, array: np.ndarray) -> None:
    """Write an array of its type and shape into a value."""
    if is_bfloat16(array.dtype):
        _shared(value)[...] = array
    else:
        value.update_inplace(array)
