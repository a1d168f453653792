"""Updates of a matrix whose gradient is a product, in fewer passes over the matrix."""

from ...graph.node import Node, apply
from ...graph.rewrite import is_output_of
from ...graph.size_reads import at_most, holds
from ...graph.variable import Inputs
from .context import Context, Outputs


def momentum_gemm(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Replace c v - rate (a b) by one Gemm, c v + a (-rate b); so too with a b + c' w.

    c is the momentum, or 1 where there is none. It costs a pass over b, so b must not be larger
    than the product.
    """
    if node.op_type != "Sub" or inputs != node.inputs:
        return None
    momentum, step = map(_scaled, inputs)
    if step is None or not _read_once(context, inputs[1], step[0]):
        return None
    v, c = inputs[0], 1.0
    if momentum is not None and momentum[1].value is not None:
        v, c = momentum[0], float(momentum[1].value)
    gradient, rate = step
    product, penalty = _summands(context, gradient)
    if product is None or v.symbolic_dims != product.symbolic_dims:
        return None
    a, b = product.node.inputs
    if product.dtype != "float32" or not _is_small(context, b, product):
        return None
    updated = _gemm(a, b * -rate, v, c)
    return (updated if penalty is None else updated - _times(penalty, rate),)


def _summands(context, gradient):
    """(product, None), (product, what is added to it) or (None, None)."""
    if is_output_of(gradient, "MatMul"):
        return gradient, None
    if is_output_of(gradient, "Add"):
        a, b = gradient.node.inputs
        for product, other in ((a, b), (b, a)):
            if is_output_of(product, "MatMul") and _read_once(context, product):
                return product, other
    return None, None


def _read_once(context, *variables):
    return all(context.uses[x] == 1 for x in variables)


def _is_small(context, b, product):
    """Whether b has at most as many rows as the product; its columns are the same number."""
    dim, most = b.symbolic_dims[0], product.symbolic_dims[0]
    if b.rank != 2 or not isinstance(most, int):
        return False
    if isinstance(dim, int):
        return holds(lambda rows, most: rows <= most, [dim, most])
    rows = context.size(dim)
    return rows is not None and not at_most([most], rows - 1)


def _scaled(x):
    """(matrix, number) where x is their product, else None."""
    if not is_output_of(x, "Mul"):
        return None
    ordered = sorted(x.node.inputs, key=lambda v: -v.rank)
    return ordered if [v.rank for v in ordered] == [2, 0] else None


def _times(x, rate):
    """x rate, in one pass if x is a number times a matrix."""
    scaled = _scaled(x)
    return x * rate if scaled is None else scaled[0] * (scaled[1] * rate)


def _gemm(a, b, v, c):
    """a b + c v."""
    transposed = is_output_of(a, "Transpose")
    a = a.node.inputs[0] if transposed else a
    return apply("Gemm", a, b, v, transA=int(transposed), beta=c, known=v.symbolic_dims)
