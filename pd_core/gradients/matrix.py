"""Derivatives of matrix products."""

from .. import ops
from .registry import gradient, unbroadcast


@gradient("MatMul")
def matmul(node, dy):
    a, b = node.inputs
    if a.rank == 1 or b.rank == 1:
        return _vectors(a, b, dy)
    return [
        lambda: _unstack(ops.matmul(dy, ops.swap_last(b)), a),
        lambda: _right(a, b, dy),
    ]


def _right(a, b, dy):
    """aᵀ dy; a stack of rows against one matrix is a single product."""
    if b.rank == 2 and a.rank > 2:
        a, dy = (ops.reshape(x, [-1, _last(x)]) if _known(x) else x for x in (a, dy))
    return _unstack(ops.matmul(ops.swap_last(a), dy), b)


def _known(x):
    return isinstance(x.dims[-1], int)


def _last(x):
    return x.dims[-1]


def _unstack(g, x):
    """Sum over leading axes along which x was stretched."""
    return g if g.rank == x.rank and g.dims[:-2] == x.dims[:-2] else unbroadcast(g, x)


def _vectors(a, b, dy):
    """A vector is a row on the left, a column on the right."""
    row, column = a.rank == 1, b.rank == 1
    a2 = ops.unsqueeze(a, 0) if row else a
    b2 = ops.unsqueeze(b, 1) if column else b
    if row:
        dy = ops.unsqueeze(dy, max(dy.rank - 1, 0) if not column else 0)
    if column:
        dy = ops.unsqueeze(dy, dy.rank)
    da = ops.matmul(dy, ops.swap_last(b2))
    db = ops.matmul(ops.swap_last(a2), dy)
    da, db = _unstack(da, a2), _unstack(db, b2)
    return [ops.squeeze(da, 0) if row else da, ops.squeeze(db, 1) if column else db]


@gradient("Transpose")
def transpose(node, dy):
    order = node.attributes.get("perm") or list(reversed(range(dy.rank)))
    return [ops.transpose(dy, [order.index(k) for k in range(dy.rank)])]
