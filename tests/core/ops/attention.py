"""Rows of attention and rotary positions."""

import numpy as np

from pd_core import ops

from .case import case, fixed, normal

INF = np.inf


def attention(q, k, v, mask=None, causal=False, scale=None):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat(groups, 1), v.repeat(groups, 1)
    rows, columns = q.shape[2], k.shape[2]
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    allowed = np.ones(scores.shape, bool)
    if causal:
        allowed &= np.tri(rows, columns, columns - rows, dtype=bool)
    if mask is not None and mask.dtype == bool:
        allowed &= mask
    elif mask is not None:
        scores, allowed = scores + mask, allowed & (mask > -INF)
    weights = np.where(allowed, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total, total, 1) @ v


def rotated(x, position=None, base=10000.0):
    """Rotations as complex numbers."""
    half = x.shape[-1] // 2
    position = np.arange(x.shape[-2]) if position is None else position
    turn = np.exp(1j * position[..., None] * base ** (-np.arange(half) / half))
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], -1)


SQUARE = [normal(2, 2, 3, 4)] * 3
CROSS = [normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 2)]
GROUPED = [normal(2, 4, 3, 2), normal(2, 2, 5, 2), normal(2, 2, 5, 3)]
KEYS = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], bool)[:, None, None, :]
ROWS = np.array([[1, 0, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)  # one sees nothing
NUMBERS = np.where(ROWS, [[0.5], [0.0], [-1.0]], -INF).astype("float32")
CASES = (
    [
        case(
            "attention", ops.attention, attention, samples, batch=(0, 1, 2), label=label, **options
        )
        for label, samples, options in (
            ("square", SQUARE, {}),
            ("cross", CROSS, {}),
            ("causal", SQUARE, {"causal": True}),
            ("causal after others", CROSS, {"causal": True}),
            ("causal before all", [CROSS[1], CROSS[0], CROSS[0]], {"causal": True}),
            ("grouped", GROUPED, {"scale": 0.3}),
            ("grouped", GROUPED, {"causal": True}),
        )
    ]
    + [
        case(
            "attention",
            lambda q, k, v, mask, **o: ops.attention(q, k, v, mask, **o),
            attention,
            [*CROSS, fixed(mask)],
            batch=(0, 1, 2),
            label=label,
            **options,
        )
        for label, mask, options in (
            ("mask of keys", KEYS, {}),
            ("mask of pairs", ROWS, {}),
            ("mask of pairs", ROWS, {"causal": True}),
        )
    ]
    + [
        case(
            "attention",
            lambda q, k, v, bias: ops.attention(q, k, v, bias, causal=True),
            lambda q, k, v, bias: attention(q, k, v, bias, causal=True),
            [*CROSS, normal(2, 3, 5)],
            batch=(0, 1, 2),
            label="bias",
        ),
        case(
            "attention",
            lambda q, k, v: ops.attention(q, k, v, NUMBERS, causal=True),
            lambda q, k, v: attention(q, k, v, NUMBERS, causal=True),
            CROSS,
            batch=(0, 1, 2),
            label="numbers, some of them -inf",
        ),
        case("rotary_embedding", ops.rotary_embedding, rotated, [normal(2, 2, 3, 6)]),
        case(
            "rotary_embedding",
            ops.rotary_embedding,
            rotated,
            [normal(2, 3, 4), fixed([[5, 1, 0], [7, 7, 9]], "int64")],
            batch=(0, 1),
            label="positions",
        ),
    ]
)
