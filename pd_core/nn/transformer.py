"""Layers of transformers (Vaswani et al. 2017), over sequences [B, T, width]."""

from .. import ops
from ..graph.variable import Operand, constant
from .attention import Attended, Cache, MultiHeadAttention
from .dense import FC
from .layer import Layer
from .norm import LayerNorm
from .parameter import Activation


class TransformerEncoderLayer(Layer):
    """Self-attention, then a feed-forward network of `hidden` units, each with a residual.

    LayerNorm comes after each sum, or with `norm_first` before each branch. `dropout` applies to
    attention weights, hidden units and branches. With `causal` and a cache it is a layer of a
    language model.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        act: Activation = "relu",
        norm_first: bool = False,
        causal: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.self_attention = MultiHeadAttention(width, heads, dropout=dropout, causal=causal)
        self.feed_forward = _FeedForward(width, hidden, dropout, act)
        self.norm1, self.norm2 = LayerNorm(), LayerNorm()
        self.dropout, self.norm_first = dropout, norm_first

    def forward(
        self, x: Operand, mask: Operand | None = None, cache: Cache | None = None
    ) -> Attended:
        """Return the output [B, T, width]; with a cache also the new one, as the attention does."""
        x, new = _self_attended(self, constant(x), mask, cache)
        y = _residual(self, x, self.norm2, self.feed_forward)
        return y if cache is None else (y, new)


class TransformerDecoderLayer(Layer):
    """An encoder layer with attention to a memory between its two parts; causal by default."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        act: Activation = "relu",
        norm_first: bool = False,
        causal: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.self_attention = MultiHeadAttention(width, heads, dropout=dropout, causal=causal)
        self.cross_attention = MultiHeadAttention(width, heads, dropout=dropout)
        self.feed_forward = _FeedForward(width, hidden, dropout, act)
        self.norm1, self.norm2, self.norm3 = LayerNorm(), LayerNorm(), LayerNorm()
        self.dropout, self.norm_first = dropout, norm_first

    def forward(
        self,
        x: Operand,
        memory: Operand,
        mask: Operand | None = None,
        memory_mask: Operand | None = None,
        cache: Cache | None = None,
    ) -> Attended:
        """Return the output [B, T, width] for x and a memory [B, S, n], as an encoder returns it.

        With a cache, that of the self-attention, also the new one.
        """
        x, new = _self_attended(self, constant(x), mask, cache)
        x = _residual(
            self, x, self.norm2, lambda x: self.cross_attention(x, memory, mask=memory_mask)
        )
        y = _residual(self, x, self.norm3, self.feed_forward)
        return y if cache is None else (y, new)


class _FeedForward(Layer):
    """Two fully connected layers, applied to each step."""

    def __init__(self, width, hidden, dropout, act):
        super().__init__()
        self.hidden, self.output, self.dropout = FC(hidden, act=act), FC(width), dropout

    def forward(self, x):
        return self.output(ops.dropout(self.hidden(x), self.dropout))


def _self_attended(layer, x, mask, cache):
    """Return x after the self-attention, and the new cache if there is one."""
    new = []

    def attend(x):
        y = layer.self_attention(x, mask=mask, cache=cache)
        if cache is not None:
            y, pair = y
            new.append(pair)
        return y

    y = _residual(layer, x, layer.norm1, attend)
    return y, new[0] if new else None


def _residual(layer, x, norm, branch):
    """Add a branch to x, and normalise before it or after it."""
    y = branch(norm(x) if layer.norm_first else x)
    y = x + ops.dropout(y, layer.dropout)
    return y if layer.norm_first else norm(y)
