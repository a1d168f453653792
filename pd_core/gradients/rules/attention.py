"""Derivatives of attention and of rotary positions, from the formula of each."""

import functools
import math

import numpy as np
from onnx import helper

from ... import ops
from ...graph.errors import NoGradient
from ...graph.node import refined
from ...graph.variable import Variable, constant
from ..expression import expression
from ..registry import Attributes

RAW, CAPPED, MASKED, NORMALISED = range(4)  # stages of the scores: `qk_matmul_output_mode`


@expression("Attention")
def attention(
    a: Attributes,
    q: Variable,
    k: Variable,
    v: Variable,
    mask: Variable | None = None,
    past_k: Variable | None = None,
    past_v: Variable | None = None,
    filled: Variable | None = None,
) -> list[Variable]:
    """Softmax(q kᵀ scale + bias) v (Vaswani et al. 2017), with grouped queries.

    `filled` [B] is the number of valid keys of each sequence (`nonpad_kv_seqlen`). A query that may
    attend to no key gets zeros. Returns y, the keys and values with the past ones, and the scores.
    """
    merged = q.rank == 3
    if merged:
        q = _split_heads(q, a["q_num_heads"])
        k, v = (_split_heads(x, a["kv_num_heads"]) for x in (k, v))
    past = None if past_k is None else ops.size_of(past_k, 2)
    k = k if past_k is None else ops.concat([past_k, k], 2)
    v = v if past_v is None else ops.concat([past_v, v], 2)
    scores = _scores(q, _repeat_heads(k, q), a.get("scale"))
    stages = {RAW: scores}
    cap = a.get("softcap", 0.0)
    if cap:
        scores = cap * ops.tanh(scores / cap)
    stages[CAPPED] = scores
    bias = _bias(a, q, k, mask, past, filled)
    if bias is not None:
        scores = ops.where(ops.equal(bias, -np.inf), -np.inf, scores + bias)
    stages[MASKED] = scores
    precision = a.get("softmax_precision")
    wide = q.dtype if precision is None else helper.tensor_dtype_to_np_dtype(precision)
    stages[NORMALISED] = ops.cast(_weights(ops.cast(scores, wide), bias), q.dtype)
    y = stages[NORMALISED] @ _repeat_heads(v, q)
    y = _merge_heads(y) if merged else y
    return [y, k, v, stages[a.get("qk_matmul_output_mode", RAW)]]


def _split_heads(x, count):
    """Reshape [B, T, count n] to [B, count, T, n]."""
    if not isinstance(x.dims[2], int):
        raise NoGradient(f"only heads of known size have a gradient, not {x!r}")
    return ops.transpose(ops.reshape(x, [0, 0, count, x.dims[2] // count]), [0, 2, 1, 3])


def _merge_heads(x):
    """Reshape [B, heads, T, n] to [B, T, heads n]."""
    return ops.reshape(ops.transpose(x, [0, 2, 1, 3]), [0, 0, x.dims[1] * x.dims[3]])


def _repeat_heads(x, q):
    """Repeat the heads of keys or values, [B, heads, S, n], for the query heads that share them."""
    heads, count = x.dims[1], q.dims[1]
    if heads == count:
        return x
    if not all(isinstance(d, int) for d in (heads, count, x.dims[3])):
        raise NoGradient(f"only heads of known number and size have a gradient, not {x!r}, {q!r}")
    y = ops.expand(ops.unsqueeze(x, 2), [1, 1, count // heads, 1, 1])
    y = ops.reshape(y, [0, count, -1, x.dims[3]])
    y = refined(y, (x.dims[0], count, *x.dims[2:]))
    return y


def _scores(q, k, scale):
    """Return q kᵀ scale, [B, heads, T, S].

    Each factor is multiplied by the root of the scale, as ONNX defines it.
    """
    if scale is None:
        if not isinstance(q.dims[3], int):
            raise NoGradient(f"only heads of known size have a gradient, not {q!r}")
        scale = 1.0 / math.sqrt(q.dims[3])
    root = math.sqrt(scale)
    return (q * root) @ ops.matrix_transpose(k * root)


def _bias(a, q, k, mask, past, filled):
    """Return the sum of the masks, which is added to the scores: -inf where a key is masked.

    None without any mask.
    """
    keys = ops.size_of(k, 2)
    biases: list[Variable] = []
    masks = _window_masks(a, q, k, past, filled)
    if filled is not None:
        masks.append(_range(keys, k.dims[2]) < ops.reshape(filled, [-1, 1, 1, 1]))
    if mask is not None:
        (masks if mask.dtype == np.bool_ else biases).append(_pad_mask(mask, k.dims[2], keys))
    biases += [ops.where(allowed, constant(0, q.dtype), -np.inf) for allowed in masks]
    return functools.reduce(ops.add, biases) if biases else None


def _window_masks(a, q, k, past, filled):
    """Return a bool mask for each side of the attention window: true within it."""
    left, right = a.get("left_window_size", -1), a.get("right_window_size", -1)
    if a.get("is_causal", 0):
        right = 0
    if left < 0 and right < 0:
        return []
    rows = ops.size_of(q, 2)
    first = np.array([0], np.int64) if past is None else past
    if filled is not None:
        first = ops.reshape(filled, [-1, 1, 1, 1]) - rows
    position = ops.unsqueeze(_range(rows, q.dims[2]), 1) + first
    offset = _range(ops.size_of(k, 2), k.dims[2]) - position
    masks = []
    if right >= 0:
        masks.append(offset <= np.int64(right))
    if left >= 0:
        masks.append(offset >= np.int64(-left))
    return masks


def _range(count, size):
    numbers = ops.arange(count)
    numbers = refined(numbers, (size,))
    return numbers


def _pad_mask(mask, size, keys):
    """Extend a mask to all keys: those beyond its end are masked."""
    if mask.dims[-1] == size:
        return mask
    rest = keys - ops.size_of(mask, mask.rank - 1)
    sizes = [*(ops.size_of(mask, k) for k in range(mask.rank - 1)), rest]
    masked = constant(False) if mask.dtype == np.bool_ else constant(-np.inf, mask.dtype)
    whole = ops.concat([mask, ops.expand(masked, ops.concat(sizes))], mask.rank - 1)
    whole = refined(whole, (*mask.dims[:-1], size))
    return whole


def _weights(scores, bias):
    """Return the softmax over keys; zeros where all of them are masked."""
    if bias is None:
        return ops.softmax(scores)
    all_masked = ops.equal(ops.reduce_max(bias, -1, keep_dim=True), -np.inf)
    return ops.where(all_masked, 0.0, ops.softmax(ops.where(all_masked, 0.0, scores)))


@expression("RotaryEmbedding")
def rotary_embedding(
    a: Attributes, x: Variable, cos: Variable, sin: Variable, position: Variable | None = None
) -> Variable:
    """Rotate pairs of features by an angle that depends on their position (Su et al. 2021)."""
    heads = _split_heads(x, a["num_heads"]) if x.rank == 3 else x
    if position is not None:
        cos, sin = ops.gather(cos, position), ops.gather(sin, position)
    cos, sin = ops.unsqueeze(cos, 1), ops.unsqueeze(sin, 1)  # one for all heads
    width = heads.dims[3]
    if not isinstance(width, int):
        raise NoGradient(f"only heads of known size have a gradient, not {x!r}")
    size = a.get("rotary_embedding_dim", 0) or width
    rotated, rest = (heads, None) if size == width else ops.split(heads, [size, width - size], 3)
    first, second = _pairs(rotated, size // 2, a.get("interleaved", 0))
    parts = [cos * first - sin * second, sin * first + cos * second]
    if a.get("interleaved", 0):
        y = ops.reshape(ops.concat([ops.unsqueeze(p, 4) for p in parts], 4), [0, 0, 0, size])
    else:
        y = ops.concat(parts, 3)
    y = y if rest is None else ops.concat([y, rest], 3)
    return _merge_heads(y) if x.rank == 3 else y


def _pairs(x, count, interleaved):
    """Return the first and the second of each pair of features: neighbours, or in two halves."""
    if not interleaved:
        return ops.split(x, [count, count], 3)
    neighbours = ops.split(ops.reshape(x, [0, 0, 0, count, 2]), [1, 1], 4)
    return [ops.squeeze(part, 4) for part in neighbours]
