"""Rows of recurrent cells and of their run along packed sequences."""

import numpy as np

from pd_core import ops
from pd_core.ops import Segments

from .case import case, fixed, normal
from .sequence import LENGTHS, carried, joined, parts


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(gates, c, see=None, act=np.tanh):
    """Peepholes are the rows of `see`."""
    n = c.shape[1]
    g, i, f, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
    see_i, see_f, see_o = np.zeros((3, n)) if see is None else see
    i, f = sigmoid(i + c * see_i), sigmoid(f + c * see_f)
    c = act(g) * i + c * f
    return [sigmoid(o + c * see_o) * np.tanh(c), c]


def gru(x, h, gates, candidate):
    n = h.shape[1]
    z, r = np.split(sigmoid(x[:, : 2 * n] + h @ gates), 2, axis=1)
    return (1 - z) * h + z * np.tanh(x[:, 2 * n :] + (r * h) @ candidate)


def gru_reset_after(x, recurrent, h):
    (z, r, n), (u, v, m) = np.split(x, 3, axis=1), np.split(recurrent, 3, axis=1)
    z, r = sigmoid(z + u), sigmoid(r + v)
    return (1 - z) * np.tanh(n + r * m) + z * h


def _bounded(x, h, lengths, reverse=False):
    def step(h, x):
        h = ops.tanh(x + h * 0.5)
        return h, h

    return ops.scan_bounded(Segments(lengths), step, h, x, reverse)


def _several(x, y, h, lengths):
    """Two inputs, states and outputs."""

    def step(states, inputs):
        (a, b), (x, y) = states, inputs
        a, b = ops.tanh(x + b), ops.sin(y * a)
        return [a, b], [b, a]

    return ops.scan_bounded(Segments(lengths), step, [h, h], [x, y])


def _several_carried(x, y, h, lengths):
    a, b = h.copy(), h.copy()
    every = [[], []]
    for k, (xs, ys) in enumerate(zip(parts(x, lengths), parts(y, lengths), strict=True)):
        for row_x, row_y in zip(xs, ys, strict=True):
            a[k], b[k] = np.tanh(row_x + b[k]), np.sin(row_y * a[k])
            every[0].append([b[k].copy()])
            every[1].append([a[k].copy()])
    return [joined(rows, x) for rows in every]


# Four tokens in two parts, 4 for none; the place of each token in the parts back to back.
INDICES, PLACES = [[[2, 0], [3, 4]], [[1]]], [1, 4, 0, 2]
WHERE = [fixed(PLACES, "int64"), *(fixed(index, "int64") for index in INDICES)]


def _rows(x, index):
    return np.concatenate([x, np.zeros_like(x[:1])])[index]


CASES = [
    case("lstm_cell", lambda *x: list(ops.lstm_cell(*x)), lstm, [normal(3, 8), normal(3, 2)]),
    case(
        "lstm_cell",
        lambda gates, c, see: list(ops.lstm_cell(gates, c, ops.split(see, [1] * 3), act=ops.exp)),
        lambda gates, c, see: lstm(gates, c, see, np.exp),
        [normal(3, 8), normal(3, 2), normal(3, 2)],
        label="peepholes",
    ),
    case(
        "gru_cell",
        ops.gru_cell,
        gru,
        [normal(3, 6), normal(3, 2), normal(2, 4), normal(2, 2)],
        batch=(0, 1),
    ),
    case(
        "gru_cell_reset_after",
        ops.gru_cell_reset_after,
        gru_reset_after,
        [normal(3, 6), normal(3, 6), normal(3, 2)],
        batch=(0, 1, 2),
    ),
    *(
        case(
            "scan_bounded",
            _bounded,
            lambda *v, **o: carried(*v, **o)[1],
            [normal(sum(lengths), 2), normal(len(lengths), 2), fixed(lengths, "int64")],
            batch=(0, 1, 2),
            label=label,
            reverse=reverse,
            order=1,
        )
        for label, lengths in {**LENGTHS, "long": [7, 1, 0, 4, 7]}.items()
        for reverse in (False, True)
    ),
    case(
        "scan_bounded",
        _several,
        _several_carried,
        [normal(6, 2), normal(6, 2), normal(3, 2), fixed([2, 0, 4], "int64")],
        batch=(0, 1, 2, 3),
        label="several",
        order=1,
    ),
    case(
        "PadChunks",
        lambda x, places, *indices: ops.pad_chunks(x, places, indices),
        lambda x, places, *indices: [_rows(x, index) for index in indices],
        [normal(4, 2), *WHERE],
    ),
    case(
        "pad_chunks",
        lambda x, places, *indices: ops.pad_chunks(x, places, indices, zeros=False)[1] * 1.0,
        lambda x, places, *indices: _rows(x, indices[1]),
        [normal(4, 2), *WHERE],
        label="any row",
    ),
    case(
        "PackChunks",
        lambda a, b, places, *indices: ops.pack_chunks([a, b], places, indices),
        lambda a, b, places, *_: np.concatenate([a.reshape(-1, 2), b.reshape(-1, 2)])[places],
        [normal(2, 2, 2), normal(1, 1, 2), *WHERE],
        batch=(),
    ),
]
