"""Layers of transformers (Vaswani et al. 2017), over sequences [B, T, width]."""

from typing import Any

from .. import ops
from ..graph.initializers import Initial
from ..graph.variable import Operand, constant
from .attention import Attended, Cache, MultiHeadAttention
from .dense import FC
from .layer import Layer
from .norm import LayerNorm
from .parameter import Activation
from .text import arguments


class _TransformerLayer(Layer):
    """Base: self-attention and a feed-forward network, each a branch with a residual."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        act: Activation = "relu",
        norm_first: bool = False,
        causal: bool = False,
        kernel_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.dropout, self.norm_first = dropout, norm_first
        self.has_bias, self.epsilon = bias, epsilon
        inits = (kernel_init, bias_init)
        self.self_attention = MultiHeadAttention(width, heads, bias, dropout, causal, *inits)
        self.norm1, self.norm2 = (LayerNorm(epsilon=epsilon, bias=bias) for _ in range(2))
        self.hidden, self.output = FC(hidden, act, *inits, bias), FC(width, None, *inits, bias)

    def _before(self, x, norm):
        """Return the input of a branch."""
        return norm(x) if self.norm_first else x

    def _after(self, x, y, norm):
        """Add the output y of a branch to x."""
        y = x + ops.dropout(y, self.dropout)
        return y if self.norm_first else norm(y)

    def _attended(self, x, mask, cache):
        """Return x after the self-attention, and the new cache; None without one."""
        x = constant(x)
        y: Any = self.self_attention(self._before(x, self.norm1), mask=mask, cache=cache)
        y, new = (y, None) if cache is None else y
        return self._after(x, y, self.norm1), new

    def _fed_forward(self, x, norm):
        y = ops.dropout(self.hidden(self._before(x, norm)), self.dropout)
        return self._after(x, self.output(y), norm)

    def extra(self) -> str:
        """Return the dropout, and what is not the default."""
        others = arguments(
            norm_first=(self.norm_first, False),
            bias=(self.has_bias, True),
            epsilon=(self.epsilon, 1e-5),
        )
        return f"dropout={self.dropout}" + (f", {others}" if others else "")


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then a feed-forward network of `hidden` units, each with a residual.

    LayerNorm comes after each sum, or with `norm_first` before each branch. `dropout` applies to
    attention weights, hidden units and branches. With `causal` and a cache it is a layer of a
    language model. Matrices begin as `kernel_init` says, their biases as `bias_init`; with `bias`
    False neither they nor the norms have any. `epsilon` is that of the norms.
    """

    def forward(
        self, x: Operand, mask: Operand | None = None, cache: Cache | None = None
    ) -> Attended:
        """Return the output [B, T, width] of x; with a cache, (output, new cache).

        Mask and cache are those of `MultiHeadAttention`.
        """
        y, new = self._attended(x, mask, cache)
        y = self._fed_forward(y, self.norm2)
        return y if new is None else (y, new)


class TransformerDecoderLayer(_TransformerLayer):
    """An encoder layer that attends to a memory between its two parts; causal by default."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        act: Activation = "relu",
        norm_first: bool = False,
        causal: bool = True,
        kernel_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        inits, norms = (kernel_init, bias_init), (bias, epsilon)
        super().__init__(
            width, heads, hidden, dropout, act, norm_first, causal, *inits, *norms, name
        )
        self.cross_attention = MultiHeadAttention(width, heads, bias, dropout, False, *inits)
        self.norm3 = LayerNorm(epsilon=epsilon, bias=bias)

    def forward(
        self,
        x: Operand,
        memory: Operand,
        mask: Operand | None = None,
        memory_mask: Operand | None = None,
        cache: Cache | None = None,
    ) -> Attended:
        """Return the output [B, T, width] for x and a memory [B, S, n], as an encoder returns it.

        With a cache, that of the self-attention, the result is (output, new cache).
        """
        y, new = self._attended(x, mask, cache)
        read = self.cross_attention(self._before(y, self.norm2), memory, mask=memory_mask)
        y = self._fed_forward(self._after(y, read, self.norm2), self.norm3)
        return y if new is None else (y, new)
