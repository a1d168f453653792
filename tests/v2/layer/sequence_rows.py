"""A row per sequence layer and option: how it is built, what it is fed, and its truth in Python.

What a formula reads and gives is nested like the sequences: `v["x"]` is a list with an array of
rows for each sample, of a nested layer a list of such arrays, of a plain one a row.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pd_v2 as paddle
from pd_v2.attr import Param

A, L, N = paddle.activation, paddle.layer, paddle.networks
P, T = paddle.pooling, paddle.data_type

# The rows of each sub-sequence of each sample; a layer of plain sequences sees them undivided.
BATCHES = {
    "ragged": [[2, 1], [1], [4]],
    "an empty sequence": [[2], [], [3, 2]],
    "an empty sub-sequence": [[0, 2, 0], [0], [1]],
    "one step": [[1], [1]],
    "equal": [[2, 1], [2, 1], [1, 2]],
    "one sample": [[3]],
    "no samples": [],
}

_TYPES = {
    "dense": (T.dense_vector, T.dense_vector_sequence, T.dense_vector_sub_sequence),
    "ids": (T.integer_value, T.integer_value_sequence, T.integer_value_sub_sequence),
}


@dataclass(frozen=True)
class Data:
    """A data layer of `depth` levels: floats `size` wide, or ids below `size`.

    Its sequences are those of the batch, or with `lengths` what this makes of a batch.
    `values(rng, batch)` are the rows; random ones if None.
    """

    size: int
    depth: int = 1
    kind: str = "dense"
    lengths: Callable | None = None
    values: Callable | None = None

    def layer(self, name):
        return L.data(name=name, type=_TYPES[self.kind][self.depth](self.size))

    def draw(self, rng, batch):
        """The rows, and an array of lengths per level."""
        batch = batch if self.lengths is None else self.lengths(batch)
        levels = levels_of(batch, self.depth)
        count = int(sum(levels[-1])) if levels else len(batch)
        if self.values is not None:
            rows = self.values(rng, batch)
        elif self.kind == "ids":
            rows = rng.integers(0, self.size, count)
        else:
            rows = rng.standard_normal((count, self.size))
        dtype, shape = ("f", (count, self.size)) if self.kind == "dense" else ("int64", (count,))
        return np.asarray(rows, dtype).reshape(shape), levels


@dataclass(frozen=True)
class SequenceRow:
    """`build(**data layers)` gives the layer 'y' with `levels` levels of what `formula(v)` says.

    v holds the data by name, and the parameters by the end of their names: `w0`, `wbias`. A row
    that is not `smooth` has no gradient.
    """

    name: str
    inputs: dict
    build: Callable
    formula: Callable
    levels: int = 1
    smooth: bool = True

    def layers(self):
        """(the layer, its data layers by name)."""
        data = {name: kind.layer(name) for name, kind in self.inputs.items()}
        return self.build(**data), data

    def draw(self, rng, batch):
        """{data layer: (rows, lengths)}."""
        return {name: kind.draw(rng, batch) for name, kind in self.inputs.items()}


def levels_of(batch, depth):
    """The lengths of each level, outermost first."""
    if depth == 0:
        return []
    if depth == 1:
        return [np.array([sum(subs) for subs in batch], np.int64)]
    inner = [n for subs in batch for n in subs]
    return [np.array([len(subs) for subs in batch], np.int64), np.array(inner, np.int64)]


def nested(rows, levels):
    """Rows in lists as the lengths say."""
    found = rows
    for lengths in reversed(levels):
        ends = np.cumsum(lengths)
        found = [found[end - n : end] for n, end in zip(lengths, ends, strict=True)]
    return list(found)


def flat(pieces, levels):
    """(the rows of a nested result, the lengths of each level)."""
    lengths = []
    for _ in range(levels):
        lengths.append(np.array([len(p) for p in pieces], np.int64))
        pieces = [row for p in pieces for row in p]
    return np.array(pieces), lengths


# ---- slow pieces of formulas


def undivided(sample):
    """The rows of a sample, whatever its sub-sequences."""
    if isinstance(sample, list):
        return np.concatenate([np.zeros((0, 3)), *sample])
    return sample


def of_samples(fn, name="x"):
    """A formula with one row per sample."""
    return lambda v: [fn(undivided(s)) for s in v[name]]


def of_subs(fn):
    """A formula with one row per sub-sequence."""
    return lambda v: [[fn(p) for p in sample] for sample in v["x"]]


def or_zeros(fn):
    return lambda p: fn(p) if len(p) else np.zeros(p.shape[1:])


maximum = or_zeros(lambda p: p.max(0))
mean = or_zeros(lambda p: p.mean(0))
root_mean = or_zeros(lambda p: p.sum(0) / np.sqrt(len(p)))
last = or_zeros(lambda p: p[-1])
first = or_zeros(lambda p: p[0])


def total(p):
    return p.sum(0)


def windows(p, size):
    """From the start; the last is shorter."""
    return [p[k : k + size] for k in range(0, len(p), size)]


def windows_from_end(p, size):
    """The first is shorter."""
    ends = range(len(p), 0, -size)
    return [p[max(end - size, 0) : end] for end in ends][::-1]


def context(p, start, count, padding=None):
    """The steps around each step; `padding` are the rows before the start and after the end."""
    before, out = max(0, -start), []
    for t in range(len(p)):
        for place in range(t + start, t + start + count):
            if 0 <= place < len(p):
                out.append(p[place])
            elif padding is None:
                out.append(np.zeros(p.shape[1]))
            else:
                out.append(padding[before + (place if place < 0 else place - len(p))])
    return np.array(out).reshape(len(p), count * p.shape[1])


def place_of_max(v):
    """The number in the batch of each column's first maximum."""
    start, out = 0, []
    for p in v["x"]:
        out.append(start + p.argmax(0) if len(p) else np.full(p.shape[1], -1))
        start += len(p)
    return out


# ---- the rows

X, NESTED, VECTOR, SCORE = Data(3), Data(3, depth=2), Data(3, depth=0), Data(1)
SUBS, SAMPLES = L.AggregateLevel.TO_SEQUENCE, L.AggregateLevel.TO_NO_SEQUENCE


def pooled(name, kind, fn):
    """The pooling of plain sequences, samples, sub-sequences, and windows."""
    return [
        SequenceRow(
            name,
            {"x": X},
            lambda x: L.pooling(input=x, pooling_type=kind, name="y"),
            of_samples(fn),
            0,
        ),
        SequenceRow(
            f"{name} of samples",
            {"x": NESTED},
            lambda x: L.pooling(input=x, pooling_type=kind, name="y"),
            of_samples(fn),
            0,
        ),
        SequenceRow(
            f"{name} of sub-sequences",
            {"x": NESTED},
            lambda x: L.pooling(input=x, pooling_type=kind, agg_level=SUBS, name="y"),
            of_subs(fn),
        ),
        SequenceRow(
            f"{name} of windows",
            {"x": X},
            lambda x: L.pooling(input=x, pooling_type=kind, stride=2, name="y"),
            lambda v: [[fn(w) for w in windows(p, 2)] for p in v["x"]],
        ),
    ]


def chosen(layer, fn, cut):
    """The same of last_seq and first_seq."""
    name = layer.__name__
    return [
        SequenceRow(name, {"x": X}, lambda x: layer(input=x, name="y"), of_samples(fn), 0),
        SequenceRow(
            f"{name} of samples",
            {"x": NESTED},
            lambda x: layer(input=x, agg_level=SAMPLES, name="y"),
            of_samples(fn),
            0,
        ),
        SequenceRow(
            f"{name} of sub-sequences",
            {"x": NESTED},
            lambda x: layer(input=x, agg_level=SUBS, name="y"),
            of_subs(fn),
        ),
        SequenceRow(
            f"{name} of windows",
            {"x": X},
            lambda x: layer(input=x, stride=3, name="y"),
            lambda v: [[fn(w) for w in cut(p, 3)] for p in v["x"]],
        ),
    ]


POOLING = [
    *pooled("max", P.Max(), maximum),
    *pooled("mean", P.Avg(), mean),
    *pooled("sum", P.Sum(), total),
    *pooled("square root", P.SquareRootN(), root_mean),
    *chosen(L.last_seq, last, windows),
    *chosen(L.first_seq, first, windows_from_end),
    SequenceRow(
        "max by default",
        {"x": X},
        lambda x: L.pooling(input=x, name="y", bias_attr=True),
        lambda v: [maximum(p) + v["wbias"][0] for p in v["x"]],
        0,
    ),
    SequenceRow(
        "place of max",
        {"x": X},
        lambda x: L.pooling(input=x, pooling_type=P.Max(output_max_index=True), name="y"),
        place_of_max,
        0,
        smooth=False,
    ),
]

EXPAND = [
    SequenceRow(
        "expand",
        {"z": VECTOR, "x": X},
        lambda z, x: L.expand(input=z, expand_as=x, name="y"),
        lambda v: [[row] * len(p) for row, p in zip(v["z"], v["x"], strict=True)],
    ),
    SequenceRow(
        "expand to ids",
        {"z": VECTOR, "x": Data(5, kind="ids")},
        lambda z, x: L.expand(input=z, expand_as=x, name="y"),
        lambda v: [[row] * len(p) for row, p in zip(v["z"], v["x"], strict=True)],
    ),
    SequenceRow(
        "expand to nested",
        {"z": VECTOR, "x": NESTED},
        lambda z, x: L.expand(input=z, expand_as=x, name="y", bias_attr=Param(name="_y.wbias")),
        lambda v: [
            [[row + v["wbias"][0]] * len(p) for p in sample]
            for row, sample in zip(v["z"], v["x"], strict=True)
        ],
        2,
    ),
    SequenceRow(
        "expand sequences of a step",
        {"z": Data(3, lengths=lambda batch: [[1] for _ in batch]), "x": X},
        lambda z, x: L.expand(input=z, expand_as=x, name="y"),
        lambda v: [[p[0]] * len(x) for p, x in zip(v["z"], v["x"], strict=True)],
    ),
    SequenceRow(
        "expand from sequence",
        {"z": Data(3, lengths=lambda batch: [[1] * len(subs) for subs in batch]), "x": NESTED},
        lambda z, x: L.expand(
            input=z, expand_as=x, name="y", expand_level=L.ExpandLevel.FROM_SEQUENCE
        ),
        lambda v: [
            [[row] * len(p) for row, p in zip(rows, sample, strict=True)]
            for rows, sample in zip(v["z"], v["x"], strict=True)
        ],
        2,
    ),
]


def turned(batch):
    return batch[::-1]


def reshaped(v):
    return [p.reshape(-1, 2) for p in v["x"]]


def around(start, count, padding=False):
    """A context projection of x."""
    return lambda v: [context(p, start, count, v["w0"] if padding else None) for p in v["x"]]


def softmaxes(v):
    """Of the innermost sequences."""
    return [[soft(p) for p in s] if isinstance(s, list) else soft(s) for s in v["x"]]


def soft(p):
    e = np.exp(p)
    return e / e.sum(0)


STEPS = [
    SequenceRow(
        "seq_concat",
        {"x": X, "z": Data(3, lengths=turned)},
        lambda x, z: L.seq_concat(a=x, b=z, name="y", act=A.Tanh(), bias_attr=True),
        lambda v: [
            np.tanh(np.concatenate(pair) + v["wbias"]) for pair in zip(v["x"], v["z"], strict=True)
        ],
    ),
    SequenceRow(
        "seq_concat without bias",
        {"x": X, "z": Data(3, lengths=turned)},
        lambda x, z: L.seq_concat(a=x, b=z, name="y"),
        lambda v: [np.concatenate(pair) for pair in zip(v["x"], v["z"], strict=True)],
    ),
    SequenceRow(
        "seq_concat of nested",
        {"x": NESTED, "z": Data(3, lengths=turned)},
        lambda x, z: L.seq_concat(a=x, b=z, name="y"),
        lambda v: [np.concatenate([undivided(s), p]) for s, p in zip(v["x"], v["z"], strict=True)],
    ),
    SequenceRow(
        "seq_reshape of nested",
        {"x": Data(3, 2, lengths=lambda batch: [[*subs, sum(subs)] for subs in batch])},
        lambda x: L.seq_reshape(input=x, reshape_size=2, name="y"),
        lambda v: [undivided(s).reshape(-1, 2) for s in v["x"]],
    ),
    SequenceRow(
        "seq_reshape to shorter rows",
        {"x": Data(6)},
        lambda x: L.seq_reshape(input=x, reshape_size=2, name="y"),
        reshaped,
    ),
    SequenceRow(
        "seq_reshape to longer rows",
        {"x": Data(1, lengths=lambda batch: [[2 * n for n in subs] for subs in batch])},
        lambda x: L.seq_reshape(input=x, reshape_size=2, name="y", act=A.Tanh()),
        reshaped,
    ),
    SequenceRow(
        "seq_reshape of samples",
        {"x": Data(6, depth=0)},
        lambda x: L.seq_reshape(input=x, reshape_size=2, name="y", bias_attr=True),
        lambda v: [row.reshape(-1, 2) + v["wbias"] for row in v["x"]],
    ),
    SequenceRow(
        "row_conv",
        {"x": X},
        lambda x: L.row_conv(input=x, context_len=3, name="y", act=A.Tanh()),
        lambda v: [np.tanh((context(p, 0, 3).reshape(-1, 3, 3) * v["w0"]).sum(1)) for p in v["x"]],
    ),
    *(
        SequenceRow(
            f"context of {count} from {start}",
            {"x": X},
            lambda x, start=start, count=count, **o: L.mixed(
                input=L.context_projection(
                    input=x, context_start=start, context_len=count, padding_attr=False
                ),
                name="y",
            ),
            around(-(count // 2) if start is None else start, count),
        )
        for start, count in ((None, 3), (None, 4), (-4, 2), (2, 2), (0, 1))
    ),
    *(
        SequenceRow(
            f"context of {count} from {start} with learned padding",
            {"x": X},
            lambda x, start=start, count=count: L.mixed(
                input=L.context_projection(input=x, context_start=start, context_len=count),
                name="y",
            ),
            around(start, count, padding=True),
        )
        for start, count in ((-1, 3), (-3, 2), (1, 2), (-2, 5))
    ),
    SequenceRow(
        "context of samples",
        {"x": NESTED},
        lambda x: L.pooling(
            input=L.mixed(input=L.context_projection(input=x, context_len=3), name="c"),
            pooling_type=P.Sum(),
            name="y",
        ),
        lambda v: [context(undivided(s), -1, 3, v["_c.w0"]).sum(0) for s in v["x"]],
        0,
    ),
    *(
        SequenceRow(
            f"sequence softmax, {depth}",
            {"x": Data(1, depth)},
            lambda x: L.mixed(input=L.identity_projection(x), act=A.SequenceSoftmax(), name="y"),
            softmaxes,
            depth,
        )
        for depth in (1, 2)
    ),
    SequenceRow(
        "repeat",
        {"x": NESTED},
        lambda x: L.repeat(input=x, num_repeats=2, name="y"),
        lambda v: [[np.tile(p, 2) for p in sample] for sample in v["x"]],
        2,
    ),
]


def convolved(v, padding=None):
    """The maximum of tanh(steps side by side times W, plus b)."""
    w, b = v["_y_conv_fc.w0"], v["_y_conv_fc.wbias"][0]
    return [maximum(np.tanh(context(p, -1, 3, padding) @ w + b)) for p in v["x"]]


NETWORKS = [
    SequenceRow(
        "text_conv_pool",
        {"x": X},
        lambda x: N.text_conv_pool(input=x, context_len=3, hidden_size=2, name="y"),
        convolved,
        0,
    ),
    SequenceRow(
        "sequence_conv_pool with padding",
        {"x": X},
        lambda x: N.sequence_conv_pool(
            input=x, context_len=3, hidden_size=2, name="y", context_proj_param_attr=Param()
        ),
        lambda v: convolved(v, v["_y_conv_proj.w0"]),
        0,
    ),
]
