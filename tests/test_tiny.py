"""A stranger's first minute: if one of these fails, look no further."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd


def test_compute():
    x = pd.Variable([None, 2])
    y = pd.relu(x) * 2.0 + 1.0
    assert y.shape == (None, 2)
    assert pd.eval(y, feeds={x: [[1.0, -1.0]]}).tolist() == [[3.0, 1.0]]


def test_state():
    w = pd.Variable("w", data=[1.0, 2.0])
    pd.eval(pd.assign(w, w * 10.0))
    assert w.val().tolist() == [10.0, 20.0]


def test_differentiate():
    x = pd.Variable("x", data=3.0)
    (g,) = pd.gradients(x * x * x, [x])
    (h,) = pd.gradients(g, [x])
    assert pd.eval([g, h]) == [27.0, 18.0]


def test_train_a_line(rng):
    x, t = pd.Variable([None, 3]), pd.Variable([None, 1])
    y = pd.fc(x, 1, W="w", B="b")
    cost = pd.reduce_mean(pd.square(y - t))
    step = pd.MomentumOptimizer(0.05, 0.9).minimize(cost)
    inputs = rng.normal(size=(64, 3))
    targets = inputs @ [[1.0], [-2.0], [0.5]] + 4.0
    for _ in range(150):
        _, c = pd.eval([step, cost], feeds={x: inputs, t: targets})
    assert c < 1e-6
    assert np.allclose(pd.get_variable("w").val(), [[1.0], [-2.0], [0.5]], atol=1e-3)
    assert np.allclose(pd.get_variable("b").val(), [4.0], atol=1e-3)


def test_classify(rng):
    """Exclusive or, which no line separates."""
    points, labels = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([[0], [1], [1], [0]])
    x, label = pd.Variable([None, 2]), pd.Variable([None, 1], dtype="int64")
    p = pd.softmax(pd.fc(x, 8, act="tanh"), size=2)
    cost = pd.reduce_mean(pd.cross_entropy(p, label))
    step = pd.AdamOptimizer(0.05).minimize(cost)
    for _ in range(200):
        pd.eval(step, feeds={x: points, label: labels})
    assert pd.eval(p, feeds={x: points}).argmax(1).tolist() == [0, 1, 1, 0]


def test_share_and_separate_by_name():
    x = pd.Variable([None, 2])
    with pd.namespace("a") as a:
        first = pd.fc(x, 3)
    with pd.namespace("b"):
        pd.fc(x, 3)
    again = pd.fc(x, 3, W=a.variables()[0], B=a.variables()[1])
    assert [v.name for v in pd.trainable_variables()] == [
        *("a/fc_0.W", "a/fc_0.B"),
        *("b/fc_0.W", "b/fc_0.B"),
    ]
    one, two = pd.eval([first, again], feeds={x: [[1.0, 2.0]]})
    assert (one == two).all()


def test_a_mistake_is_reported_where_it_was_made():
    x = pd.Variable("x", shape=[None, 4])
    with pytest.raises(pd.ShapeError, match=r"test_tiny\.py:\d+") as caught:
        pd.matmul(x, np.ones((3, 2)))
    assert "matmul: inner sizes differ, 4 against 3" in str(caught.value)
    assert "x: float32[?, 4]" in str(caught.value)


def test_a_forgotten_feed_is_named():
    image = pd.Variable("image", shape=[None, 4])
    with pytest.raises(pd.MissingFeed, match="image"):
        pd.eval(pd.fc(image, 2))


def test_export_and_run_elsewhere(tmp_path):
    x = pd.Variable("x", shape=[None, 4])
    y = pd.softmax(pd.fc(x, 3))
    path = tmp_path / "model.onnx"
    pd.export_onnx(path, y)
    images = np.arange(8, dtype=np.float32).reshape(2, 4)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": images})
    assert np.allclose(found, pd.eval(y, feeds={x: images}))
