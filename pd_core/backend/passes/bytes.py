"""Small whole numbers as bytes: a quarter of the memory traffic on a CPU.

The gradient of a max pooling finds its winners by masks with a rank for each element, which are
such numbers. CUDA and WebGPU have no kernels for arithmetic on bytes.
"""

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.rewrite import is_output_of
from ...graph.variable import Inputs, constant
from .context import Context, Outputs

_MOST = 255


def in_bytes(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Compute with bytes: a mask times a number, such a product plus a number, and a comparison
    of either with its upsampled maximum.
    """
    if node.outputs[0].dtype == np.float32 and len(inputs) == 2:
        return _RULES.get(node.op_type, lambda a, b: None)(*inputs)
    return _equal(*inputs) if node.op_type == "Equal" else None


def _product(mask, number):
    """The number as a byte where the mask holds, else 0."""
    mask = _source_of_cast(mask)
    if mask is None or mask.dtype != np.bool_:
        return None
    number = _as_bytes(number)
    if number is None:
        return None
    return (ops.cast(ops.cast(mask, np.uint8) * number, np.float32),)


def _sum(product, number):
    """The sum of a masked product and a constant, as uint8, if it cannot overflow; else None."""
    product = _source_of_cast(product)
    number = None if product is None else _as_bytes(number)
    if product is None or number is None or number.value is None:
        return None
    factor = product.node.inputs[1].value if is_output_of(product, "Mul") else None
    if factor is None or int(factor.max()) + int(number.value.max()) > _MOST:
        return None
    return (ops.cast(product + number, np.float32),)


def _equal(a, upsampled):
    """Bytes compared with their upsampled values, which may have been pooled before that."""
    if a.dtype != np.float32 or not is_output_of(upsampled, "Resize"):
        return None
    resize = upsampled.node
    small, *rest = resize.inputs
    number = _as_bytes(a)
    small = _pooled_bytes(small) if is_output_of(small, "MaxPool") else _as_bytes(small)
    if number is None or small is None or resize.attributes.get("mode") != "nearest":
        return None
    upsampled = apply("Resize", small, *rest, known=upsampled.dims, **resize.attributes)
    return (ops.equal(number, upsampled),)


def _pooled_bytes(x):
    return None if _as_bytes(x.node.inputs[0]) is None else ops.cast(x, np.uint8)


def _as_bytes(x):
    """The bytes that x holds as float32, or None."""
    if x.value is not None:
        return constant(x.value.astype(np.uint8)) if _fits(x.value) else None
    source = _source_of_cast(x)
    return None if source is None else ops.cast(source, np.uint8)


def _fits(value):
    """Whether all numbers are bytes."""
    if value.dtype != np.float32 or not value.size or not (value >= 0).all():
        return False
    return value.max() <= _MOST and np.array_equal(value, np.floor(value))


def _source_of_cast(x):
    """The mask or bytes that x holds as float32; None if it holds other numbers."""
    if not is_output_of(x, "Cast") or x.dtype != np.float32:
        return None
    (source,) = x.node.inputs
    return source if source.dtype in (np.bool_, np.uint8) else None


_RULES = {"Mul": _product, "Add": _sum}
BYTEWISE = ("Mul", "Add", "Equal")  # the operators of `in_bytes`
