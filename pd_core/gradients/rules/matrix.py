"""Derivatives of matrix products."""

from string import ascii_letters

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.rewrite import permutation
from ...graph.variable import Variable, is_open
from ..expression import expression
from ..registry import Attributes, Gradients, gradient, unbroadcast


@gradient("MatMul")
def matmul(node: Node, dy: Variable) -> Gradients:
    a, b = node.inputs
    if a.rank == 1 or b.rank == 1:
        return _vector_product(a, b, dy)
    return [
        lambda: _sum_batch_axes(dy @ ops.matrix_transpose(b), a),
        lambda: _right_gradient(a, b, dy),
    ]


def _right_gradient(a, b, dy):
    """Return aᵀ dy; for a batch against one matrix as a single product instead of a batched one."""
    if b.rank == 2 and a.rank > 2:
        a, dy = map(_flatten_batch, (a, dy))
    return _sum_batch_axes(ops.matrix_transpose(a) @ dy, b)


def _flatten_batch(x):
    """Reshape a batch of matrices to one matrix of all their rows."""
    last = x.dims[-1]
    return ops.reshape(x, [-1, last]) if isinstance(last, int) else ops.flatten(x, x.rank - 1)


def _sum_batch_axes(g, x):
    """Sum over the batch axes along which x was broadcast."""
    return g if g.rank == x.rank and g.dims[:-2] == x.dims[:-2] else unbroadcast(g, x)


def _vector_product(a, b, dy):
    """Differentiate a product with a vector: a row on the left, a column on the right."""
    row, column = a.rank == 1, b.rank == 1
    a2 = ops.unsqueeze(a, 0) if row else a
    b2 = ops.unsqueeze(b, 1) if column else b
    if row:
        dy = ops.unsqueeze(dy, max(dy.rank - 1, 0) if not column else 0)
    if column:
        dy = ops.unsqueeze(dy, dy.rank)
    da = dy @ ops.matrix_transpose(b2)
    db = ops.matrix_transpose(a2) @ dy
    da, db = _sum_batch_axes(da, a2), _sum_batch_axes(db, b2)
    return [ops.squeeze(da, 0) if row else da, ops.squeeze(db, 1) if column else db]


@gradient("Transpose")
def transpose(node: Node, dy: Variable) -> Gradients:
    order = permutation(node)
    return [ops.transpose(dy, [order.index(k) for k in range(dy.rank)])]


@expression("Gemm")
def gemm(a: Attributes, x: Variable, w: Variable, bias: Variable | None = None) -> Variable:
    """alpha x w + beta bias, with either matrix transposed if so asked."""
    x = ops.transpose(x) if a.get("transA", 0) else x
    w = ops.transpose(w) if a.get("transB", 0) else w
    y, alpha, beta = x @ w, a.get("alpha", 1.0), a.get("beta", 1.0)
    y = y if alpha == 1.0 else y * alpha
    if bias is None:
        return y
    return y + (bias if beta == 1.0 else bias * beta)


@gradient("Det")
def det(node: Node, dy: Variable) -> Gradients:
    """dy times the cofactors, that is the determinants with one row replaced by a unit vector."""
    (x,) = node.inputs
    rows = ops.arange(ops.size_of(x, x.rank - 1))
    i, j, k, m = (ops.reshape(rows, [-1 if a == b else 1 for b in range(4)]) for a in range(4))
    one = ops.cast(ops.equal(j, m), x.dtype)
    minors = ops.where(ops.equal(i, k), one, ops.unsqueeze(x, [x.rank - 2, x.rank - 1]))
    return [ops.det(minors) * ops.unsqueeze(dy, [dy.rank, dy.rank + 1])]


@gradient("Einsum")
def einsum(node: Node, dy: Variable) -> Gradients:
    """For each operand the product of the others with dy, summed to its own subscripts."""
    terms, result, dots = _subscripts(node)
    return [
        lambda k=k: _operand_gradient(node, dy, terms, result, dots, k) for k in range(len(terms))
    ]


def _operand_gradient(node, dy, terms, result, dots, k):
    x, own = node.inputs[k], terms[k]
    others = [t for j, t in enumerate(terms) if j != k]
    operands = [v for j, v in enumerate(node.inputs) if j != k]
    letters = list(dict.fromkeys(own))
    shared = [c for c in letters if c in result or any(c in t for t in others)]
    g = ops.einsum(",".join([result, *others]) + "->" + "".join(shared), dy, *operands)
    summed = [n for n, c in enumerate(letters) if c not in shared]
    g = ops.unsqueeze(g, summed) if summed else g
    g = _on_diagonal(g, letters, own, x) if len(letters) < len(own) else g
    broadcast = [n for n, (d, e) in enumerate(zip(x.dims, g.dims, strict=True)) if d == 1 != e]
    g = ops.reduce_sum(g, broadcast, keep_dim=True) if broadcast else g
    pairs = zip(own, x.dims, g.dims, strict=True)
    maybe = [n for n, (c, d, e) in enumerate(pairs) if c in dots and is_open(d) and d != e]
    g = _summed_at_ones(g, x, maybe) if maybe and any(map(set(dots).intersection, others)) else g
    return ops.expand_like(g, x)


def _summed_at_ones(g, x, axes):
    """Sum g over those of these axes that have one element in x, as evaluations know."""
    ones = ops.equal(ops.gather(ops.shape_of(x), np.int64(axes)), 1)
    summed = ops.gather(np.int64(axes), ops.reshape(ops.nonzero(ones), [-1]))
    dims = [d if n in axes else e for n, (d, e) in enumerate(zip(x.dims, g.dims, strict=True))]
    return apply("ReduceSum", g, summed, noop_with_empty_axes=1, known=dims)


def _on_diagonal(g, letters, own, x):
    """Return g where the indices of a repeated letter agree, zero elsewhere."""
    first = [own.index(c) for c in letters]
    repeated = [n for n in range(x.rank) if n not in first]
    g = ops.unsqueeze(g, repeated)
    rows = [ops.arange(ops.size_of(x, n)) for n in range(x.rank)]
    along = [
        ops.reshape(r, [-1 if n == m else 1 for m in range(x.rank)]) for n, r in enumerate(rows)
    ]
    for n in repeated:
        g = ops.where(ops.equal(along[n], along[own.index(own[n])]), g, 0.0)
    return g


def _subscripts(node):
    """Return the subscripts of each operand and of the result, and the letters of an ellipsis."""
    equation = node.attributes["equation"].replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    unused = [c for c in ascii_letters if c not in equation]
    hidden = [x.rank - len(t.replace("...", "")) for t, x in zip(terms, node.inputs, strict=True)]
    longest = max((n for t, n in zip(terms, hidden, strict=True) if "..." in t), default=0)
    dots = unused[:longest]
    terms = [
        t.replace("...", "".join(dots[longest - n :])) for t, n in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        once = [c for c in sorted(left) if c.isalpha() and left.count(c) == 1]
        result = ("..." if "..." in left else "") + "".join(once)
    return terms, result.replace("...", "".join(dots)), dots
