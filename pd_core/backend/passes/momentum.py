"""Steps of a matrix whose gradient is a product, in fewer passes over the matrix."""

from ...graph.node import apply
from ...graph.rewrite import is_output_of


class MomentumGemm:
    """The rule that makes c v - rate (a b) one Gemm, c v + a (-rate b), and so with a b + c' w.

    c is the momentum, or 1 where there is none. It costs a pass over b, so b must not be larger
    than the product: `sizes` are run-time sizes seen so far. `uses` counts who reads a variable.
    """

    def __init__(self, sizes, uses):
        self.sizes, self.uses = sizes, uses

    def __call__(self, node, inputs):
        if node.op_type != "Sub" or inputs != node.inputs:
            return None
        kept, moved = map(_scaled, inputs)
        if moved is None or not self._alone(inputs[1], moved[0]):
            return None
        v, c = inputs[0], 1.0
        if kept is not None and kept[1].value is not None:
            v, c = kept[0], float(kept[1].value)
        g, rate = moved
        product, penalty = self._parts(g)
        if product is None or v.dims != product.dims:
            return None
        a, b = product.node.inputs
        if product.dtype != "float32" or not self._is_small(b, product):
            return None
        moved = _gemm(a, apply("Mul", b, apply("Neg", rate)), v, c)
        return (moved if penalty is None else apply("Sub", moved, _times(penalty, rate)),)

    def _parts(self, g):
        """(product, None), (product, what is added to it) or (None, None)."""
        if is_output_of(g, "MatMul"):
            return g, None
        if is_output_of(g, "Add"):
            for product, other in (g.node.inputs, g.node.inputs[::-1]):
                if is_output_of(product, "MatMul") and self._alone(product):
                    return product, other
        return None, None

    def _alone(self, *variables):
        return all(self.uses[x] == 1 for x in variables)

    def _is_small(self, b, product):
        rows = self.sizes.get(b.dims[0], b.dims[0])
        return b.rank == 2 and isinstance(rows, int) and rows <= product.dims[0]


def _scaled(x):
    """(matrix, number) where x is their product, else None."""
    if not is_output_of(x, "Mul"):
        return None
    ordered = sorted(x.node.inputs, key=lambda v: -v.rank)
    return ordered if [v.rank for v in ordered] == [2, 0] else None


def _times(x, rate):
    """x rate, in one pass if x is a number times a matrix."""
    scaled = _scaled(x)
    if scaled is None:
        return apply("Mul", x, rate)
    return apply("Mul", scaled[0], apply("Mul", scaled[1], rate))


def _gemm(a, b, v, c):
    """a b + c v."""
    turned = is_output_of(a, "Transpose")
    a = a.node.inputs[0] if turned else a
    return apply("Gemm", a, b, v, transA=int(turned), beta=c, known=v.dims)
