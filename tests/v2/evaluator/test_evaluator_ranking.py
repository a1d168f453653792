"""auc and pnpair against loops over all pairs of rows."""

import numpy as np
import pytest

import pd_core as pd
from pd_v2 import evaluator as E
from pd_v2.evaluator import ranking

from .evaluator_checks import ids, metric, rows


def area(scores, label, w):
    """How often a positive row stands above a negative one, ties half."""
    won = total = 0.0
    for a in range(len(scores)):
        for b in range(len(scores)):
            if label[a] and not label[b]:
                total += w[a] * w[b]
                won += w[a] * w[b] * (0.5 * (scores[a] == scores[b]) + (scores[a] > scores[b]))
    return won / total


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


def draw(rng, n, weighted, ties=8):
    scores = rng.integers(0, ties, n) / (ties - 1)
    w = rng.uniform(0.1, 2, (n, 1)).astype(np.float32)
    feeds = {"x": np.stack([1 - scores, scores], 1), "label": rng.integers(0, 3, n)}
    return feeds | ({"w": w} if weighted else {})


def joined(batches, name):
    return np.concatenate([b[name] for b in batches])


def weights_of(batches):
    n = len(joined(batches, "x"))
    return joined(batches, "w")[:, 0] if "w" in batches[0] else np.ones(n)


@pytest.mark.parametrize("merge_at", [2**20, 10])
def test_area_under_the_curve(weighted, merge_at, rng, monkeypatch):
    monkeypatch.setattr(ranking, "_MERGE_AT", merge_at)
    E.auc(rows(size=2), ids(size=3), weight=rows("w", 1) if weighted else None)
    batches = [draw(rng, n, weighted) for n in (30, 1, 20)]
    scores = joined(batches, "x")[:, 1]
    expected = area(scores, joined(batches, "label"), weights_of(batches))
    assert metric(*batches) == pytest.approx(expected, rel=1e-6)


def test_a_label_of_one_number_a_row(rng):
    E.auc(rows(size=1), rows("label", 1))
    x, label = rng.uniform(0, 1, (20, 1)), rng.integers(0, 2, (20, 1))
    expected = area(x[:, 0], label[:, 0], np.ones(20))
    assert metric({"x": x, "label": label}) == pytest.approx(expected)


def test_a_number_counts_as_a_label_by_its_whole_part():
    E.auc(rows(size=1), rows("label", 1))
    assert metric({"x": [[0.25], [0.5], [0.75]], "label": [[1.0], [0.9], [2.5]]}) == 0.5


def test_scores_that_fall_into_one_bin_are_equal():
    """There are 2^24 bins, so 1e-9 is no less than 2e-8."""
    E.auc(rows(size=1), ids())
    assert metric({"x": [[1e-9], [2e-8]], "label": [0, 1]}) == 0.5
    assert metric({"x": [[1e-9], [1e-7]], "label": [0, 1]}) == 1.0


@pytest.mark.parametrize("label", [[0, 0], [1, 2], []])
def test_one_kind_of_rows_has_no_area(label):
    E.auc(rows(size=1), ids())
    assert metric({"x": np.ones((len(label), 1)), "label": np.array(label, np.int64)}) == 0.0


def test_only_the_order_of_scores_counts():
    E.auc(rows(size=1), ids())
    label = np.array([0, 1, 0, 1, 1, 0])
    scores = np.array([-3.0, 2.5, 0.25, 0.75, -1e30, 1e-3])
    wins = (scores[label == 1, None] > scores[label == 0]).mean()
    assert metric({"x": scores[:, None], "label": label}) == pytest.approx(wins)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"auc: a score is {bad}"):
            metric({"x": np.array([[0.5], [bad]]), "label": [0, 1]})


def test_a_probability_may_be_rounded():
    E.auc(rows(size=1), ids())
    assert metric({"x": np.float32([[1.0000001], [-1e-8], [0.5]]), "label": [1, 0, 0]}) == 1.0


def test_what_auc_refuses():
    with pytest.raises(pd.ShapeError, match="auc: the label 'label' is 2 wide, not 1"):
        E.auc(rows(), rows("label", 2))
    with pytest.raises(pd.ShapeError, match="auc: the weight 'w' is 2 wide, not 1"):
        E.auc(rows("z"), ids("l"), weight=rows("w", 2))


# ---- pnpair


def pairs(scores, label, query, w):
    """Right over wrong pairs of one query."""
    right = wrong = 0.0
    for a in range(len(scores)):
        for b in range(a):
            if query[a] == query[b] and label[a] != label[b] and scores[a] != scores[b]:
                agree = (scores[a] > scores[b]) == (label[a] > label[b])
                right += agree * (w[a] + w[b]) / 2
                wrong += (not agree) * (w[a] + w[b]) / 2
    return right / wrong


def test_pairs_of_one_query(weighted, rng):
    weight = rows("w", 1) if weighted else None
    E.pnpair(rows(size=2), ids(size=3), ids("query", 5), weight=weight)
    batches = [draw(rng, n, weighted) | {"query": rng.integers(0, 5, n)} for n in (25, 1, 15)]
    columns = joined(batches, "x")[:, 1], joined(batches, "label"), joined(batches, "query")
    assert metric(*batches) == pytest.approx(pairs(*columns, weights_of(batches)), rel=1e-5)


def test_without_wrong_pairs_the_right_ones_are_counted():
    E.pnpair(rows(size=1), ids(), ids("query"))
    feeds = {"x": np.array([[1.0], [2.0], [3.0]]), "label": [0, 1, 2], "query": [7, 7, 7]}
    assert metric(feeds) == 3.0
    assert metric() == 0.0
    assert metric({k: v[:0] for k, v in feeds.items()} | {"label": np.zeros(0, np.int64)}) == 0.0


def test_what_pnpair_refuses():
    x, label = rows(), ids()
    with pytest.raises(pd.DTypeError, match="pnpair: 'q' holds rows of numbers, no ids"):
        E.pnpair(x, label, rows("q", 1))
