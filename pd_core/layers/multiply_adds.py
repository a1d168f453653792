"""Multiply-adds of operators: the products that are summed, by the sizes of their operands.

As in the tables of He et al. (2016): a product of matrices [m, k] [k, n] has m n k of them, a
convolution the elements of its output times those of a filter. A multiply-add is two floating-point
operations. Additions, activations and normalisations are not counted.
"""

from collections.abc import Callable
from math import prod

from ..graph.node import Node
from ..graph.variable import Variable

Sizes = Callable[[Variable], tuple[int, ...] | None]  # of a value, None where they are unknown


def multiply_adds(node: Node, sizes: Sizes) -> int | None:
    """Return the multiply-adds of an operator, without its bodies; None if sizes are unknown."""
    formula = _FORMULAS.get(node.op_type)
    if formula is None:
        return 0
    operands = [None if x is None else sizes(x) for x in node.inputs]
    output = sizes(node.outputs[0])
    present = [dims for x, dims in zip(node.inputs, operands, strict=True) if x is not None]
    if output is None or None in present:
        return None
    return formula(node, operands, output)


def _gemm(node, operands, output):
    return prod(output) * operands[0][0 if node.attributes.get("transA") else 1]


def _recurrent(node, operands, output):
    """Inputs [T, N, I] (or [N, T, I], the same product) times weights, for every direction."""
    x, w, r = operands[:3]
    return x[0] * x[1] * (prod(w) + prod(r))


def _einsum(node, operands, output):
    """The product of all sizes that the equation names; 0 if it has a single operand."""
    terms = node.attributes["equation"].replace(" ", "").partition("->")[0].split(",")
    if len(terms) < 2 or any("." in term for term in terms):
        return 0 if len(terms) < 2 else None
    named = zip("".join(terms), [d for dims in operands for d in dims], strict=True)
    sizes = dict(named)
    return prod(sizes.values()) * (len(terms) - 1)


_FORMULAS: dict[str, Callable] = {
    "Conv": lambda node, operands, output: prod(output) * prod(operands[1][1:]),
    "ConvTranspose": lambda node, operands, output: prod(operands[0]) * prod(operands[1][1:]),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": lambda node, operands, output: prod(output) * operands[0][-1],
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
}
