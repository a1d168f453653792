"""Estimators of scikit-learn: its own checks, and copies, pickles, searches and warm starts."""

import copy
import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import onnxruntime as ort
import pytest

import pd_core as pd

pytest.importorskip("sklearn")

import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

X, Y = load_iris(return_X_y=True)
# float32 has seven digits; these compare results whose sums are in another order to seven digits.
ROUNDED = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
        "check_methods_subset_invariance",
        "check_methods_sample_order_invariance",
    ),
    "float32 rounds sums in another order otherwise, and the check asks for 1e-7",
)


@parametrize_with_checks(
    [
        pd.sklearn.Classifier(epochs=40, learning_rate=0.01),
        pd.sklearn.Regressor(epochs=40, learning_rate=0.01),
    ],
    expected_failed_checks=lambda estimator: ROUNDED,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def mlp(outputs, hidden=8, dropout=0.2):
    return pd.nn.Sequential(pd.nn.FC(hidden, act="relu"), pd.nn.Dropout(dropout), pd.nn.FC(outputs))


def classifier(**settings):
    return pd.sklearn.Classifier(
        **{"layer": mlp, "epochs": 2, "batch_size": 50, "random_state": 0, **settings}
    )


def outputs(estimator):
    return getattr(estimator, "predict_proba", estimator.predict)(X)


REGRESSOR = pd.sklearn.Regressor(mlp, epochs=2, batch_size=50, random_state=0)


@pytest.mark.parametrize("estimator", [classifier(), REGRESSOR], ids=["classifier", "regressor"])
@pytest.mark.parametrize(
    "again", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_copies_go_on_as_the_original(estimator, again):
    """With the optimizer's state, and the draws of dropout."""
    first = clone(estimator).fit(X, Y)
    second = again(again(first))
    np.testing.assert_array_equal(outputs(second), outputs(first))
    for each in (first, second, first, second):
        each.partial_fit(X, Y)
    np.testing.assert_array_equal(outputs(second), outputs(first))
    assert second.n_iter_ == first.n_iter_ == 4


def test_a_pickle_is_read_by_another_process(tmp_path):
    fitted = pd.sklearn.Classifier(epochs=2, random_state=0).fit(X, Y)
    (tmp_path / "fitted.pickle").write_bytes(pickle.dumps(fitted))
    np.save(tmp_path / "x.npy", X)
    code = "import numpy as np, pickle; e = pickle.load(open('fitted.pickle', 'rb')); "
    code += "np.save('p.npy', e.predict_proba(np.load('x.npy')))"
    path = f"import sys; sys.path[:] = {sys.path!r}; "
    subprocess.run([sys.executable, "-c", path + code], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), fitted.predict_proba(X))


def test_weights_stand_for_repeated_samples():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, len(X))
    settings = {"batch_size": 1000, "epochs": 20, "layer": partial(mlp, dropout=0.0)}
    weighted = classifier(**settings).fit(X, Y, sample_weight=counts)
    repeated = classifier(**settings).fit(X.repeat(counts, 0), Y.repeat(counts))
    np.testing.assert_allclose(outputs(weighted), outputs(repeated), rtol=1e-4, atol=1e-6)


def test_weights_of_classes_multiply_those_of_samples():
    weights = np.random.default_rng(0).random(len(X)) + 0.5
    by_class = {0: 1.0, 1: 5.0, 2: 0.5}
    one = classifier(class_weight=by_class).fit(X, Y, weights)
    other = classifier().fit(X, Y, weights * [by_class[k] for k in Y])
    np.testing.assert_allclose(outputs(one), outputs(other), rtol=1e-5)
    with pytest.raises(ValueError, match="all weights"):
        classifier(class_weight={0: 0, 1: 0, 2: 0}).fit(X, Y)


def test_fits_begin_anew_unless_they_are_warm():
    cold = classifier().fit(X, Y)
    expected = outputs(cold)
    np.testing.assert_array_equal(outputs(cold.fit(X, Y)), expected)
    warm = classifier(warm_start=True).fit(X, Y)
    np.testing.assert_array_equal(outputs(warm), expected)
    assert warm.fit(X, Y).n_iter_ == 4
    by_epochs = classifier().partial_fit(X, Y)
    for _ in range(3):
        by_epochs.partial_fit(X, Y)
    assert by_epochs.n_iter_ == 4


def test_the_session_in_force_is_left_alone():
    before = set(pd.default_session().values()), len(pd.persistent_variables())
    fitted = classifier().fit(X, Y)
    fitted.predict(X)
    assert (set(pd.default_session().values()), len(pd.persistent_variables())) == before


def test_the_trained_layer_is_one_of_any_session(tmp_path):
    """In the session in force it had other values, which were exported, silently."""
    fitted = classifier().fit(X, Y)
    first = fitted.layer_
    assert isinstance(first, pd.nn.Sequential) and fitted.layer_ is first
    x = pd.Variable([None, 4], name="x")
    probabilities = pd.softmax(first(x))
    expected = fitted.predict_proba(X.astype(np.float32))
    for session in (pd.default_session(), pd.Session(seed=3)):
        found = session.eval(probabilities, {x: X.astype(np.float32)}, training=False)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    pd.export_onnx(tmp_path / "classifier.onnx", [probabilities], inputs=[x])
    runtime = ort.InferenceSession(tmp_path / "classifier.onnx")
    found = runtime.run(None, {"x": X.astype(np.float32)})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert pickle.loads(pickle.dumps(fitted)).layer_ is not first
    before = pd.eval(probabilities, {x: X}, training=False)
    again = fitted.partial_fit(X, Y).layer_
    assert again is not first
    found = pd.eval(pd.softmax(again(x)), {x: X}, training=False)
    np.testing.assert_allclose(found, fitted.predict_proba(X), rtol=1e-5)
    np.testing.assert_array_equal(pd.eval(probabilities, {x: X}, training=False), before)


def test_classes_are_texts_and_come_later():
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    found = classifier(epochs=60, learning_rate=0.02, layer=None).fit(X, names)
    assert found.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert found.score(X, names) > 0.9
    parts = classifier().partial_fit(X[:50], Y[:50], classes=[0, 1, 2])
    assert parts.partial_fit(X[50:], Y[50:]).predict_proba(X).shape == (150, 3)
    with pytest.raises(ValueError, match=r"the classes \[3\]"):
        parts.partial_fit(X, Y + 1)
    with pytest.raises(ValueError, match="since the first call"):
        parts.partial_fit(X, Y, classes=[0, 1])


def test_search_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), classifier(epochs=15, batch_size=16))
    layers = [partial(mlp, hidden=h) for h in (2, 16)]
    settings = {"classifier__learning_rate": [1e-5, 0.02], "classifier__layer": layers}
    search = GridSearchCV(pipeline, settings, cv=2).fit(X, Y)
    assert search.best_params_["classifier__learning_rate"] == 0.02
    assert search.score(X, Y) > 0.9


def test_early_stopping_keeps_the_best_epoch():
    seen = []
    stopped = classifier(
        epochs=300,
        learning_rate=0.3,
        early_stopping=True,
        n_iter_no_change=3,
        callbacks=[lambda context: seen.append(context.test_metrics["cost"])],
    ).fit(X, Y)
    assert stopped.n_iter_ == len(seen) < 300
    assert len(seen) - 1 - int(np.argmin(seen)) == 3
    assert stopped.history_["val_cost"] == seen


def test_several_targets():
    x, y = make_regression(100, 5, n_targets=3, random_state=0)
    y = (y - y.mean(0)) / y.std(0)
    found = pd.sklearn.Regressor(epochs=100, learning_rate=0.01, random_state=0).fit(x, y)
    assert found.predict(x).shape == y.shape
    assert found.score(x, y) == r2_score(y, found.predict(x)) > 0.9
    with pytest.raises(ValueError, match="y has 2 outputs, before it had 3"):
        found.partial_fit(x, y[:, :2])


@pytest.mark.parametrize("loss", ["softmax_cross_entropy", "cross_entropy", "nll"])
def test_probabilities_by_the_loss(loss):
    last = {
        "softmax_cross_entropy": (),
        "cross_entropy": (pd.nn.Softmax,),
        "nll": (pd.nn.LogSoftmax,),
    }

    def layer(outputs):
        return pd.nn.Sequential(pd.nn.FC(outputs), *[make() for make in last[loss]])

    expected = classifier(layer=pd.nn.FC).fit(X, Y).predict_proba(X)
    found = classifier(layer=layer, loss=loss).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    assert found.shape == expected.shape and (found > 0).all()
    assert not np.allclose(found, expected) or loss == "softmax_cross_entropy"


@pytest.mark.parametrize("estimator", [classifier(), REGRESSOR], ids=["classifier", "regressor"])
@pytest.mark.parametrize("make", [scipy.sparse.csc_matrix, scipy.sparse.coo_array])
def test_sparse_inputs_are_dense_ones(estimator, make):
    """Made dense batch by batch; orders of shuffled samples differ."""
    weights = np.linspace(0.5, 1.5, len(X))
    dense, sparse = (clone(estimator).set_params(shuffle=False) for _ in range(2))
    dense.fit(X, Y, weights)
    sparse.fit(make(X), Y, weights)
    for _ in range(2):
        np.testing.assert_allclose(sparse.predict(make(X)), dense.predict(X), rtol=1e-5)
        np.testing.assert_allclose(sparse.history_["cost"], dense.history_["cost"], rtol=1e-5)
        dense.partial_fit(X, Y), sparse.partial_fit(make(X), Y)
    for each in (dense, sparse):
        each.set_params(early_stopping=True, epochs=3)
    a, b = sparse.fit(make(X), Y).history_, dense.fit(X, Y).history_
    np.testing.assert_allclose(a["val_cost"], b["val_cost"], rtol=1e-5)


@pytest.mark.parametrize("loss", ["softmax_cross_entropy", "cross_entropy", "nll"])
def test_logarithms_of_probabilities(loss):
    last = {"cross_entropy": [pd.nn.Softmax()], "nll": [pd.nn.LogSoftmax()]}.get(loss, [])
    found = classifier(loss=loss, layer=lambda n: pd.nn.Sequential(pd.nn.FC(n), *last)).fit(X, Y)
    logarithms = found.predict_log_proba(X)
    np.testing.assert_allclose(logarithms, np.log(found.predict_proba(X)), rtol=1e-5, atol=1e-6)
    if loss == "softmax_cross_entropy":  # of outputs that are far apart, too
        assert np.isfinite(found.predict_log_proba(X * 1e4)).all()


def test_images():
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    x = rng.normal(size=(20, 1, 6, 6)) + 3 * y[:, None, None, None]

    def layer(outputs):
        conv = pd.nn.Conv2d(4, 3, act="relu")
        return pd.nn.Sequential(conv, pd.nn.Flatten(), pd.nn.FC(outputs))

    found = pd.sklearn.Classifier(layer, epochs=20, learning_rate=0.01, random_state=0).fit(x, y)
    assert found.score(x, y) == 1


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({"layer": pd.nn.FC(3)}, TypeError, r"new layer; not FC\(3\)"),
        ({"layer": lambda outputs: outputs}, TypeError, "new layer; this one returns 3"),
        ({"layer": lambda outputs: pd.nn.FC(7)}, pd.ShapeError, r"\[\?, 7\].*not \[N, 3\]"),
        ({"optimizer": 3}, TypeError, "a name such as 'adam'"),
        ({"optimizer": "adm"}, ValueError, "no optimizer 'adm'"),
        ({"loss": "mee"}, ValueError, "no loss 'mee'"),
    ],
)
def test_errors(settings, error, text):
    with pytest.raises(error, match=text):
        classifier(**settings).fit(X, Y)


def test_an_optimizer_is_copied():
    optimizer = pd.SGDOptimizer(0.1)
    one = classifier(optimizer=optimizer).fit(X, Y)
    other = classifier(optimizer="sgd", learning_rate=0.1).fit(X, Y)
    np.testing.assert_array_equal(outputs(one), outputs(other))
    assert clone(one).optimizer is not optimizer
    with pytest.raises(NotFittedError):
        classifier().layer_  # noqa: B018


def test_nothing_is_imported_before_it_is_used():
    """And a package that is absent is named."""
    code = f"""import sys; sys.path[:] = {sys.path!r}
import pd_core as pd
lazy = ("sklearn", "torch", "einops", "optuna", "rich", "onnx.reference.ops")
print([n for n in lazy if n in sys.modules])
sys.modules["sklearn"] = None
try:
    pd.sklearn
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    hint = "pd.sklearn: needs scikit-learn\n  hint: pip install scikit-learn"
    assert done.stdout == f"[]\n{hint}\n"
