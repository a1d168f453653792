"""Quantisation-aware training: rounding, ranges, gradients, and files with QDQ nodes."""

import numpy as np
import onnx
import pytest

import pd_core as pd

from . import models

X = models.samples()["x"]
LINEAR = "(float[N,8] x) => (float[N,3] y) { y = MatMul(x, W) }"


def rounded(a, scale, zero, low, high):
    """Round to integers and back (Jacob et al. 2018, eq. 12)."""
    return (np.clip(np.rint(a / scale) + zero, low, high) - zero) * scale


def rounded_weight(w, axis):
    others = tuple(k for k in range(w.ndim) if k != axis)
    return rounded(w, abs(w).max(others, keepdims=True) / 127, 0, -128, 127)


def range_of(low, high):
    """Return scale and zero point of a range that includes 0."""
    low, high = min(low, 0), max(high, 0)
    scale = (high - low) / 255
    return scale, np.rint(-low / scale)


def prepared(proto, **options):
    f = pd.import_onnx(proto)
    return f, pd.prepare_qat(f, **options)


def test_values_and_moving_ranges_are_those_of_the_formulas():
    proto = models.model(LINEAR, {"W": (8, 3)})
    w = models.stored(proto)["W"]
    f, quantization = prepared(proto, momentum=0.9)
    x = pd.Variable("x", shape=[None, 8])
    y = f(x)
    batches = [X[:32], X[32:] * 2]
    np.testing.assert_allclose(  # no range yet: only the weight is rounded
        pd.eval(y, {x: X}), X @ rounded_weight(w, 1), rtol=1e-4, atol=1e-5
    )
    means, seen = [], []
    for batch in batches:
        seen.append([batch.min(), batch.max()])
        weights = [0.9 ** (len(seen) - 1 - k) * 0.1 for k in range(len(seen))]
        means = np.average(seen, axis=0, weights=weights)
        out = pd.eval([y, quantization.calibration(y)], {x: batch})[0]
        scale, zero = range_of(*means)
        expected = rounded(batch, scale, zero, 0, 255) @ rounded_weight(w, 1)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    scale, zero = range_of(*means)
    expected = rounded(X, scale, zero, 0, 255) @ rounded_weight(w, 1)
    np.testing.assert_allclose(pd.eval(y, {x: X}), expected, rtol=1e-4, atol=1e-4)
    assert not any(v.trainable for v in quantization.variables())


def test_a_batch_without_rows_moves_no_range():
    proto = models.model(LINEAR, {"W": (8, 3)})
    f, quantization = prepared(proto)
    x = pd.Variable("x", shape=[None, 8])
    update = quantization.calibration(f(x))
    pd.eval(update, {x: X})
    before = [v.val() for v in quantization.variables()]
    pd.eval(update, {x: X[:0]})
    assert [v.val() for v in quantization.variables()] == before


def test_gradients_pass_the_rounding_inside_of_the_range():
    proto = models.model(LINEAR, {"W": (8, 3)})
    w = models.stored(proto)["W"]
    f, quantization = prepared(proto)
    x = pd.Variable("x", shape=[None, 8])
    y = f(x)
    pd.eval([quantization.calibration(y)], {x: X[:16]})
    low, high = X[:16].min(), X[:16].max()
    dx, dw = pd.eval(pd.gradients(y, [x, f.parameters["W"]]), {x: X})
    scale, zero = range_of(low, high)
    integers = np.rint(X / scale) + zero
    inside = (integers >= 0) & (integers <= 255)
    assert 0 < (~inside).sum() < 30
    expected = inside * rounded_weight(w, 1).sum(1)
    np.testing.assert_allclose(dx, expected, rtol=1e-4, atol=1e-5)
    columns = rounded(X, scale, zero, 0, 255).sum(0)
    np.testing.assert_allclose(dw, np.repeat(columns[:, None], 3, 1), rtol=1e-3, atol=1e-3)


def test_rounding_and_gradients_are_those_of_pytorch():
    """torch.fake_quantize_per_tensor_affine(x, 3 / 255, 85, 0, 255), per_channel of the matrix."""
    text = "(float[N,2] x) => (float[N,3] y) { y = MatMul(x, W) }"
    proto = models.model(text, {"W": (2, 3)})
    w = np.array([[0.5, -1.27, 0.013], [2.0, 0.3, -0.7]], np.float32)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(w, "W"))
    f, quantization = prepared(proto)
    x = pd.Variable("x", shape=[None, 2])
    y = f(x)
    eye = np.eye(2, dtype=np.float32)
    rounded_w = [[0.503937, -1.27, 0.0110236], [2.0, 0.3, -0.7]]
    np.testing.assert_allclose(pd.eval(y, {x: eye}), rounded_w, atol=1e-6)
    pd.eval([quantization.calibration(y)], {x: [[-1.0, 2.0]]})
    values = np.array([-1.21, -1.004, -0.3, 0.0, 0.49, 1.7, 2.004, 3.1], np.float32)
    rounded_x = [-1.0, -1.0, -0.3058824, 0.0, 0.4941176, 1.6941177, 2.0, 2.0]
    first = np.stack([values, np.zeros(8, np.float32)], 1)
    out, dx = pd.eval([y, *pd.gradients(y, [x])], {x: first})
    np.testing.assert_allclose(out[:, 0], np.multiply(rounded_x, rounded_w[0][0]), atol=1e-5)
    np.testing.assert_allclose(dx[:, 0] / np.sum(rounded_w[0]), [0, 1, 1, 1, 1, 1, 1, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("proto", "shape", "bias"),
    [(models.perceptron(), (64, 8), "b2"), (models.convolution(), (4, 2, 6, 6), "b1")],
    ids=["perceptron", "convolution"],
)
def test_the_file_computes_what_was_trained(proto, shape, bias):
    f, _ = prepared(proto)
    x = pd.Variable("x", shape=[None, *shape[1:]])
    y = f(x)
    batch = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    update = pd.AdamOptimizer(0.01).minimize(pd.reduce_mean(pd.square(y - 1.0)))
    losses = [((pd.eval([y, update], {x: batch})[0] - 1) ** 2).mean() for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    tuned = pd.export_tuned(None, f)
    arrays = models.stored(tuned)
    integers = {n: a.dtype for n, a in arrays.items() if n.endswith("_quantized")}
    assert integers == {
        **dict.fromkeys(["W1_quantized", "W2_quantized"], np.int8),
        f"{bias}_quantized": np.int32,
    }
    assert abs(arrays["W1_quantized"]).max() == 127
    kept = [n for n in tuned.graph.node if "Linear" not in n.op_type]
    assert [n.op_type for n in kept] == [n.op_type for n in proto.graph.node]
    expected = pd.eval(y, {x: batch})
    np.testing.assert_allclose(models.run(tuned, x=batch)[0], expected, atol=2e-3)
    with pd.fresh():  # the file is fake quantisation, to be trained further
        again = pd.import_onnx(tuned)(x)
        np.testing.assert_allclose(pd.eval(again, {x: batch}), expected, atol=2e-3)


def test_adapters_are_trained_quantised():
    proto = models.perceptron()
    f = pd.import_onnx(proto)
    pd.lora(f, rank=2)
    pd.prepare_qat(f, target="W1")
    x = pd.Variable("x", shape=[None, 8])
    y = f(x)
    update = pd.AdamOptimizer(0.01).minimize(pd.reduce_mean(pd.square(y)))
    for _ in range(5):
        pd.eval([update], {x: X})
    tuned = pd.export_tuned(None, f)
    assert models.stored(tuned)["W1_quantized"].dtype == np.int8
    assert models.stored(tuned)["W2"].dtype == np.float32
    np.testing.assert_allclose(models.run(tuned, x=X)[0], pd.eval(y, {x: X}), atol=2e-3)


def test_mistakes_of_preparation_name_what_is_wrong(tmp_path):
    f, _ = prepared(models.perceptron())
    with pytest.raises(pd.GraphError, match="is prepared already"):
        pd.prepare_qat(f)
    with pytest.raises(pd.ExportError, match="the activation 'x' has no range yet\n  hint: take a"):
        pd.export_tuned(tmp_path / "tuned.onnx", f)
    assert not list(tmp_path.iterdir())
    with pd.fresh():
        f = pd.import_onnx(models.perceptron())
        with pytest.raises(pd.ModelError, match="no weight matches 'W3'; there are W1, W2"):
            pd.prepare_qat(f, target="W3")
        with pytest.raises(ValueError, match=r"momentum is within \[0, 1\), not 1"):
            pd.prepare_qat(f, momentum=1)
    with pd.fresh():
        old = pd.import_onnx(models.perceptron(opset=12))
        with pytest.raises(pd.ModelError, match="has opset 12, scales for each channel need 13"):
            pd.prepare_qat(old)
    assert onnx.version_converter.convert_version  # what the hint names
