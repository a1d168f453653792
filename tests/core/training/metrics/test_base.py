"""What all metrics have in common: any split into batches and merges, states, names, errors."""

import copy
import json
from itertools import pairwise

import numpy as np
import pytest

from pd_core.storage.tree import TreeReader, TreeWriter
from pd_core.training import metrics as m

SIZE = 60


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def data(kind):
    """Predictions, labels and weights, None if the metric has none."""
    rng = np.random.default_rng(16)
    weight = rng.integers(0, 4, SIZE) / 2
    ids = rng.integers(0, 5, SIZE)
    match kind:
        case "classes":
            return softmax(rng.normal(size=(SIZE, 5))).astype(np.float32), ids, weight
        case "tokens":
            scores = softmax(rng.normal(size=(SIZE, 3, 5)))
            return scores, rng.integers(0, 5, (SIZE, 3)), rng.integers(0, 3, (SIZE, 3)) / 2
        case "ids":
            return rng.integers(0, 5, SIZE), ids, weight
        case "binary":  # with ties
            return (rng.integers(0, 11, (SIZE, 1)) / 10), rng.integers(0, 2, (SIZE, 1)), weight
        case "labels":
            return rng.random((SIZE, 4)), rng.integers(0, 2, (SIZE, 4)), weight
        case "outputs":
            return rng.normal(size=(SIZE, 2)), rng.normal(100, 1, (SIZE, 2)), weight
        case "numbers":
            return rng.normal(size=SIZE), None, weight
        case "sentences":
            words = rng.choice(["the", "cat", "sat", "on", "a", "mat", "."], (3, SIZE, 7))
            one, two, three = ([" ".join(line) for line in text] for text in words)
            return (
                one,
                [[a, b] if k % 3 else a for k, (a, b) in enumerate(zip(two, three, strict=True))],
                None,
            )
    raise KeyError(kind)


def weighted_error(y_true, y_pred, sample_weight=None):
    """The mean absolute error of the first output."""
    return np.average(np.abs(y_true - y_pred)[:, 0], weights=sample_weight)


CASES = {
    "accuracy": (m.Accuracy, "classes"),
    "accuracy of tokens": (m.Accuracy, "tokens"),
    "accuracy of ids": (m.Accuracy, "ids"),
    "accuracy of labels": (lambda: m.Accuracy(threshold=0.4), "labels"),
    "binary accuracy": (m.Accuracy, "binary"),
    "top_2": (lambda: m.TopK(2), "tokens"),
    "precision": (m.Precision, "classes"),
    "recall": (lambda: m.Recall("weighted"), "tokens"),
    "f1": (lambda: m.F1(None), "classes"),
    "f1 of ids": (lambda: m.F1("micro", classes=5), "ids"),
    "f1 of labels": (lambda: m.F1(threshold=0.6), "labels"),
    "binary f1": (m.F1, "binary"),
    "confusion": (m.ConfusionMatrix, "classes"),
    "auc": (m.AUC, "binary"),
    "auc in bins": (lambda: m.AUC(bins=7), "binary"),
    "average precision": (m.AveragePrecision, "binary"),
    "average precision in bins": (lambda: m.AveragePrecision(bins=7), "binary"),
    "mae": (m.MeanAbsoluteError, "outputs"),
    "mse": (m.MeanSquaredError, "outputs"),
    "rmse": (m.RootMeanSquaredError, "outputs"),
    "r2": (m.R2, "outputs"),
    "perplexity": (lambda: m.Perplexity(ignore_index=2), "tokens"),
    "mean": (m.Mean, "numbers"),
    "function": (lambda: m.FunctionMetric(weighted_error), "outputs"),
    "bleu": (m.BLEU, "sentences"),
}
ROWS = pytest.mark.parametrize(("make", "kind"), CASES.values(), ids=CASES)
OF_NUMBERS = {name: row for name, row in CASES.items() if name != "bleu"}  # may have weights
NUMBER_ROWS = pytest.mark.parametrize(("make", "kind"), OF_NUMBERS.values(), ids=OF_NUMBERS)


def new(make):
    if make is m.BLEU:
        pytest.importorskip("sacrebleu")
    return make()


def part(values, rows):
    if values is None or isinstance(values, np.ndarray):
        return None if values is None else values[rows]
    return values[rows]


def batches(kind, cuts, is_weighted):
    prediction, label, weight = data(kind)
    edges = [0, *cuts, SIZE]
    for start, end in pairwise(edges):
        rows = slice(start, end)
        yield part(prediction, rows), part(label, rows), part(weight, rows) if is_weighted else None


def seen(make, kind, cuts=(), is_weighted=False):
    metric = new(make)
    for batch in batches(kind, cuts, is_weighted):
        metric.update(*batch)
    return metric


def is_exact(metric, is_weighted):
    """Whether all that is added up are counts."""
    real = (m.MeanAbsoluteError, m.MeanSquaredError, m.R2, m.Perplexity, m.Mean, m.FunctionMetric)
    return not is_weighted and not isinstance(metric, real)


def check(metric, expected, is_weighted=False):
    rtol = 0 if is_exact(metric, is_weighted) else 1e-12
    np.testing.assert_allclose(metric.result(), expected.result(), rtol=rtol)


WEIGHTED = pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])


@ROWS
@WEIGHTED
def test_any_batches_are_as_one(make, kind, is_weighted):
    is_weighted = is_weighted and make is not m.BLEU
    expected = seen(make, kind, (), is_weighted)
    assert np.all(np.isfinite(expected.result()))
    for cuts in ([1], [7, 7, 30], range(1, SIZE)):
        check(seen(make, kind, cuts, is_weighted), expected, is_weighted)


@ROWS
@WEIGHTED
def test_any_merges_are_as_one(make, kind, is_weighted):
    is_weighted = is_weighted and make is not m.BLEU
    expected = seen(make, kind, (), is_weighted)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        parts = []
        for batch in batches(kind, (5, 21, 40), is_weighted):
            parts.append(new(make))
            parts[-1].update(*batch)
        parts = [parts[k] for k in order]
        parts[0].merge(parts[1])
        parts[2].merge(parts[3])
        before = copy.deepcopy(parts[2].state())
        parts[0].merge(parts[2])
        parts[0].merge(new(make))
        check(parts[0], expected, is_weighted)
        np.testing.assert_equal(parts[2].state(), before)
        empty = new(make)
        empty.merge(parts[0])
        check(empty, expected, is_weighted)


@NUMBER_ROWS
def test_equal_weights_are_as_none(make, kind):
    prediction, label, _ = data(kind)
    for weight in (np.full(SIZE, 2), np.ones((SIZE, 1), np.float32), 1):
        metric = new(make)
        metric.update(prediction, label, weight)
        np.testing.assert_allclose(
            metric.result() / float(np.mean(weight)) ** (make is m.ConfusionMatrix),
            seen(make, kind).result(),
            rtol=1e-12,
        )


@NUMBER_ROWS
def test_samples_of_weight_zero_are_not_there(make, kind):
    prediction, label, _ = data(kind)
    weight = np.arange(SIZE) % 3 != 0
    expected = new(make)
    expected.update(prediction[weight], None if label is None else label[weight])
    if prediction.dtype.kind == "f":
        prediction[~weight] = np.nan
    if label is not None:
        label[~weight] = -100
    metric = new(make)
    metric.update(prediction, label, weight)
    np.testing.assert_allclose(metric.result(), expected.result(), rtol=1e-12)


def as_json(state):
    arrays = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state["sums"].items()}
    return json.loads(json.dumps({**state, "sums": arrays}))


def as_checkpoint(state):
    tensors = {}
    tree = json.loads(json.dumps(TreeWriter("test", tensors).encoded("metric", state)))
    return TreeReader("file", tensors).decoded(tree)


@ROWS
@WEIGHTED
@pytest.mark.parametrize("through", [copy.deepcopy, as_json, as_checkpoint])
def test_a_restored_metric_continues(make, kind, is_weighted, through):
    is_weighted = is_weighted and make is not m.BLEU
    whole = seen(make, kind, (20,), is_weighted)
    first, second = batches(kind, (20,), is_weighted)
    metric, resumed = new(make), new(make)
    metric.update(*first)
    state = through(metric.state())
    resumed.update(*second)  # forgotten
    resumed.restore(state)
    np.testing.assert_array_equal(resumed.result(), metric.result())
    resumed.update(*second)
    np.testing.assert_array_equal(resumed.result(), whole.result())
    metric.restore(state)  # which the update did not change
    metric.update(*second)
    np.testing.assert_array_equal(metric.result(), whole.result())


@ROWS
@pytest.mark.parametrize("through", [copy.deepcopy, as_json, as_checkpoint])
def test_nothing_seen_is_nan_until_a_sample(make, kind, through):
    metric = seen(make, kind)
    expected = metric.result()
    metric.reset()
    for _ in range(2):
        result = metric.result()
        if isinstance(metric, m.ConfusionMatrix):
            assert result.shape == (0, 0)
        else:
            assert np.isnan(result).all()
        metric.restore(through(metric.state()))
    empty = [None if values is None else values[:0] for values in data(kind)[:2]]
    metric.update(*empty)
    if not isinstance(metric, m.ConfusionMatrix):
        assert np.isnan(metric.result()).all()
    assert isinstance(metric.result(), np.ndarray) or type(metric.result()) is float
    metric.update(*data(kind)[:2])
    np.testing.assert_array_equal(metric.result(), expected)


@ROWS
def test_results_and_states_are_copies(make, kind):
    metric = seen(make, kind)
    before = copy.deepcopy(metric.result())
    results = [metric.result(), *metric.state()["sums"].values()]
    for array in results:
        if isinstance(array, np.ndarray):
            array[:] = 0
    np.testing.assert_array_equal(metric.result(), before)


def test_buffers_of_batches_may_be_used_again():
    metric, scores, labels = m.AUC(), np.array([0.1, 0.9]), np.array([0, 1])
    metric.update(scores, labels)
    scores[:], labels[:] = 0.5, 0
    assert metric.result() == 1.0


def test_a_metric_merged_with_itself_counts_twice():
    metric = seen(m.AUC, "binary")
    metric.merge(metric)
    assert metric.sums["positives"].sum() + metric.sums["negatives"].sum() == 2 * SIZE


@pytest.mark.parametrize(
    ("metric", "other"),
    [
        (m.Accuracy(), m.Mean()),
        (m.MeanSquaredError(), m.RootMeanSquaredError()),
        (m.TopK(2), m.TopK(3)),
        (m.F1("macro"), m.F1("micro")),
        (m.AUC(), m.AUC(bins=10)),
    ],
    ids=repr,
)
def test_other_options_do_not_fit(metric, other):
    with pytest.raises(TypeError, match="cannot be merged into"):
        metric.merge(other)
    with pytest.raises(ValueError, match=r"the state of .* does not fit"):
        metric.restore(other.state())


def test_states_of_another_form_are_errors():
    metric = seen(m.ConfusionMatrix, "classes")
    before = metric.result()
    state = metric.state()
    for sums, text in (
        ({"matrix": [1, 2]}, "matrix has 2 axes, not 1"),
        ({"counts": 3}, "a state has the sums matrix, not counts"),
    ):
        with pytest.raises(ValueError, match=text):
            metric.restore({**state, "sums": sums})
    np.testing.assert_array_equal(metric.result(), before)
    fixed = m.ConfusionMatrix(classes=3)
    with pytest.raises(ValueError, match=r"matrix of shape \(2, 2\), .* shape \(3, 3\)"):
        fixed.restore({**fixed.state(), "sums": {"matrix": np.ones((2, 2), int)}})


def test_names_are_arguments():
    assert m.Accuracy(name="train").name == "train"
    assert m.F1().name == "f1" and m.TopK(3).name == "top_3"
    assert repr(m.F1("micro", name="x")) == "F1(average='micro', threshold=None, classes=None)"
    merged = m.Accuracy(name="a")
    merged.merge(m.Accuracy(name="b"))
    assert merged.name == "a"


@pytest.mark.parametrize("name", [*m.METRICS, "top_1", "top_5", "top_10"])
def test_metrics_have_names(name):
    if name == "bleu":
        pytest.importorskip("sacrebleu")
    metric = m.metric_by_name(name)
    assert metric.name == name and metric is not m.metric_by_name(name)
    assert isinstance(metric, m.Metric)


@pytest.mark.parametrize("name", ["accurcy", "top_0", "top_", "top_x", "Accuracy"])
def test_unknown_names_say_what_there_is(name):
    with pytest.raises(ValueError, match=f"no metric '{name}', but accuracy, auc, .*top_K"):
        m.metric_by_name(name)


def test_a_mean_is_weighted_by_batches():
    metric = m.Mean(name="cost")
    metric.update(2.0, weight=10)
    metric.update(np.float32(5.0), weight=30)
    assert metric.result() == (2 * 10 + 5 * 30) / 40
    metric.update([1.0, np.inf])
    assert metric.result() == np.inf
    metric.update(np.nan)
    assert np.isnan(metric.result())
    with pytest.raises(TypeError, match="a mean has no labels"):
        metric.update(1.0, 2.0)
    with pytest.raises(TypeError, match="cost: a value holds <U1 values"):
        metric.update("a")


def test_a_metric_of_ones_own():
    class Bias(m.MeanMetric):
        def update(self, prediction, label, weight=None):
            self.add_mean(prediction - label, weight)

    metric, other = Bias("bias"), Bias("bias")
    metric.update(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    other.update(np.array([[5.0, 7.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 1.0]]), [1, 0])
    metric.merge(other)
    assert metric.result() == (1 - 2 + 4 + 6) / 4
