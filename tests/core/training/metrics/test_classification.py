"""Accuracy, top k, precision, recall, F1 and confusion matrices, by loops and by scikit-learn."""

import numpy as np
import pytest

from pd_core.training import metrics as m

ROWS, CLASSES = 200, 6


@pytest.fixture
def multi(rng):
    """Scores, ids and weights; class 5 is never predicted, class 4 never a label."""
    scores = rng.normal(size=(ROWS, CLASSES)).astype(np.float32)
    scores[:, 5] -= 20
    labels = rng.choice([0, 1, 2, 3, 5], ROWS)
    return scores, labels, rng.random(ROWS)


def value(metric, *batch):
    metric.update(*batch)
    return metric.result()


def one_hot(labels, classes=CLASSES):
    return np.eye(classes)[labels]


# ---- accuracy


def test_accuracy_of_all_shapes(multi):
    scores, labels, weight = multi
    hits = [
        int(max(range(CLASSES), key=lambda c: s[c])) == y
        for s, y in zip(scores, labels, strict=True)
    ]
    expected = sum(hits) / ROWS
    for y in (labels, labels[:, None], one_hot(labels), labels.astype(np.float32)):
        assert value(m.Accuracy(), scores, y) == expected
    assert value(m.Accuracy(), scores.argmax(1), labels[:, None]) == expected
    assert value(m.Accuracy(), scores.tolist(), labels.tolist()) == expected
    weighted = sum(w for w, hit in zip(weight, hits, strict=True) if hit) / sum(weight)
    assert value(m.Accuracy(), scores, labels, weight) == pytest.approx(weighted, rel=1e-12)


def test_accuracy_of_sequences(multi):
    scores, labels, weight = multi
    expected = value(m.Accuracy(), scores, labels)
    scores, labels = scores.reshape(20, 10, CLASSES), labels.reshape(20, 10)
    for y in (labels, labels[..., None], one_hot(labels)):
        assert value(m.Accuracy(), scores, y) == expected
    assert value(m.Accuracy(), scores.argmax(-1), labels) == expected
    hits = scores.argmax(-1) == labels
    by_sequence = weight[:20]
    expected = (hits.mean(1) @ by_sequence) / by_sequence.sum()
    assert value(m.Accuracy(), scores, labels, by_sequence) == pytest.approx(expected)
    mask = weight.reshape(20, 10) > 0.3
    assert value(m.Accuracy(), scores, labels, mask) == pytest.approx(hits[mask].mean())


@pytest.mark.parametrize("shape", [(6,), (6, 1), (3, 2, 1)])
def test_binary_accuracy(shape):
    scores = np.array([0.1, 0.5, 0.51, 0.9, 0.2, 0.8]).reshape(shape)
    labels = np.array([0, 0, 1, 1, 1, 0]).reshape(shape)
    assert value(m.Accuracy(), scores, labels) == 4 / 6
    assert value(m.Accuracy(), scores > 0.5, labels) == 4 / 6
    assert value(m.Accuracy(threshold=0.85), scores, labels) == 4 / 6
    assert value(m.Accuracy(threshold=0.3), scores, labels.astype(bool)) == 3 / 6


def test_two_columns_are_two_classes():
    scores = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    assert value(m.Accuracy(), scores, [0, 0, 0]) == 2 / 3
    assert value(m.Accuracy(), scores, [[0, 1], [0, 1], [0, 1]]) == 1 / 3


def test_accuracy_of_several_labels():
    scores = np.array([[0.9, 0.1, 0.6], [0.2, 0.7, 0.4]])
    labels = np.array([[1, 1, 1], [0, 0, 0]])
    assert value(m.Accuracy(threshold=0.5), scores, labels) == 4 / 6
    assert value(m.Accuracy(threshold=0.5), scores, labels, [1, 3]) == pytest.approx(8 / 12)


def test_top_k(multi):
    torch = pytest.importorskip("torch")
    scores, labels, weight = multi
    for k in range(1, CLASSES + 1):
        best = torch.topk(torch.from_numpy(scores), k).indices.numpy()
        hits = (best == labels[:, None]).any(1)
        assert value(m.TopK(k), scores, labels) == hits.mean()
        assert value(m.TopK(k), scores, one_hot(labels), weight) == pytest.approx(
            np.average(hits, weights=weight)
        )
    assert value(m.TopK(1), scores, labels) == value(m.Accuracy(), scores, labels)
    assert value(m.TopK(CLASSES), scores, labels) == 1.0


def test_first_of_equal_scores_is_higher():
    scores = np.zeros((4, 4))
    labels = np.arange(4)
    assert [value(m.TopK(k), scores, labels) for k in (1, 2, 3)] == [0.25, 0.5, 0.75]
    assert value(m.Accuracy(), scores, labels) == 0.25


# ---- precision, recall, F1

KINDS = {
    "precision": (m.Precision, "precision_score"),
    "recall": (m.Recall, "recall_score"),
    "f1": (m.F1, "f1_score"),
}
CLASSIFIED = pytest.mark.parametrize(("kind", "function"), KINDS.values(), ids=KINDS)
AVERAGES = pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])


def by_hand(kind, decisions, labels):
    """A metric of one class, whose decisions and labels are bool."""
    hits = sum(1 for d, y in zip(decisions, labels, strict=True) if d and y)
    predicted, labelled = sum(decisions), sum(labels)
    precision, recall = hits / (predicted or 1), hits / (labelled or 1)
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return {m.Precision: precision, m.Recall: recall, m.F1: f1}[kind]


@CLASSIFIED
def test_classes_by_hand(multi, kind, function):
    scores, labels, _ = multi
    decisions = scores.argmax(1)
    ratios = [by_hand(kind, decisions == c, labels == c) for c in range(CLASSES)]
    counts = np.bincount(labels, minlength=CLASSES)
    np.testing.assert_allclose(value(kind(None), scores, labels), ratios)
    assert value(kind("macro"), scores, labels) == pytest.approx(np.mean(ratios))
    assert value(kind("weighted"), scores, labels) == pytest.approx(ratios @ counts / ROWS)
    assert value(kind("micro"), scores, labels) == np.mean(decisions == labels)


@CLASSIFIED
@AVERAGES
@pytest.mark.parametrize("is_weighted", [False, True])
def test_classes_as_scikit_learn(multi, kind, function, average, is_weighted):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels, weight = multi
    weight = weight if is_weighted else None
    expected = getattr(sklearn, function)(
        labels, scores.argmax(1), average=average, sample_weight=weight, zero_division=0
    )
    for y in (labels, one_hot(labels)):
        np.testing.assert_allclose(value(kind(average), scores, y, weight), expected)
    ids = value(kind(average, classes=CLASSES), scores.argmax(1), labels, weight)
    np.testing.assert_allclose(ids, expected)


@CLASSIFIED
@AVERAGES
def test_absent_classes_as_scikit_learn(multi, kind, function, average):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels, _ = multi
    scores[:, 4] = -np.inf
    labels[labels == 5] = 0  # so 4 and 5 are neither
    expected = getattr(sklearn, function)(labels, scores.argmax(1), average=average)
    result = value(kind(average), scores, labels)
    if average is None:
        assert np.isnan(result[4:]).all()
        result = result[:4]
    np.testing.assert_allclose(result, expected)


@CLASSIFIED
@AVERAGES
@pytest.mark.parametrize("is_weighted", [False, True])
def test_several_labels_as_scikit_learn(rng, kind, function, average, is_weighted):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels = rng.random((ROWS, 4)), rng.integers(0, 2, (ROWS, 4))
    scores[:, 3] = labels[:, 3] = 0  # neither label nor decision
    weight = rng.random(ROWS) if is_weighted else None
    expected = getattr(sklearn, function)(
        labels, scores > 0.7, average=average, sample_weight=weight, zero_division=0
    )
    result = value(kind(average, threshold=0.7), scores, labels, weight)
    np.testing.assert_allclose(result, expected)


@CLASSIFIED
@AVERAGES
@pytest.mark.parametrize("threshold", [None, 0.2])
def test_binary_as_scikit_learn(rng, kind, function, average, threshold):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels, weight = rng.random((ROWS, 1)), rng.integers(0, 2, ROWS), rng.random(ROWS)
    decisions = scores[:, 0] > (threshold or 0.5)
    expected = getattr(sklearn, function)(labels, decisions, sample_weight=weight)
    result = value(kind(average, threshold), scores, labels, weight)
    assert type(result) is float and result == pytest.approx(expected)


@CLASSIFIED
def test_no_positives_are_zero(kind, function):
    assert value(kind(), [0.1, 0.2], [0, 0]) == 0.0
    assert value(kind("weighted", threshold=0.5), np.zeros((2, 2)), np.zeros((2, 2))) == 0.0
    assert np.isnan(value(kind(), [0.1, 0.2], [0, 0], [0, 0]))


def test_nothing_seen_of_known_classes():
    np.testing.assert_array_equal(m.F1(None, classes=3).result(), [np.nan] * 3)
    np.testing.assert_array_equal(m.ConfusionMatrix(classes=2).result(), [[0, 0], [0, 0]])


# ---- confusion matrices


def test_confusion_matrix(multi):
    scores, labels, weight = multi
    expected = np.zeros((CLASSES, CLASSES), int)
    for s, y in zip(scores, labels, strict=True):
        expected[y, np.argmax(s)] += 1
    result = value(m.ConfusionMatrix(), scores, labels)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, expected)
    by_ids = value(m.ConfusionMatrix(CLASSES), scores.argmax(1), labels)
    np.testing.assert_array_equal(by_ids, expected)
    sklearn = pytest.importorskip("sklearn.metrics")
    theirs = sklearn.confusion_matrix(
        labels, scores.argmax(1), sample_weight=weight, labels=range(CLASSES)
    )
    np.testing.assert_allclose(value(m.ConfusionMatrix(), scores, labels, weight), theirs)


def test_confusion_matrix_of_one_class():
    scores, labels = [0.1, 0.6, 0.9, 0.4, 0.8], [0, 0, 1, 1, 1]
    for metric in (m.ConfusionMatrix(), m.ConfusionMatrix(classes=2)):
        np.testing.assert_array_equal(value(metric, scores, labels), [[1, 1], [1, 2]])
    metric = m.ConfusionMatrix(threshold=0.85)
    np.testing.assert_array_equal(value(metric, scores, labels), [[2, 0], [2, 1]])


# ---- errors

ZEROS = np.zeros((2, 3))
ERRORS = {
    "shapes": (m.Accuracy(), (ZEROS, [0]), r"accuracy: prediction .*\(2, 3\), label .*\(1,\)"),
    "rows": (m.F1(), ([0.1, 0.2], [1]), r"f1: prediction has shape \(2,\), label has shape \(1,\)"),
    "axes": (m.TopK(2), (ZEROS, ZEROS[None]), r"top_2: .*\(2, 3\), label has shape \(1, 2, 3\)"),
    "weight": (m.Accuracy(), (ZEROS, [0, 1], [1]), r"weight .*\(1,\), the samples .*\(2,\)"),
    "weight axes": (m.Accuracy(), (ZEROS, [0, 1], ZEROS), r"weight .*\(2, 3\), the samples"),
    "weight sign": (m.Accuracy(), (ZEROS, [0, 1], [1, -2]), "weight -2.0, weights are 0 or"),
    "weight nan": (m.Accuracy(), (ZEROS, [0, 1], [1, np.nan]), "accuracy: weight nan"),
    "label": (m.Accuracy(), (ZEROS, [0, 3]), "accuracy: label 3, not an integer from 0 to 2"),
    "negative": (m.TopK(1), (ZEROS, [-1, 0]), "top_1: label -1, not an integer from 0 to 2"),
    "real": (m.F1(), (ZEROS, [0.5, 0]), "f1: label 0.5, not an integer from 0 to 2"),
    "nan label": (m.F1(), (ZEROS, [np.nan, 0]), "f1: label nan, not an integer"),
    "binary": (m.Accuracy(), ([0.2, 0.3], [0, 2]), "label 2, not an integer from 0 to 1"),
    "class": (m.F1(classes=2), ([0, 2], [0, 1]), "predicted class 2, not an integer from 0 to 1"),
    "class below": (m.Accuracy(), ([0, -2], [0, 1]), "predicted class -2, not an integer from 0"),
    "soft": (m.Accuracy(), (ZEROS, ZEROS + 0.3), "label 0.3, not an integer from 0 to 1"),
    "many hot": (
        m.Accuracy(),
        (ZEROS, [[1, 0, 0], [1, 1, 0]]),
        r"\[1, 1, 0\] has 2 ones.*\n.*hint",
    ),
    "no hot": (m.TopK(2), (ZEROS, ZEROS), "has 0 ones, one-hot labels have one"),
    "nan": (
        m.Accuracy(),
        (ZEROS + np.nan, [0, 1]),
        "accuracy: prediction is nan in 2 of 2 samples",
    ),
    "a nan": (m.Precision(), ([0.1, np.nan], [0, 1]), "precision: prediction is nan in 1 of 2"),
    "one nan": (m.ConfusionMatrix(), ([[0, np.nan]], [0]), "matrix: prediction is nan in 1 of 1"),
    "text": (m.Accuracy(), (["a"], [0]), "accuracy: prediction holds <U1 values"),
    "threshold": (m.F1(threshold=0.5), (ZEROS, [0, 1]), r"\(2,\)\n  with a threshold, labels are"),
    "no scores": (m.Accuracy(0.5), ([0, 1], [0, 1]), "a threshold is for scores, predictions are"),
    "classes": (m.Recall(), ([0, 1], [0, 1]), "recall: predicted classes need the number of"),
    "other": (m.F1(classes=4), (ZEROS, [0, 1]), r"f1: prediction .*\(2, 3\), there are 4 classes"),
    "one class": (m.F1(classes=4), ([0.5], [1]), r"f1: .*shape \(1,\), there are 4 classes"),
    "k": (m.TopK(4), (ZEROS, [0, 1]), r"top_4: .*\(2, 3\), which are scores of fewer than 4"),
    "no k": (m.TopK(2), ([0.1], [1]), r"top_2: .*\(1,\), which are scores of fewer than 2"),
    "matrix": (m.ConfusionMatrix(threshold=0.1), (ZEROS, [0, 1]), "a threshold is for scores of"),
}


@pytest.mark.parametrize(("metric", "batch", "text"), ERRORS.values(), ids=ERRORS)
def test_errors_leave_a_metric_as_it_was(metric, batch, text):
    before = metric.state()
    with pytest.raises((ValueError, TypeError), match=text):
        metric.update(*batch)
    np.testing.assert_equal(metric.state(), before)


def test_the_number_of_classes_does_not_change():
    metric = m.F1()
    metric.update(ZEROS, [0, 1])
    with pytest.raises(ValueError, match=r"f1: hits of shape \(4,\), .* before have shape \(3,\)"):
        metric.update(np.zeros((2, 4)), [0, 1])


def test_options_are_checked():
    with pytest.raises(ValueError, match="f1: average is 'binary', not one of"):
        m.F1("binary")
    with pytest.raises(ValueError, match="k is 0, not 1 or greater"):
        m.TopK(0)
