"""Derivatives of attention and of rotary positions: of what each of them computes."""

import functools
import math

import numpy as np
from onnx import helper

from ... import ops
from ...graph.errors import NoGradient
from ...graph.node import refined
from ...graph.variable import constant
from ..expression import expression

RAW, CAPPED, MASKED, NORMALISED = range(4)  # what the fourth output of Attention is


@expression("Attention")
def attention(a, q, k, v, mask=None, past_k=None, past_v=None, filled=None):
    """Softmax(q kᵀ scale + bias) v (Vaswani et al. 2017), several queries to a head of keys.

    `filled` [B] says how many keys of each sequence count. A query that may see no key gets zeros.
    """
    together = q.rank == 3
    if together:
        q = _heads(q, a["q_num_heads"])
        k, v = (_heads(x, a["kv_num_heads"]) for x in (k, v))
    past = None if past_k is None else ops.size_of(past_k, 2)
    k = k if past_k is None else ops.concat([past_k, k], 2)
    v = v if past_v is None else ops.concat([past_v, v], 2)
    scores = _scores(q, _repeated(k, q), a.get("scale"))
    seen = {RAW: scores}
    cap = a.get("softcap", 0.0)
    if cap:
        scores = cap * ops.tanh(scores / cap)
    seen[CAPPED] = scores
    bias = _bias(a, q, k, mask, past, filled)
    if bias is not None:
        scores = ops.where(ops.equal(bias, -np.inf), -np.inf, scores + bias)
    seen[MASKED] = scores
    precision = a.get("softmax_precision")
    wide = q.dtype if precision is None else helper.tensor_dtype_to_np_dtype(precision)
    seen[NORMALISED] = ops.cast(_weights(ops.cast(scores, wide), bias), q.dtype)
    y = ops.matmul(seen[NORMALISED], _repeated(v, q))
    return [_joined(y) if together else y, k, v, seen[a.get("qk_matmul_output_mode", RAW)]]


def _heads(x, count):
    """[B, T, count n] as [B, count, T, n]."""
    if not isinstance(x.dims[2], int):
        raise NoGradient(f"only heads of known size have a gradient, not {x!r}")
    return ops.transpose(ops.reshape(x, [0, 0, count, x.dims[2] // count]), [0, 2, 1, 3])


def _joined(x):
    """[B, heads, T, n] as [B, T, heads n]."""
    return ops.reshape(ops.transpose(x, [0, 2, 1, 3]), [0, 0, x.dims[1] * x.dims[3]])


def _repeated(x, q):
    """[B, heads of keys, S, n] with each head as often as there are queries to it."""
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
    """q kᵀ scale, [B, heads, T, S]; each factor gets the root of the scale."""
    if scale is None:
        if not isinstance(q.dims[3], int):
            raise NoGradient(f"only heads of known size have a gradient, not {q!r}")
        scale = 1.0 / math.sqrt(q.dims[3])
    root = math.sqrt(scale)
    return ops.matmul(q * root, ops.swap_last(k * root))


def _bias(a, q, k, mask, past, filled):
    """What is added to the scores: -inf where a key is not to be seen. None if all are."""
    keys = ops.size_of(k, 2)
    added, allowed = [], _reach(a, q, k, past, filled)
    if filled is not None:
        allowed.append(ops.less_than(_range(keys, k.dims[2]), ops.reshape(filled, [-1, 1, 1, 1])))
    if mask is not None:
        (allowed if mask.dtype == np.bool_ else added).append(_up_to(mask, k.dims[2], keys))
    added += [ops.where(seen, constant(0, q.dtype), -np.inf) for seen in allowed]
    return functools.reduce(ops.add, added) if added else None


def _reach(a, q, k, past, filled):
    """Which keys are not too far before or behind the place of a query, for each bound."""
    before, behind = a.get("left_window_size", -1), a.get("right_window_size", -1)
    if a.get("is_causal", 0):
        behind = 0
    if before < 0 and behind < 0:
        return []
    rows = ops.size_of(q, 2)
    first = np.int64([0]) if past is None else past
    if filled is not None:
        first = ops.reshape(filled, [-1, 1, 1, 1]) - rows
    place = ops.unsqueeze(_range(rows, q.dims[2]), 1) + first
    ahead = _range(ops.size_of(k, 2), k.dims[2]) - place
    bounds = []
    if behind >= 0:
        bounds.append(ops.less_equal(ahead, np.int64(behind)))
    if before >= 0:
        bounds.append(ops.greater_equal(ahead, np.int64(-before)))
    return bounds


def _range(count, size):
    numbers = ops.arange(count)
    numbers = refined(numbers, (size,))
    return numbers


def _up_to(mask, size, keys):
    """A mask for all keys: those beyond its end are not seen."""
    if mask.dims[-1] == size:
        return mask
    rest = keys - ops.size_of(mask, mask.rank - 1)
    sizes = [*(ops.size_of(mask, k) for k in range(mask.rank - 1)), rest]
    unseen = constant(False) if mask.dtype == np.bool_ else constant(-np.inf, mask.dtype)
    whole = ops.concat([mask, ops.expand(unseen, ops.concat(sizes))], mask.rank - 1)
    whole = refined(whole, (*mask.dims[:-1], size))
    return whole


def _weights(scores, bias):
    """The softmax over keys; zeros where there is no key to see."""
    if bias is None:
        return ops.softmax(scores)
    nothing = ops.equal(ops.reduce_max(bias, -1, keep_dim=True), -np.inf)
    return ops.where(nothing, 0.0, ops.softmax(ops.where(nothing, 0.0, scores)))


@expression("RotaryEmbedding")
def rotary_embedding(a, x, cos, sin, position=None):
    """Pairs of features turned by an angle of their position (Su et al. 2021)."""
    heads = _heads(x, a["num_heads"]) if x.rank == 3 else x
    if position is not None:
        cos, sin = ops.gather(cos, position), ops.gather(sin, position)
    cos, sin = ops.unsqueeze(cos, 1), ops.unsqueeze(sin, 1)  # one for all heads
    whole, size = heads.dims[3], a.get("rotary_embedding_dim", 0) or heads.dims[3]
    if not isinstance(whole, int):
        raise NoGradient(f"only heads of known size have a gradient, not {x!r}")
    turned, rest = (heads, None) if size == whole else ops.split(heads, [size, whole - size], 3)
    first, second = _pairs(turned, size // 2, a.get("interleaved", 0))
    parts = [cos * first - sin * second, sin * first + cos * second]
    if a.get("interleaved", 0):
        y = ops.reshape(ops.concat([ops.unsqueeze(p, 4) for p in parts], 4), [0, 0, 0, size])
    else:
        y = ops.concat(parts, 3)
    y = y if rest is None else ops.concat([y, rest], 3)
    return _joined(y) if x.rank == 3 else y


def _pairs(x, count, interleaved):
    """The first and the second of each pair of features: side by side, or in two halves."""
    if not interleaved:
        return ops.split(x, [count, count], 3)
    beside = ops.split(ops.reshape(x, [0, 0, 0, count, 2]), [1, 1], 4)
    return [ops.squeeze(part, 4) for part in beside]
