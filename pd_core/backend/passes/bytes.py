"""Small whole numbers as bytes: a quarter of the memory traffic on a CPU.

Masks with a rank for each element, by which the gradient of a max pooling finds its winners, are
such numbers. CUDA and WebGPU have no kernels for arithmetic on bytes.
"""

import numpy as np

from ...graph.node import apply
from ...graph.rewrite import is_output_of
from ...graph.variable import constant

_MOST = 255
_FLOAT32, _UINT8 = 1, 2


def in_bytes(node, inputs):
    """Products of masks and numbers, sums of such, and what is compared with them, enlarged."""
    if node.outputs[0].dtype == np.float32 and len(inputs) == 2:
        return _RULES.get(node.op_type, lambda a, b: None)(*inputs)
    return _equal(*inputs) if node.op_type == "Equal" else None


def _product(mask, number):
    """A byte where the mask holds, else 0."""
    held, number = _held(mask), _as_bytes(number)
    if held is None or held.dtype != np.bool_ or number is None:
        return None
    return _as_floats("Mul", apply("Cast", held, to=_UINT8), number)


def _sum(product, number):
    """The sum of a masked product and a constant, as uint8, if it cannot overflow; else None."""
    held, number = _held(product), _as_bytes(number)
    if held is None or number is None or number.value is None or not is_output_of(held, "Mul"):
        return None
    factor = held.node.inputs[1].value
    if factor is None or int(factor.max()) + int(number.value.max()) > _MOST:
        return None
    return _as_floats("Add", held, number)


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
        return constant(x.value.astype(np.uint8)) if _fit(x.value) else None
    held = _held(x)
    if held is None or held.dtype == np.uint8:
        return held
    return apply("Cast", held, to=_UINT8)


def _fit(value):
    """Whether all numbers are bytes."""
    if value.dtype != np.float32 or not value.size or not (value >= 0).all():
        return False
    return value.max() <= _MOST and np.array_equal(value, np.floor(value))


def _held(x):
    """The mask or bytes that x holds as float32; None if it holds other numbers."""
    if not is_output_of(x, "Cast") or x.dtype != np.float32:
        return None
    (source,) = x.node.inputs
    return source if source.dtype in (np.bool_, np.uint8) else None


_RULES = {"Mul": _product, "Add": _sum}
