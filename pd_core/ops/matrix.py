"""Products of matrices."""

from ..graph.node import apply
from ..graph.variable import provide
from .math import _pair


def matmul(a, b):
    """Matrix product [..., n, k] x [..., k, m] -> [..., n, m]; leading axes broadcast."""
    return apply("MatMul", *_pair(a, b))


def det(x):
    """Determinants of the matrices [..., n, n]."""
    return apply("Det", x)


def einsum(equation, *inputs):
    """The sum of products that an equation names (Einstein's convention), `"ij,jk->ik"`."""
    return apply("Einsum", *inputs, equation=equation)


provide(matmul=matmul)
