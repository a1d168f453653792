"""Rows of packed sequences; references go sequence by sequence."""

import numpy as np

import pd_core as pd
from pd_core import ops
from pd_core.ops import Segments

from .case import case, distinct, fixed, normal

RAGGED = [3, 0, 1, 5]  # 9 steps
FEW = {"ragged": RAGGED, "no steps": [0, 0], "no sequences": []}
LENGTHS = {**FEW, "equal": [2, 2, 2], "one step": [1, 1], "ends empty": [0, 2, 0]}


def parts(x, lengths):
    """The rows of each sequence."""
    ends = np.cumsum(lengths)
    return [x[end - n : end] for n, end in zip(lengths, ends, strict=True)]


def joined(pieces, like):
    """Rows back to back."""
    return np.concatenate([like[:0], *pieces])


def each(reduce):
    """A reference: one row of each sequence, zeros of an empty one."""

    def reference(x, lengths):
        rows = [reduce(p) if len(p) else np.zeros(x.shape[1:]) for p in parts(x, lengths)]
        return np.array(rows).reshape(len(lengths), *x.shape[1:])

    return reference


def padded(x, lengths, fill=0.0):
    out = np.full((len(lengths), max(lengths, default=0), *x.shape[1:]), fill)
    for row, p in zip(out, parts(x, lengths), strict=True):
        row[: len(p)] = p
    return out


def soft(p):
    e = np.exp(p - p.max(0, initial=-np.inf))
    return e / e.sum(0)


def carried(x, h, lengths, reverse=False):
    """A recurrence h' = tanh(x + 0.5 h): final states, and all of them."""
    h, out = h.copy(), []
    for b, p in enumerate(parts(x, lengths)):
        ys = []
        for row in p[::-1] if reverse else p:
            h[b] = np.tanh(row + 0.5 * h[b])
            ys.append(h[b].copy())
        out.append(np.array(ys[::-1] if reverse else ys).reshape(p.shape))
    return [h, joined(out, x)]


def run_along(x, h, lengths, reverse=False):
    def step(h, x):
        h = pd.tanh(x + h * 0.5)
        return h, h

    return list(Segments(lengths).scan(step, h, x, reverse))


def verb(name, reference, sample=normal, operator=None, kinds=FEW, **options):
    """A row for each kind of lengths of a method x, lengths -> result."""
    for label, lengths in kinds.items():
        yield case(
            operator or name,
            lambda x, lengths, **o: getattr(Segments(lengths), name)(x, **o),
            reference,
            [sample(sum(lengths), 2), fixed(lengths, "int64")],
            batch=(0, 1),
            label=label,
            **options,
        )


def _gathered(x, index, fill=0.0):
    """The rows of x at an index, `fill` where it names none."""
    return np.concatenate([x, np.full_like(x[:1], fill)])[index]


# Two rows of places for five tokens, 5 for none; the place of each token.
INDEX, PLACES, OWNER = [[1, 4, 0], [5, 2, 3]], [2, 0, 4, 5, 1], [0, 0, 1, 1, 0]
GRID = fixed(INDEX, "int64")

ROWS = [
    case(
        "PadRows",
        lambda x, index, places: ops.pad_rows(x, index, places, 2.0),
        lambda x, index, places: _gathered(x, index, 2.0),
        [normal(5, 2), GRID, fixed(PLACES, "int64")],
        label="rows",
    ),
    case(
        "PackRows",
        lambda x, index, places: ops.pack_rows(x, index, places),
        lambda x, index, places: x.reshape(6, 2)[places],
        [normal(2, 3, 2), GRID, fixed(PLACES, "int64")],
        batch=(2,),
        label="rows",
    ),
    case(
        "PermuteRows",
        lambda x, index, back: ops.permute_rows(x, index, back),
        lambda x, index, back: _gathered(x, index),
        [normal(5, 2), fixed([3, 5, 0], "int64"), fixed([2, 3, 3, 0, 3], "int64")],
        label="rows",
    ),
    case(
        "SegmentSum",
        lambda x, index, owner: ops.packed_sum(x, index, owner),
        lambda x, index, owner: _gathered(x, index).sum(1),
        [normal(5, 2), GRID, fixed(OWNER, "int64")],
        label="rows",
    ),
    case(
        "SegmentSum",
        lambda x, index, owner: ops.packed_sum(x, index, owner, holes=True),
        lambda x, index, owner: _gathered(x, index).sum(1),
        [normal(5, 2), fixed([[1, 5], [5, 2]], "int64"), fixed([2, 0, 1, 2, 2], "int64")],
        label="holes",
    ),
    case(
        "RepeatRows",
        lambda x, index, owner: ops.repeat_rows(x, index, owner),
        lambda x, index, owner: x[owner],
        [normal(2, 3), GRID, fixed(OWNER, "int64")],
        label="rows",
    ),
    case(
        "RepeatRows",
        lambda x, index, owner: ops.repeat_rows(x, index, owner, holes=True),
        lambda x, index, owner: _gathered(x, owner),
        [normal(2, 3), fixed([[1, 5], [5, 2]], "int64"), fixed([2, 0, 1, 2, 2], "int64")],
        label="holes",
    ),
    case(
        "SegmentMax",
        lambda x, *where: ops.packed_max(x, *where),
        lambda x, index, *_: _gathered(x, index, -np.inf).max(1),
        [
            distinct(5, 2),
            GRID,
            fixed(OWNER, "int64"),
            fixed([2, 0, 1, 2, 1], "int64"),
            fixed([3, 2], "int64"),
        ],
        label="rows",
    ),
    case(
        "SegmentArgMax",
        lambda x, index: ops.packed_arg_max(x, index),
        lambda x, index: _gathered(x, index, -np.inf).argmax(1),
        [distinct(5, 2), GRID],
        smooth=False,
        label="rows",
    ),
]

CASES = [
    *ROWS,
    *verb("sum", each(lambda p: p.sum(0)), operator="SegmentSum", kinds=LENGTHS),
    *verb("mean", each(lambda p: p.mean(0))),
    *verb("max", each(lambda p: p.max(0)), distinct, "SegmentMax", LENGTHS),
    *verb("last", each(lambda p: p[-1]), operator="PermuteRows"),
    *verb("first", each(lambda p: p[0]), operator="PermuteRows"),
    *verb("softmax", lambda x, n: joined([soft(p) for p in parts(x, n)], x), operator="PackRows"),
    *verb("pad", padded, operator="PadRows"),
    *verb("pad", padded, operator="PadRows", fill=7.0, order=1),
    case(
        "SegmentMax",
        lambda x, lengths: Segments(lengths).max(x),
        each(lambda p: p.max(0)),
        [fixed([[1.0], [2.0], [2.0], [3.0], [3.0]], "float32"), fixed([3, 2], "int64")],
        batch=(0, 1),
        label="ties",
        smooth=False,
    ),
    case(
        "SegmentSum",
        lambda x, lengths: Segments(lengths).sum(x),
        lambda x, lengths: np.array([p.sum() for p in parts(x, lengths)]),
        [normal(9), fixed(RAGGED, "int64")],
        batch=(0, 1),
        label="vector",
    ),
    *(
        case(
            "RepeatRows",
            lambda x, lengths: Segments(lengths).repeat(x),
            lambda x, lengths: np.repeat(x, lengths, 0),
            [normal(len(lengths), 2), fixed(lengths, "int64")],
            batch=(0, 1),
            label=label,
        )
        for label, lengths in LENGTHS.items()
    ),
    *(
        case(
            "scan",
            run_along,
            carried,
            [normal(sum(lengths), 2), normal(len(lengths), 2), fixed(lengths, "int64")],
            batch=(0, 1, 2),
            label=label,
            reverse=reverse,
            order=1,
        )
        for label, lengths in FEW.items()
        for reverse in (False, True)
    ),
    case(
        "merge",
        lambda x, outer, inner: Segments(outer).merge(Segments(inner)).sum(x),
        lambda x, outer, inner: np.array(
            [joined(samples, x).sum(0) for samples in _samples(x, outer, inner)]
        ),
        [normal(9, 2), fixed([2, 0, 1, 2], "int64"), fixed([3, 0, 4, 1, 1], "int64")],
        batch=(0, 1, 2),
    ),
    *(
        case(
            "zeros",
            lambda lengths, dtype: Segments(lengths).zeros(2, 3, dtype=dtype),
            lambda lengths, dtype: np.zeros((len(lengths), 2, 3), dtype),
            [fixed(lengths, "int64")],
            label=label,
            dtype=dtype,
            smooth=False,
        )
        for label, lengths in FEW.items()
        for dtype in ("float32", "int64")
    ),
    *(
        case(
            name,
            lambda lengths, attribute: getattr(Segments(lengths), attribute),
            reference,
            [fixed(lengths, "int64")],
            label=label,
            smooth=False,
            attribute=name,
        )
        for name, reference in (
            ("owner", lambda n, attribute: np.repeat(np.arange(len(n)), n)),
            ("position", lambda n, attribute: joined(map(np.arange, n), np.array([], "int64"))),
            ("longest", lambda n, attribute: np.array([max(n, default=0)])),
        )
        for label, lengths in LENGTHS.items()
    ),
]


def _samples(x, outer, inner):
    """The sub-sequences of each sample."""
    pieces, start = parts(x, inner), 0
    for n in outer:
        yield pieces[start : start + n]
        start += n
