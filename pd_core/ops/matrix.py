"""Products of matrices."""

from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable
from .math import match_dtypes


@op
def matmul(a: Operand, b: Operand) -> Variable:
    """Matrix product [..., n, k] x [..., k, m] -> [..., n, m]; leading axes broadcast."""
    return apply("MatMul", *match_dtypes(a, b))


@op
def det(x: Operand) -> Variable:
    """Determinants of the matrices [..., n, n]."""
    return apply("Det", x)


@op
def einsum(equation: str, *inputs: Operand) -> Variable:
    """Sum of products in Einstein's notation: `"ij,jk->ik"` is the matrix product."""
    return apply("Einsum", *inputs, equation=equation)
