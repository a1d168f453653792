"""Products of matrices."""

import numpy as np

from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant
from .math import cast
from .promotion import match_dtypes


@op
def matmul(a: Operand, b: Operand) -> Variable:
    """Matrix product [..., n, k] x [..., k, m] -> [..., n, m]; leading axes broadcast.

    Integers keep their dtype and wrap around, as those of `*` and `+`.

    Args:
        a: numbers [..., n, k], or a vector [k].
        b: numbers [..., k, m], or a vector [k].

    Raises:
        DTypeError: an operand is bool or text, or the dtypes differ.
        ShapeError: the inner sizes differ, or the others do not broadcast.
    """
    a, b = (constant(v) for v in match_dtypes(a, b))
    if a.dtype == b.dtype and a.dtype.kind in "iu" and a.dtype.itemsize < 4:  # ONNX has none
        return cast(apply("MatMul", cast(a, np.int32), cast(b, np.int32)), a.dtype)
    return apply("MatMul", a, b)


@op
def det(x: Operand) -> Variable:
    """Determinants of the matrices [..., n, n].

    Args:
        x: floats [..., n, n].

    Returns:
        [...], of the dtype of x.

    Raises:
        DTypeError: x is no float.
        ShapeError: the matrices are not square.
    """
    return apply("Det", x)


@op
def einsum(equation: str, *inputs: Operand) -> Variable:
    """Sum of products in Einstein's notation: `"ij,jk->ik"` is the matrix product.

    Args:
        equation: terms of letters with commas between, and the result behind `->`.
        inputs: Variables or arrays, one for each term.

    Raises:
        ShapeError: an operand does not fit its term.
    """
    return apply("Einsum", *inputs, equation=equation)
