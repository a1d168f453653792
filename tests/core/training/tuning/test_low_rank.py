"""LoRA: W + (alpha / rank) B A, trained alone, merged in files."""

import numpy as np
import pytest

import pd_core as pd

from . import models

X = models.samples()["x"]


def learn(cost, feeds, steps=3):
    """Take some steps; return the names of the values that changed."""
    update = pd.SGDOptimizer(0.001).minimize(cost)
    before = {}
    for k in range(steps):
        pd.eval([update], feeds)
        if k == 0:
            before = {v.name: a for v, a in pd.default_session().values().items()}
    after = {v.name: a for v, a in pd.default_session().values().items()}
    return {name for name in after if (after[name] != before[name]).any()}


def test_the_sum_is_that_of_the_paper_and_only_it_is_trained():
    proto = models.perceptron()
    f = pd.import_onnx(proto)
    adapters = pd.lora(f, rank=2, alpha=6)
    x = pd.Variable("x", shape=[None, 8])
    y = f(x)
    np.testing.assert_allclose(pd.eval(y, {x: X}), models.run(proto, x=X)[0], rtol=1e-5)
    names = {v.name for v in adapters.parameters()}
    assert names == {f"{w}.lora_{k}" for w in ("W1", "W2") for k in "AB"}
    assert learn(pd.reduce_mean(pd.square(y)), {x: X}) == names

    values = {v.name: a for v, a in pd.default_session().values().items()}
    expected = {
        w: values[w] + 3.0 * values[f"{w}.lora_B"] @ values[f"{w}.lora_A"] for w in ("W1", "W2")
    }
    tuned = pd.export_tuned(None, f)
    assert tuned.graph.node == proto.graph.node
    for name, array in models.stored(tuned).items():
        np.testing.assert_allclose(array, expected.get(name, values[name]), rtol=1e-6)
    np.testing.assert_allclose(models.run(tuned, x=X)[0], pd.eval(y, {x: X}), rtol=1e-4, atol=1e-5)


def test_the_first_step_is_that_of_the_chain_rule():
    """With y = x (W + s B A) and B' = 0: dB' = s dW A'^T, for the factor next to the output."""
    proto = models.model("(float[N,8] x) => (float[N,3] y) { y = MatMul(x, W) }", {"W": (8, 3)})
    w = models.stored(proto)["W"]
    f = pd.import_onnx(proto)
    pd.lora(f, rank=2, alpha=1)
    x = pd.Variable("x", shape=[None, 8])
    update = pd.SGDOptimizer(0.5).minimize(pd.reduce_sum(pd.square(f(x))))
    pd.default_session().store.initialize(pd.persistent_variables())
    before = {v.name: a for v, a in pd.default_session().values().items()}
    assert not before["W.lora_A"].any()  # [2, 3], next to the output
    assert abs(before["W.lora_B"]).max() <= 1 / np.sqrt(8)
    pd.eval([update], {x: X})
    after = {v.name: a for v, a in pd.default_session().values().items()}
    gradient = X.T @ (2 * X @ w)
    expected = -0.5 * 0.5 * before["W.lora_B"].T @ gradient
    np.testing.assert_allclose(after["W.lora_A"], expected, rtol=1e-4)
    np.testing.assert_array_equal(after["W.lora_B"], before["W.lora_B"])  # dB = s dW A^T = 0


def test_filters_are_matrices_of_their_rows():
    proto = models.convolution()
    f = pd.import_onnx(proto)
    adapters = pd.lora(f, rank=2, target="W*")
    assert {v.name: v.dims for v in adapters.parameters()} == {
        "W1.lora_A": (2, 18),
        "W1.lora_B": (5, 2),
        "W2.lora_A": (2, 5),
        "W2.lora_B": (4, 2),
    }
    x = pd.Variable("x", shape=[None, 2, 6, 6])
    images = np.random.default_rng(0).normal(size=(3, 2, 6, 6)).astype(np.float32)
    y = f(x)
    changed = learn(pd.reduce_mean(pd.square(y)), {x: images})
    assert "W1.lora_B" in changed
    assert "W1" not in changed
    tuned = pd.export_tuned(None, f)
    assert tuned.graph.node == proto.graph.node
    expected = pd.eval(y, {x: images})
    np.testing.assert_allclose(models.run(tuned, x=images)[0], expected, rtol=1e-4, atol=1e-5)


def test_factors_are_named_after_their_weight():
    with pd.namespace("tuned"):
        f = pd.import_onnx(models.perceptron())
        inside = pd.lora(f, rank=1, target="W1")
    outside = pd.lora(f, rank=1, target="W2")
    assert [v.name for v in (*inside.parameters(), *outside.parameters())] == [
        *("tuned/W1.lora_A", "tuned/W1.lora_B"),
        *("tuned/W2.lora_A", "tuned/W2.lora_B"),
    ]


def test_targets_are_chosen_by_pattern():
    f = pd.import_onnx(models.perceptron())
    adapters = pd.lora(f, rank=1, target=["W2"])
    assert list(adapters.adapters) == ["W2"]
    assert adapters.summary() == (
        "LoRA of rank 1, alpha 1, on 1 matrix: 19 numbers are trained instead of 48 (39.58%)"
    )
    f.unfreeze("b2")
    assert [v.name for v in pd.trainable_variables()] == ["b2", "W2.lora_A", "W2.lora_B"]
    with pytest.raises(pd.GraphError, match="lora: 'W2' has an adapter already"):
        pd.lora(f, target="W2")


def test_mistakes_name_the_matrices():
    f = pd.import_onnx(models.perceptron())
    with pytest.raises(pd.ModelError, match=r"no matrix matches 'attn\*'; there are W1, W2"):
        pd.lora(f, target=["W1", "attn*"])
    with pytest.raises(ValueError, match="rank is a positive integer, not 0"):
        pd.lora(f, rank=0)


def test_adapters_alone_are_saved_and_loaded(tmp_path):
    proto, path = models.perceptron(), tmp_path / "adapters.safetensors"
    f = pd.import_onnx(proto)
    adapters = pd.lora(f, rank=2)
    x = pd.Variable("x", shape=[None, 8])
    learn(pd.reduce_mean(pd.square(f(x))), {x: X})
    adapters.save(path)
    expected = models.stored(pd.export_tuned(None, f))
    with pd.fresh(seed=5):
        f = pd.import_onnx(proto)
        pd.lora(f, rank=2).load(path)
        for name, array in models.stored(pd.export_tuned(None, f)).items():
            np.testing.assert_array_equal(array, expected[name])
    with pd.fresh():
        f = pd.import_onnx(proto)
        with pytest.raises(pd.ShapeError, match=r"W1.lora_A is \(2, 16\), not W1.lora_A"):
            pd.lora(f, rank=3).load(path)
    with pd.fresh():
        adapters = pd.lora(pd.import_onnx(proto), rank=2, target="W1")
        with pytest.raises(
            pd.ModelError, match=r"(?s)adapters of other weights: .*unexpected W2\.lora_A"
        ):
            adapters.load(path)
        found = adapters.load(path, strict=False)
        assert found == ([], ["W2.lora_A", "W2.lora_B"]) and found.missing_keys == []
        assert adapters.outputs == []  # an imported model is called
    with pd.fresh(), pytest.raises(pd.ModelError, match=r"has alpha 2\.0, not 4\.0"):
        pd.lora(pd.import_onnx(proto), rank=2, alpha=4).load(path)


def test_a_graph_has_adapters_in_new_outputs():
    x = pd.Variable("x", shape=[None, 8])
    y = pd.fc(pd.fc(x, 16, W="W1", act="relu"), 3, W="W2")
    adapters = pd.lora(y, rank=2, target="W*")
    (output,) = adapters.outputs  # a list always
    changed = learn(pd.reduce_mean(pd.square(output)), {x: X})
    assert changed == {v.name for v in adapters.parameters()}
    adapted = pd.eval(output, {x: X})
    assert abs(adapted - pd.eval(y, {x: X})).max() > 1e-4
    adapters.merge()
    for v in (y, output):
        np.testing.assert_allclose(pd.eval(v, {x: X}), adapted, rtol=1e-4, atol=1e-5)
