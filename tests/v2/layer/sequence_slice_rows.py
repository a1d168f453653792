"""Rows of layers that choose steps, read images as sequences, or give ids."""

import numpy as np

from .sequence_rows import NESTED, SCORE, A, Data, L, SequenceRow, X, undivided


def one_each(batch):
    return [[1] for _ in batch]


def places(low, high, columns=2):
    """Rows of whole numbers, for each sample."""
    return Data(
        columns,
        depth=0,
        values=lambda rng, batch: rng.integers(low, high, (len(batch), columns)),
    )


ID = Data(4, kind="ids", lengths=one_each)
NESTED_SCORE = Data(1, depth=2)


def cut(p, starts, ends):
    """The slices of one sequence; None is the first step, or the last."""
    found = []
    for k in range(len(starts if ends is None else ends)):
        given = [int(bounds[k]) for bounds in (starts, ends) if bounds is not None]
        if min(given) < 0:
            break
        start, end = 0 if starts is None else given[0], len(p) if ends is None else given[-1] + 1
        found.append(p[start:end])
    return found


def cut_each(v, starts=True, ends=True):
    n = len(v["x"])
    a = v["starts"] if starts else [None] * n
    b = v["ends"] if ends else [None] * n
    return [s for triple in zip(v["x"], a, b, strict=True) for s in cut(*triple)]


def best(p, count):
    """Where the largest scores stand."""
    order = np.argsort(-p[:, 0], kind="stable")[:count]
    return np.concatenate([order, np.full(count - len(order), -1)])


def subs_named(v):
    out = []
    for sample, row in zip(v["x"], v["chosen"], strict=True):
        names = []
        for k in map(int, row):
            if k < 0:
                break
            names.append(k)
        out.append([sample[k] for k in names if k < len(sample)])
    return out


def blocks(v, size, block, stride, pad):
    """The blocks of images of two channels, an array per sample."""
    out = []
    for row in v["im"]:
        image = np.pad(row.reshape(2, size, size), ((0, 0), (pad, 9), (pad, 9)))
        steps, top = [], 0
        while True:
            left = 0
            while True:
                steps.append(image[:, top : top + block[0], left : left + block[1]].reshape(-1))
                if left + block[1] >= size + 2 * pad:
                    break
                left += stride
            if top + block[0] >= size + 2 * pad:
                break
            top += stride
        out.append(np.array(steps))
    return out


def block_row(name, size, block, stride, pad):
    return SequenceRow(
        name,
        {"im": Data(2 * size * size, depth=0)},
        lambda im: L.block_expand(
            input=im,
            num_channels=2,
            block_y=block[0],
            block_x=block[1],
            stride_y=stride,
            stride_x=stride,
            padding_y=pad,
            padding_x=pad,
            name="y",
        ),
        lambda v: blocks(v, size, block, stride, pad),
    )


SLICES = [
    SequenceRow(
        "sub_seq of nested",
        {"x": NESTED, "offsets": ID, "sizes": ID},
        lambda x, offsets, sizes: L.sub_seq(input=x, offsets=offsets, sizes=sizes, name="y"),
        lambda v: [
            undivided(s)[o[0] : o[0] + n[0]]
            for s, o, n in zip(v["x"], v["offsets"], v["sizes"], strict=True)
        ],
    ),
    SequenceRow(
        "sub_seq",
        {"x": X, "offsets": ID, "sizes": ID},
        lambda x, offsets, sizes: L.sub_seq(
            input=x, offsets=offsets, sizes=sizes, name="y", act=A.Tanh()
        ),
        lambda v: [
            np.tanh(p[o[0] : o[0] + n[0]])
            for p, o, n in zip(v["x"], v["offsets"], v["sizes"], strict=True)
        ],
    ),
    SequenceRow(
        "seq_slice",
        {"x": X, "starts": places(-1, 3), "ends": places(-1, 5)},
        lambda x, starts, ends: L.seq_slice(input=x, starts=starts, ends=ends, name="y"),
        cut_each,
    ),
    SequenceRow(
        "seq_slice from starts",
        {"x": X, "starts": places(-1, 3)},
        lambda x, starts: L.seq_slice(input=x, starts=starts, ends=None, name="y"),
        lambda v: cut_each(v, ends=False),
    ),
    SequenceRow(
        "seq_slice up to ends",
        {"x": X, "ends": places(-1, 5, 3)},
        lambda x, ends: L.seq_slice(input=x, starts=None, ends=ends, name="y"),
        lambda v: cut_each(v, starts=False),
    ),
    SequenceRow(
        "seq_slice of nested",
        {"x": NESTED, "s": NESTED_SCORE},
        lambda x, s: L.seq_slice(
            input=x, starts=L.kmax_seq_score(input=s, beam_size=2), ends=None, name="y"
        ),
        lambda v: [
            [piece for p, s in zip(*pair, strict=True) for piece in cut(p, best(s, 2), None)]
            for pair in zip(v["x"], v["s"], strict=True)
        ],
        2,
    ),
    SequenceRow(
        "sub_nested_seq",
        {"x": NESTED, "chosen": places(-1, 4, 3)},
        lambda x, chosen: L.sub_nested_seq(input=x, selected_indices=chosen, name="y"),
        subs_named,
        2,
    ),
    SequenceRow(
        "kmax_seq_score",
        {"s": SCORE},
        lambda s: L.kmax_seq_score(input=s, beam_size=3, name="y"),
        lambda v: [best(p, 3) for p in v["s"]],
        0,
        smooth=False,
    ),
    SequenceRow(
        "kmax_seq_score of nested",
        {"s": NESTED_SCORE},
        lambda s: L.kmax_seq_score(input=s, beam_size=2, name="y"),
        lambda v: [best(p, 2) for sample in v["s"] for p in sample],
        0,
        smooth=False,
    ),
]

IMAGES = [
    block_row("block_expand", 4, (2, 3), 1, 0),
    block_row("block_expand with padding", 5, (3, 2), 2, 1),
    block_row("block_expand beyond the end", 4, (3, 1), 2, 0),
    block_row("block_expand of large blocks", 3, (5, 1), 1, 0),
]

IDS = [
    SequenceRow(
        "max_id",
        {"x": NESTED},
        lambda x: L.max_id(input=x, name="y"),
        lambda v: [[p.argmax(1) for p in sample] for sample in v["x"]],
        2,
        smooth=False,
    ),
    SequenceRow(
        "eos",
        {"w": Data(3, kind="ids")},
        lambda w: L.eos(input=w, eos_id=1, name="y"),
        lambda v: [p == 1 for p in v["w"]],
        smooth=False,
    ),
    SequenceRow(
        "eos of max_id",
        {"x": X},
        lambda x: L.eos(input=L.max_id(input=x), eos_id=2, name="y"),
        lambda v: [p.argmax(1) == 2 for p in v["x"]],
        smooth=False,
    ),
]
