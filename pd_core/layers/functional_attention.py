"""Multi-head attention as a function."""

from collections.abc import Sequence

from .. import ops
from ..graph.errors import GraphError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, static
from ..graph.whole import whole
from ..ops.attention import attention_and_weights
from .parameter import Bias, Parameter, dtype_for, layer_name, parameter

PARTS = ("query", "key", "value", "output")  # the four products of attention


@op
@whole
def multi_head_attention(
    query: Operand,
    heads: int,
    key: Operand | None = None,
    value: Operand | None = None,
    width: int | None = None,
    mask: Operand | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    W: Parameter | Sequence[Parameter] = None,
    B: Bias | Sequence[Bias] = None,
) -> Variable:
    """Multi-head attention layer (Vaswani et al. 2017): [B, T, width] for queries [B, T, n].

    Keys and values [B, S, m] are the queries unless they are given, and values the keys; `width`
    is n by default, and splits into heads. `mask`, `causal` and `dropout` are those of
    `pd.attention`; a mask may also be [B, T, S]. W and B choose the parameters of the products
    with query, key, value and output, one for all or a list in this order.
    """
    query = constant(query)
    key = query if key is None else constant(key)
    value = key if value is None else constant(value)
    size = query.dims[-1] if width is None else width
    if not isinstance(size, int):
        raise ShapeError(
            f"takes queries whose width is known when the layer is built, not {query!r}"
        )
    if size % heads:
        raise GraphError(f"{size} does not split into {heads} heads")
    weights, biases = _of_each("W", W), _of_each("B", B)
    layer = layer_name("multi_head_attention_", weights[0])

    def product(x, part):
        k = PARTS.index(part)
        w = parameter(weights[k], f"{layer}.{part}.W", [x.dims[-1], size], dtype_for(x))
        y = ops.matmul(x, w)
        if biases[k] is False:
            return y
        return y + parameter(biases[k], f"{layer}.{part}.B", [size], dtype_for(x))

    inputs = zip((query, key, value), PARTS[:3], strict=True)
    q, k, v = (split_heads(product(x, part), heads) for x, part in inputs)
    return product(attend(q, k, v, mask, causal, dropout), "output")


def _of_each(what, spec):
    """Return what is said of the four parameters: one for all, or a list."""
    parts = list(spec) if isinstance(spec, (list, tuple)) else [spec] * len(PARTS)
    if len(parts) != len(PARTS):
        raise GraphError(f"{what} has {len(parts)} parts for {', '.join(PARTS)}")
    return parts


def split_heads(x: Variable, heads: int) -> Variable:
    """Split features into heads: [B, T, width] to [B, heads, T, width / heads]."""
    split = ops.reshape(x, [0, 0, heads, static(x.dims[-1:])[0] // heads])
    return ops.transpose(split, [0, 2, 1, 3])


def attend(
    q: Variable, k: Variable, v: Variable, mask: Operand | None, causal: bool, dropout: float
) -> Variable:
    """Return `ops.attention` of split heads, joined again: [B, T, width]."""
    return _joined(ops.attention(q, k, v, _of_heads(mask), causal, dropout=dropout))


def attend_with_weights(
    q: Variable, k: Variable, v: Variable, mask: Operand | None, causal: bool, dropout: float
) -> tuple[Variable, Variable]:
    """Return what `attend` does, and the weights [B, heads, T, S]."""
    y, weights = attention_and_weights(q, k, v, _of_heads(mask), causal, dropout)
    return _joined(y), weights


def _of_heads(mask):
    """Give a mask [B, T, S] an axis, one for all heads."""
    return ops.unsqueeze(mask, 1) if mask is not None and constant(mask).rank == 3 else mask


def _joined(y):
    heads, width = static((y.dims[1], y.dims[3]))
    return ops.reshape(ops.transpose(y, [0, 2, 1, 3]), [0, 0, heads * width])
