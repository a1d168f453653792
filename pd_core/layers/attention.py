"""Multi-head attention."""

import numpy as np

from .. import ops
from ..graph.errors import GraphError
from ..graph.initializers import Initial
from ..graph.variable import Operand, Variable
from .dense import FC
from .functional_attention import attend, attend_with_weights, split_heads
from .layer import Layer

Cache = tuple[Operand, Operand]  # keys and values of the steps so far, [B, heads, T, d] each
Pair = tuple[Variable, Variable]
Attended = Variable | tuple[Variable, Pair]  # with a cache: (output, new one)


class MultiHeadAttention(Layer):
    """Multi-head attention (Vaswani et al. 2017) over sequences [B, T, width].

    `causal` masks the keys after a query; `dropout` applies to the attention weights. The four
    products begin with weights by `kernel_init` and biases by `bias_init`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        kernel_init: Initial = None,
        bias_init: Initial = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if width % heads:
            raise GraphError(f"MultiHeadAttention: {width} does not split into {heads} heads")
        self.width, self.heads, self.dropout, self.causal = width, heads, dropout, causal
        products = [FC(width, None, kernel_init, bias_init, bias) for _ in range(4)]
        self.query, self.key, self.value, self.output = products

    def forward(
        self,
        query: Operand,
        key: Operand | None = None,
        value: Operand | None = None,
        mask: Operand | None = None,
        cache: Cache | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = True,
    ) -> Attended | Pair | tuple[Variable, Variable, Pair]:
        """Return the output [B, T, width] for queries [B, T, n], keys and values [B, S, m].

        The key is the query and the value is the key unless they are given. The mask, [T, S],
        [B, T, S] or [B, heads, T, S], is that of `pd.attention`. With a cache, keys and values
        follow those in it: the result is (output, new cache). `need_weights` returns the weights
        behind the output, means over the heads [B, T, S], or [B, heads, T, S] without
        `average_attn_weights`; after dropout, and 0 of a query that may attend to no key.
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k = split_heads(self.query(query), self.heads), split_heads(self.key(key), self.heads)
        v = split_heads(self.value(value), self.heads)
        if cache is not None:
            k, v = ops.concat([cache[0], k], 2), ops.concat([cache[1], v], 2)
        if not need_weights:
            y = self.output(attend(q, k, v, mask, self.causal, self.dropout))
            return y if cache is None else (y, (k, v))
        y, weights = attend_with_weights(q, k, v, mask, self.causal, self.dropout)
        weights = ops.reduce_mean(weights, 1) if average_attn_weights else weights
        y = self.output(y)
        return (y, weights) if cache is None else (y, weights, (k, v))

    def empty_cache(self, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the cache before the first step: no keys, no values."""
        empty = np.zeros((batch, self.heads, 0, self.width // self.heads), np.float32)
        return empty, empty

    def extra(self) -> str:
        """Return width and heads."""
        return f"{self.width}, heads={self.heads}" + (", causal=True" if self.causal else "")
