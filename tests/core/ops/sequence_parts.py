"""Rows of functions that slice, concatenate, rank and window packed sequences."""

import numpy as np

from pd_core import ops
from pd_core.ops import Segments

from .case import between, case, distinct, fixed, normal
from .sequence import FEW, LENGTHS, RAGGED, joined, parts

# ---- windows


def windows(lengths, size, from_end):
    """The lengths of the windows of each sequence."""
    for n in lengths:
        cuts = [min(size, n - k) for k in range(0, n, size)]
        yield cuts[::-1] if from_end else cuts


def _sums(x, lengths, size, from_end):
    sizes = [n for cuts in windows(lengths, size, from_end) for n in cuts]
    return np.array([p.sum(0) for p in parts(x, sizes)]).reshape(-1, x.shape[1])


def _counts(lengths, size, from_end):
    return np.array([len(cuts) for cuts in windows(lengths, size, from_end)], "int64")


def windowed(label, lengths, **options):
    """A row for the sums of windows, and one for the number of windows of each sequence."""
    yield case(
        "SegmentSum",
        lambda x, n, **o: ops.sequence_windows(Segments(n), **o)[1].sum(x),
        _sums,
        [normal(sum(lengths), 2), fixed(lengths, "int64")],
        batch=(0, 1),
        label=f"windows, {label}",
        **options,
    )
    yield case(
        "sequence_windows",
        lambda n, **o: ops.sequence_windows(Segments(n), **o)[0].lengths,
        _counts,
        [fixed(lengths, "int64")],
        label=label,
        smooth=False,
        **options,
    )


# ---- slices


def _slices(x, lengths, starts, counts):
    steps = []
    for p, row in zip(parts(x, lengths), zip(starts, counts, strict=True), strict=True):
        steps.append([p[a : a + n] for a, n in zip(*row, strict=True) if n >= 0])
    flat = [s for slices in steps for s in slices]
    chosen = np.array([len(slices) for slices in steps], "int64")
    return [chosen, np.array([len(s) for s in flat], "int64"), joined(flat, x)]


def cut(label, lengths, starts, counts):
    shape = (len(lengths), -1)
    return case(
        "RepeatRows",
        lambda x, n, starts, counts: ops.sequence_slice(Segments(n), x, starts, counts)[2],
        lambda *arrays: _slices(*arrays)[2],
        [
            normal(sum(lengths), 2),
            fixed(lengths, "int64"),
            *(
                fixed(np.reshape(v, shape if lengths else (0, 2)), "int64")
                for v in (starts, counts)
            ),
        ],
        batch=(0, 1, 2, 3),
        label=label,
    )


def cut_lengths(row):
    """The row of the same slices for their lengths."""
    return case(
        "cut lengths",
        lambda x, n, *cuts: [s.lengths for s in ops.sequence_slice(Segments(n), x, *cuts)[:2]],
        lambda *arrays: _slices(*arrays)[:2],
        row.samples,
        batch=row.batch,
        label=row.label,
        smooth=False,
    )


CUTS = [
    cut(
        "overlapping", RAGGED, [[0, 1], [0, 0], [0, 0], [1, 3]], [[3, 2], [-1, -1], [1, -1], [4, 2]]
    ),
    cut("empty slice", RAGGED, [[3, 0], [0, 0], [1, 0], [5, 4]], [[0, 1], [0, -1], [0, 1], [0, 1]]),
    cut("none", [2, 1], [[0], [0]], [[-1], [-1]]),
    cut("a hole", [3, 2], [[0, 0, 1], [1, 0, 0]], [[-1, 1, 2], [1, -1, 2]]),
    cut("no steps", [0, 0], [[0], [0]], [[0], [-1]]),
    cut("no sequences", [], [], []),
]

# ---- surroundings


def _context(x, lengths, start, count):
    out = []
    for p in parts(x, lengths):
        rows = np.zeros((len(p), count, *x.shape[1:]))
        for t, j in np.ndindex(len(p), count):
            if 0 <= t + start + j < len(p):
                rows[t, j] = p[t + start + j]
        out.append(rows)
    return joined(out, np.zeros((0, count, *x.shape[1:])))


def _overrun(lengths, start, count):
    out = []
    for n in lengths:
        places = np.arange(n)[:, None] + start + np.arange(count)
        out.append(np.minimum(places, 0) + np.maximum(places - n + 1, 0))
    return joined(out, np.zeros((0, count), "int64"))


# ---- order


def _ranks(x, lengths):
    places = [np.argsort(np.argsort(-p, kind="stable")) for p in parts(x, lengths)]
    return joined(places, np.zeros(0, "int64"))


def _top(x, lengths, count):
    out = np.full((len(lengths), count), -1)
    for row, p in zip(out, parts(x, lengths), strict=True):
        best = np.argsort(-p, kind="stable")[:count]
        row[: len(best)] = best
    return out


def dcg(relevance, count):
    return sum((2**r - 1) / np.log(k + 2) for k, r in enumerate(relevance[:count]))


def ndcg_of(scores, relevance, lengths, count):
    out = []
    for s, r in zip(parts(scores, lengths), parts(relevance, lengths), strict=True):
        best = dcg(np.sort(r)[::-1], count)
        out.append(dcg(r[np.argsort(-s, kind="stable")], count) / best if best else 0.0)
    return np.array(out)


def lambda_rank_of(scores, relevance, lengths, count, sort_size=None):
    out = []
    for s, r in zip(parts(scores, lengths), parts(relevance, lengths), strict=True):
        order = np.argsort(-r, kind="stable")
        size = len(s) if sort_size is None else min(sort_size, len(s))
        best, grad = dcg(r[order], count), np.zeros(len(s))
        for i in range(size if best else 0):
            for j in range(i + 1, len(s)):
                a, b = order[i], order[j]
                behind = 1 / np.log(j + 2) if j < size else 0.0
                change = abs((2.0 ** r[a] - 2.0 ** r[b]) * (1 / np.log(i + 2) - behind))
                pull = -change / (1 + np.exp(s[a] - s[b])) / best
                grad[a] += pull
                grad[b] -= pull
        out.append(grad)
    return joined(out, np.zeros(0))


def ranking(function, reference, **options):
    for label, lengths in FEW.items():
        total = sum(lengths)
        relevance = np.resize([2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 1.0], total)
        yield case(
            function.__name__,
            lambda s, r, lengths, **o: function(Segments(lengths), s, r, **o),
            reference,
            [between(-1, 1, total), fixed(relevance, "float32"), fixed(lengths, "int64")],
            batch=(0, 1, 2),
            label=label,
            smooth=False,
            **options,
        )


CASES = [
    *(
        row
        for label, lengths in FEW.items()
        for size in (2, 5)
        for from_end in (False, True)
        for row in windowed(label, lengths, size=size, from_end=from_end)
    ),
    *(
        case(
            "PermuteRows",
            lambda x, y, n, k: ops.sequence_concat(Segments(n), Segments(k), x, y)[1],
            lambda x, y, n, k: joined(
                [v for pair in zip(parts(x, n), parts(y, k), strict=True) for v in pair], x
            ),
            [normal(sum(a), 2), normal(sum(b), 2), fixed(a, "int64"), fixed(b, "int64")],
            batch=(0, 1, 2, 3),
            label=f"{a} and {b}",
        )
        for a, b in ((RAGGED, [1, 2, 0, 0]), ([0, 0], [0, 1]), ([], []))
    ),
    *CUTS,
    *map(cut_lengths, CUTS),
    *(
        case(
            "sequence_context",
            lambda x, n, start, count: ops.sequence_context(Segments(n), x, start, count),
            _context,
            [normal(sum(lengths), 2), fixed(lengths, "int64")],
            batch=(0, 1),
            label=label,
            start=start,
            count=count,
        )
        for label, lengths in FEW.items()
        for start, count in ((-1, 3), (0, 2), (2, 2), (-4, 3))
    ),
    *(
        case(
            "sequence_overhang",
            lambda n, start, count: ops.sequence_overhang(Segments(n), start, count),
            _overrun,
            [fixed(lengths, "int64")],
            label=label,
            start=start,
            count=count,
            smooth=False,
        )
        for label, lengths in FEW.items()
        for start, count in ((-2, 5), (4, 3))
    ),
    *(
        case(
            "sequence_top_k",
            lambda x, n, count: ops.sequence_top_k(Segments(n), x, count),
            _top,
            [sample, fixed(lengths, "int64")],
            batch=(0, 1),
            label=label,
            count=3,
            smooth=False,
        )
        for label, sample, lengths in (
            *((label, distinct(sum(n)), n) for label, n in LENGTHS.items()),
            ("ties", fixed([1.0, 2.0, 2.0, 0.0, 2.0], "float32"), [5]),
        )
    ),
    *(
        case(
            "sequence_ranks",
            lambda x, n: ops.sequence_ranks(Segments(n), x),
            _ranks,
            [fixed(np.resize([1.0, 2.0, 2.0, 0.0, 1.0], sum(n)), "float32"), fixed(n, "int64")],
            batch=(0, 1),
            label=label,
            smooth=False,
        )
        for label, n in FEW.items()
    ),
    *ranking(ops.ndcg, ndcg_of, count=3),
    *ranking(ops.lambda_rank, lambda_rank_of, count=2),
    *ranking(ops.lambda_rank, lambda_rank_of, count=2, sort_size=3),
]
