"""AUC and average precision, by all pairs and by scikit-learn."""

import numpy as np
import pytest

from pd_core.training import metrics as m

ROWS = 150


def value(metric, *batch):
    metric.update(*batch)
    return metric.result()


def data(rng, ties):
    scores = rng.integers(0, 8, ROWS) / 8 if ties else rng.random(ROWS)
    return scores, (rng.random(ROWS) < 0.3 + 0.4 * scores).astype(int), rng.random(ROWS)


def by_pairs(scores, labels, weight):
    """Weighted share of pairs that are in order; equal scores count one half."""
    total = right = 0.0
    for i in np.flatnonzero(labels):
        for j in np.flatnonzero(labels == 0):
            total += weight[i] * weight[j]
            share = 0.5 if scores[i] == scores[j] else float(scores[i] > scores[j])
            right += weight[i] * weight[j] * share
    return right / total


@pytest.mark.parametrize("ties", [False, True])
def test_auc_by_pairs(rng, ties):
    scores, labels, weight = data(rng, ties)
    expected = by_pairs(scores, labels, np.ones(ROWS))
    for p, y in ((scores, labels), (scores[:, None], labels[:, None]), (scores, labels == 1)):
        assert value(m.AUC(), p, y) == pytest.approx(expected, rel=1e-12)
    probabilities = np.stack([1 - scores, scores], 1)
    assert value(m.AUC(), probabilities, labels) == pytest.approx(expected, rel=1e-12)
    assert value(m.AUC(), probabilities, np.eye(2)[labels]) == pytest.approx(expected, rel=1e-12)
    assert value(m.AUC(), np.log(scores + 1e-9), labels) == pytest.approx(expected, rel=1e-12)
    expected = by_pairs(scores, labels, weight)
    assert value(m.AUC(), scores, labels, weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_areas_as_scikit_learn(rng, ties, is_weighted):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels, weight = data(rng, ties)
    weight = weight if is_weighted else None
    for metric, function in (
        (m.AUC(), sklearn.roc_auc_score),
        (m.AveragePrecision(), sklearn.average_precision_score),
    ):
        expected = function(labels, scores, sample_weight=weight)
        assert value(metric, scores, labels, weight) == pytest.approx(expected, rel=1e-12)


def test_average_precision_by_hand():
    # cut at 0.9: 1/1; at 0.8: 2 of 3 (a tie); at 0.1: 3 of 5
    scores, labels = [0.9, 0.8, 0.8, 0.5, 0.1], [1, 1, 0, 0, 1]
    expected = (1 / 1 + 2 / 3 + 3 / 5) / 3
    assert value(m.AveragePrecision(), scores, labels) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", [m.AUC, m.AveragePrecision])
def test_bins_are_equal_scores(rng, kind):
    scores, labels, weight = data(rng, ties=False)
    scores[:2] = 0, 1
    for bins in (1, 5, 64):
        rounded = np.minimum(np.floor(scores * bins), bins - 1)
        for w in (None, weight):
            expected = value(kind(), rounded, labels, w)
            assert value(kind(bins=bins), scores, labels, w) == pytest.approx(expected, rel=1e-12)
    exact = value(kind(), scores, labels)
    assert value(kind(bins=100_000), scores, labels) == pytest.approx(exact, rel=1e-12)


def test_bins_take_constant_memory(rng):
    metric = m.AUC(bins=10)
    for _ in range(3):
        metric.update(rng.random(500), rng.integers(0, 2, 500))
    assert {key: value.shape for key, value in metric.sums.items()} == {
        "positives": (10,),
        "negatives": (10,),
    }


def test_equal_scores_take_memory_once(rng):
    metric = m.AUC()
    for _ in range(3):
        metric.update(rng.integers(0, 4, 500) / 4, rng.integers(0, 2, 500))
    np.testing.assert_array_equal(metric.sums["scores"], [0, 0.25, 0.5, 0.75])
    assert metric.sums["positives"].dtype == np.int64


def test_infinite_scores_have_an_order():
    scores = [-np.inf, 0.0, np.inf, np.inf]
    assert value(m.AUC(), scores, [0, 0, 1, 1]) == 1.0
    assert value(m.AUC(), scores, [0, 1, 0, 1]) == by_pairs(
        np.array(scores), np.array([0, 1, 0, 1]), np.ones(4)
    )


@pytest.mark.parametrize("bins", [None, 4])
def test_one_class_has_no_area(bins):
    assert np.isnan(value(m.AUC(bins), [0.1, 0.2], [1, 1]))
    assert np.isnan(value(m.AUC(bins), [0.1, 0.2], [0, 0]))
    assert np.isnan(value(m.AveragePrecision(bins), [0.1, 0.2], [0, 0]))
    assert value(m.AveragePrecision(bins), [0.1, 0.2], [1, 1]) == 1.0


ERRORS = {
    "classes": (m.AUC(), (np.zeros((2, 3)), [0, 1]), r"auc: prediction \(2, 3\) has 3 classes"),
    "logits": (m.AUC(), ([[1.0, 2.0]], [0]), r"the sum of \[1.0, 2.0\] is not 1\n  hint: softmax"),
    "integers": (m.AUC(), ([0, 1], [0, 1]), r"auc: prediction \(2,\) holds integers"),
    "shapes": (m.AUC(), ([0.1, 0.2], [0]), r"auc: .*shape \(2,\), label has shape \(1,\)"),
    "label": (m.AUC(), ([0.1, 0.2], [0, 2]), "auc: label 2, not an integer from 0 to 1"),
    "nan": (m.AUC(), ([0.1, np.nan], [0, 1]), "auc: prediction is nan in 1 of 2 samples"),
    "range": (m.AUC(bins=5), ([0.1, 1.5], [0, 1]), "auc: score 1.5, bins take scores from 0 to 1"),
    "name": (m.AveragePrecision(), ([np.nan], [0]), "average_precision: prediction is nan"),
}


@pytest.mark.parametrize(("metric", "batch", "text"), ERRORS.values(), ids=ERRORS)
def test_errors_leave_a_metric_as_it_was(metric, batch, text):
    before = metric.state()
    with pytest.raises((ValueError, TypeError), match=text):
        metric.update(*batch)
    np.testing.assert_equal(metric.state(), before)


def test_bins_are_at_least_one():
    with pytest.raises(ValueError, match="auc: bins is 0, not 1 or greater"):
        m.AUC(bins=0)
