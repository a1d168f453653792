"""Functions of labels and predictions as metrics: scikit-learn's, torchmetrics' objects."""

from functools import partial

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import metrics as m

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(np.int64)


class Net(pd.nn.Module):
    """Two logits."""

    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(2)

    def forward(self, x):
        return self.fc(x)


def margin(y, p):
    return float(np.mean((p[:, 1] - p[:, 0]) * (2 * y - 1)))


FIT = {"optimizer": "adam", "loss": "softmax_cross_entropy", "batch_size": 16, "shuffle": False}


def test_a_function_sees_the_whole_pass():
    net, calls = Net(), []

    def counted(y, p):
        calls.append(len(y))
        return margin(y, p)

    history = net.fit(
        X, Y, **FIT, epochs=2, metrics=["accuracy", counted], validation_split=0.2, verbose=True
    )
    assert calls == [48, 12] * 2  # not for a batch
    assert [*history] == ["cost", "accuracy", "counted", "val_cost", "val_accuracy", "val_counted"]
    found = net.evaluate(X, Y, metrics=margin)
    np.testing.assert_allclose(found["margin"], margin(Y, net.predict(X)), rtol=1e-6)


def test_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")

    def f1(y, p):
        return metrics.f1_score(y, p.argmax(1))

    def auc(y, p):
        return metrics.roc_auc_score(y, p[:, 1] - p[:, 0])

    net = Net()
    net.fit(X, Y, **FIT, metrics=[f1, auc])
    found, p = net.evaluate(X, Y), net.predict(X)
    np.testing.assert_allclose([found["f1"], found["auc"]], [f1(Y, p), auc(Y, p)])
    with pytest.raises(ValueError, match="mix of") as caught:
        net.evaluate(X, Y, metrics=metrics.f1_score)
    (note,) = caught.value.__notes__
    assert "f1_score: of y_true int64[60], y_pred float32[60, 2], the outputs" in note


@pytest.mark.parametrize("split", [0, 0.3])
def test_torchmetrics(split):
    torch = pytest.importorskip("torch")
    classification = pytest.importorskip("torchmetrics.classification")
    net, metric = Net(), classification.MulticlassF1Score(num_classes=2)
    history = net.fit(X, Y, **FIT, metrics=[metric, "f1"], validation_split=split)
    for prefix in ["", "val_"] if split else [""]:
        np.testing.assert_allclose(
            history[f"{prefix}MulticlassF1Score"], history[f"{prefix}f1"], rtol=1e-6
        )
    p = torch.from_numpy(net.predict(X))
    found = net.evaluate(X, Y, metrics=metric)["MulticlassF1Score"]
    np.testing.assert_allclose(found, classification.MulticlassF1Score(2)(p, torch.from_numpy(Y)))


def test_a_collection_of_torchmetrics():
    torch = pytest.importorskip("torch")
    torchmetrics = pytest.importorskip("torchmetrics")
    classification = torchmetrics.classification
    parts = {"f": classification.MulticlassF1Score(2), "r": classification.MulticlassRecall(2)}
    collection = torchmetrics.MetricCollection(parts, prefix="my_")
    net = Net()
    history = net.fit(X, Y, **FIT, metrics=["accuracy", collection], validation_split=0.3)
    assert [*history][:4] == ["cost", "accuracy", "my_f", "my_r"]
    found = net.evaluate(X, Y, metrics=collection)
    expected = collection(torch.from_numpy(net.predict(X)), torch.from_numpy(Y))
    assert found.keys() - {"cost"} == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_it_goes_on_in_a_runner_after_a_checkpoint(tmp_path):
    def run(*more):
        pd.reset(seed=1)
        x, y = pd.Variable("x", shape=[None, 4]), pd.Variable("y", shape=[None], dtype="int64")
        scores = pd.layer.fc(x, 2)
        t = pd.training
        reader = t.ArrayReader(X, Y, batch_size=16)
        steps = [
            t.ForwardBackward(pd.reduce_mean(pd.softmax_cross_entropy(scores, y))),
            t.Update(pd.SGDOptimizer(0.1)),
            t.Evaluate(scores, y, margin),
        ]
        with t.runner_of(
            [t.Device(), t.Counter(), t.Data(reader, [x, y]), *more, *steps]
        ) as runner:
            return dict(runner.run(1).pass_metrics)

    whole = run(pd.training.SaveEvery(batches=2, path=tmp_path / "saved"))
    again = run(pd.training.Resume(tmp_path / "saved" / "batch-00002"))
    assert again == whole and "margin" in whole


def test_names():
    assert m.FunctionMetric(margin).name == "margin"
    assert m.FunctionMetric(partial(margin)).name == "margin"
    assert m.FunctionMetric(lambda y, p: 0, name="zero").name == "zero"
    with pytest.raises(ValueError, match="a lambda has none"):
        m.FunctionMetric(lambda y, p: 0)


@pytest.mark.parametrize(
    "metrics, error, text",
    [
        ([3], TypeError, "a metric is a name, a Metric or a function"),
        (lambda y: 0, TypeError, r"is called with \(y_true, y_pred\)"),
        (m.FunctionMetric(lambda y, p: p.mean(0), name="each"), TypeError, r"an array \(2,\)"),
        (m.FunctionMetric(lambda y, p: {}, name="each"), TypeError, "a dict"),
        ([margin, margin], ValueError, "two metrics of one name"),
    ],
)
def test_errors(metrics, error, text):
    with pytest.raises(error, match=text):
        Net().evaluate(X, Y, loss="softmax_cross_entropy", metrics=metrics)


def test_batches_that_do_not_fit_change_nothing():
    metric = m.FunctionMetric(margin)
    metric.update(X[:2, :2], Y[:2])
    before = metric.result()
    for args, error in (
        ((X[:3, :2], Y[:2]), pd.ShapeError),
        ((X[:2], Y[:2]), pd.ShapeError),
        ((X[:2, :2], Y[:2], [1.0, -1.0]), ValueError),
        ((X[:2, :2], Y[:2], [1.0, 2.0]), ValueError),
        ((["a", "b"], Y[:2]), pd.DTypeError),
    ):
        with pytest.raises(error):
            metric.update(*args)
    assert metric.result() == before
