"""Small whole numbers as bytes: a quarter of the memory traffic on a CPU.

Masks with a rank for each element, by which the gradient of a max pooling finds its winners, are
such numbers. CUDA and WebGPU have no kernels for arithmetic on bytes.
"""

import numpy as np

from ...node import apply
from ...rewrite import is_output_of
from ...variable import constant

_FLOAT32, _UINT8 = 1, 2


def in_bytes(node, inputs):
    """Products of masks and numbers, their maxima, and what is compared with such, enlarged."""
    if node.outputs[0].dtype == np.float32 and len(inputs) == 2:
        return _RULES.get(node.op_type, lambda a, b: None)(*inputs)
    return _equal(*inputs) if node.op_type == "Equal" else None


def _product(mask, number):
    """A byte where the mask holds, else 0."""
    held, number = _held(mask), _as_bytes(number)
    if held is None or held.dtype != np.bool_ or number is None:
        return None
    return _as_floats("Mul", apply("Cast", held, to=_UINT8), number)


def _maximum(a, b):
    bytes_of = [_as_bytes(v) for v in (a, b)]
    if any(v is None for v in bytes_of) or all(v.value is not None for v in bytes_of):
        return None
    return _as_floats("Max", *bytes_of)


def _equal(a, enlarged):
    """Bytes against what was copied to more elements, or pooled from bytes before that."""
    if a.dtype != np.float32 or not is_output_of(enlarged, "Resize"):
        return None
    resize = enlarged.node
    small, *rest = resize.inputs
    number = _as_bytes(a)
    small = _pooled_bytes(small) if is_output_of(small, "MaxPool") else _as_bytes(small)
    if number is None or small is None or resize.attributes.get("mode") != "nearest":
        return None
    enlarged = apply("Resize", small, *rest, known=enlarged.dims, **resize.attributes)
    return (apply("Equal", number, enlarged),)


def _pooled_bytes(x):
    return None if _as_bytes(x.node.inputs[0]) is None else apply("Cast", x, to=_UINT8)


def _as_floats(op_type, *inputs):
    return (apply("Cast", apply(op_type, *inputs), to=_FLOAT32),)


def _as_bytes(x):
    """The bytes that x holds as float32, or None."""
    if x.value is not None:
        is_number = x.dtype == np.float32 and x.value.size
        return constant(x.value.astype(np.uint8)) if is_number and _are_bytes(x.value) else None
    held = _held(x)
    if held is None or held.dtype == np.uint8:
        return held
    return apply("Cast", held, to=_UINT8)


def _are_bytes(value):
    return bool(((value >= 0) & (value <= 255) & (value == np.floor(value))).all())


def _held(x):
    """The mask or bytes that x holds as float32; None if it holds other numbers."""
    if not is_output_of(x, "Cast") or x.dtype != np.float32:
        return None
    (source,) = x.node.inputs
    return source if source.dtype in (np.bool_, np.uint8) else None


_RULES = {"Mul": _product, "Max": _maximum}
