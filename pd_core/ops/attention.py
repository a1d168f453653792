"""Attention over padded batches, and rotary positions."""

import math

import numpy as np

from ..graph.checks import whole
from ..graph.errors import GraphError, ShapeError
from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, static
from . import math as m
from .matrix import matmul
from .onnx_form import onnx_form
from .random import dropout as dropout_op
from .reduce import reduce_max, softmax
from .shape import arange, concat, matrix_transpose, size_of, split, unsqueeze


@op
def attention(
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Variable:
    """Scaled dot-product attention, softmax(q kᵀ scale + mask) v (Vaswani et al. 2017).

    Queries [B, H, T, d], keys [B, G, S, d] and values [B, G, S, e] give [B, H, T, e]. Each of the
    G heads of keys serves H / G heads of queries (Ainslie et al. 2023). The mask broadcasts to
    [B, H, T, S]: bool, true where a query may attend to a key, or numbers that are added to the
    scores. `causal` masks the keys after a query, where the last query has the position of the
    last key. A query that may attend to no key gets zeros. The scale is 1 / sqrt(d) by default;
    `dropout` zeroes weights in a training step.

    Args:
        q: floats [B, H, T, d].
        k: floats [B, G, S, d].
        v: floats [B, G, S, e].
        mask: bools or numbers that broadcast to [B, H, T, S].

    Returns:
        [B, H, T, e].

    Raises:
        GraphError: the mask has more than four axes.
        ShapeError: the heads do not fit each other, or have no known number and size.
        ValueError: the dropout is outside [0, 1).
    """
    # Not ONNX's Attention: its gradient computes the forward pass again.
    q, k, v = constant(q), constant(k), constant(v)
    y, _, scale = _attended(q, k, v, mask, causal, scale, dropout)
    if causal and q.dims[2] != k.dims[2]:
        return y  # ONNX gives the first query, not the last one, the position of its key
    if scale <= 0:
        return y  # ONNX Runtime takes positive scales alone
    form = {"scale": float(scale), "is_causal": int(causal)}
    return onnx_form("Attention", [y], q, k, v, mask, **form)[0]


def attention_and_weights(
    q: Variable, k: Variable, v: Variable, mask: Operand | None, causal: bool, dropout: float
) -> tuple[Variable, Variable]:
    """Return what `attention` does, and its weights [B, H, T, S] after dropout."""
    y, (weights, seeing), _ = _attended(q, k, v, mask, causal, None, dropout)
    return y, weights if seeing is None else m.where(seeing, weights, 0.0)


def _attended(q, k, v, mask, causal, scale, dropout):
    """Return the result, (the weights, the queries that may attend to any key), and the scale."""
    _check_heads(q, k, v)
    scale = 1.0 / math.sqrt(static(q.dims)[3]) if scale is None else scale
    rows = _Heads(q, k)
    scores = rows.unfolded(matmul(rows.folded(q * scale), matrix_transpose(k)))
    bias, seeing = _bias(q, k, mask, causal)
    weights = dropout_op(softmax(scores if bias is None else scores + bias), dropout)
    y = rows.unfolded(matmul(rows.folded(weights), v))
    return y if seeing is None else m.where(seeing, y, 0.0), (weights, seeing), scale


def _check_heads(q, k, v):
    shapes = ", ".join(map(describe, (q, k, v)))
    if not q.rank == k.rank == v.rank == 4:
        raise ShapeError(f"takes q, k, v [B, heads, T, d], not {shapes}")
    if not all(isinstance(d, int) for x in (q, k, v) for d in (x.dims[1], x.dims[3])):
        raise ShapeError(f"takes heads of known number and size, not {shapes}")
    if 0 in (q.dims[1], q.dims[3], k.dims[1]):
        raise ShapeError(f"takes heads with elements, not {shapes}")
    if q.dims[3] != k.dims[3] or k.dims[1] != v.dims[1] or q.dims[1] % k.dims[1]:
        raise ShapeError(f"heads do not fit: q, k, v are {shapes}")


class _Heads:
    """Queries that share keys as rows of one matrix, [B, H, T, n] to [B, G, H / G T, n]."""

    def __init__(self, q, k):
        self.heads, self.groups = q.dims[1], k.dims[1]
        self.batch, self.queries = q.dims[0], q.dims[2]
        self.sizes = [size_of(q, 0), size_of(q, 2)]

    def folded(self, x):
        if self.heads == self.groups:
            return x
        batch, steps = self.sizes
        rows = steps * (self.heads // self.groups)
        return self._reshaped(x, [batch, self.groups, rows, size_of(x, 3)], None)

    def unfolded(self, x):
        if self.heads == self.groups:
            return x
        batch, steps = self.sizes
        dims = (self.batch, self.heads, self.queries, x.dims[3])
        return self._reshaped(x, [batch, self.heads, steps, size_of(x, 3)], dims)

    def _reshaped(self, x, sizes, dims):
        target = concat([whole([s]) if isinstance(s, int) else s for s in sizes])
        return apply("Reshape", x, target, known=dims, allowzero=1)


def _bias(q, k, mask, causal):
    """Return what is added to the scores, and which queries may attend to any key: both or None.

    Masked scores are far below others, but finite: of -inf alone, a softmax is NaN.
    """
    mask = None if mask is None else constant(mask)
    if mask is not None and (mask.rank > 4 or mask.dtype.kind not in "bf"):
        raise GraphError(f"a mask is bool or numbers and has at most 4 axes, not {describe(mask)}")
    lowest = float(np.finfo(q.dtype).min) / 2  # the sum of two of them is finite
    allowed: list[Variable] = []
    added: list[Variable] = []
    if causal:
        allowed.append(_causal(q, k))
    if mask is not None:
        (allowed if mask.dtype == np.bool_ else added).append(mask)
    biases = [m.maximum(m.cast(b, q.dtype), lowest) for b in added]
    if allowed:
        seen = allowed[0] if len(allowed) == 1 else m.logical_and(*allowed)
        biases.append(m.where(seen, constant(0, q.dtype), constant(lowest, q.dtype)))
    if not biases:
        return None, None
    bias = biases[0] if len(biases) == 1 else m.add(*biases)
    if mask is None and q.dims[2] == k.dims[2]:
        return bias, None  # each query sees itself
    return bias, reduce_max(bias, -1, keep_dim=True) > lowest


def _causal(q, k):
    """Return whether a key is at or before a query, bool [T, S]."""
    queries, keys = size_of(q, 2), size_of(k, 2)
    position = unsqueeze(arange(queries) + (keys - queries), 1)
    return arange(keys) <= position


@op
def rotary_embedding(
    x: Operand, position: Operand | None = None, base: float = 10000.0
) -> Variable:
    """Rotate pairs of features by angles that grow with the position (Su et al. 2021).

    x is [..., T, d] with even d; feature j < d/2 and feature j + d/2 are rotated by
    position base^(-2j/d). `position` is int [T] or [..., T], by default 0 … T-1.

    Args:
        x: floats [..., T, d].
        position: integers [T] or [..., T].

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: d is odd or not known.
    """
    x = constant(x)
    if x.rank < 2 or not isinstance(x.dims[-1], int) or x.dims[-1] % 2:
        raise ShapeError(f"takes [..., T, d] with even d, not {describe(x)}")
    half = x.dims[-1] // 2
    position = arange(size_of(x, x.rank - 2)) if position is None else constant(position)
    frequency = np.power(float(base), -np.arange(half) / half)
    angle = unsqueeze(m.cast(position, x.dtype), -1) * constant(frequency, x.dtype)
    cos, sin = m.cos(angle), m.sin(angle)
    first, second = split(x, [half, half], axis=x.rank - 1)
    return concat([first * cos - second * sin, second * cos + first * sin], axis=x.rank - 1)
