"""Losses of fine-tuning against formulas, and the arrays that they take."""

import io
import zipfile

import numpy as np
import pytest

import pd_core as pd
from pd_core.training.tuning.arrays import columns, read_arrays, split
from pd_core.tuning import objective

from . import models

X, LABEL = models.samples().values()
TARGET = np.random.default_rng(3).uniform(size=(64, 3)).astype(np.float32)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def cross_entropy(z, label):
    """-ln softmax(z)[label], the classes last."""
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, label[..., None], -1)).mean()


def binary_cross_entropy(z, t):
    return -(t * np.log(sigmoid(z)) + (1 - t) * np.log(1 - sigmoid(z))).mean()


def huber(z, t):
    d = abs(z - t)
    return np.where(d <= 1, d**2 / 2, d - 0.5).mean()


LOSSES = [
    ("cross-entropy", "", LABEL, cross_entropy),
    ("cross-entropy", "Softmax", LABEL, cross_entropy),
    ("cross-entropy", "LogSoftmax", LABEL, cross_entropy),
    ("binary-cross-entropy", "", TARGET, binary_cross_entropy),
    ("binary-cross-entropy", "Sigmoid", TARGET, binary_cross_entropy),
    ("mse", "", TARGET, lambda z, t: ((z - t) ** 2).mean()),
    ("l1", "", TARGET, lambda z, t: abs(z - t).mean()),
    ("huber", "", TARGET, huber),
]


@pytest.mark.parametrize(("loss", "head", "label", "formula"), LOSSES)
def test_losses_are_means_of_the_formulas(loss, head, label, formula):
    z = models.run(models.perceptron(), x=X)[0] * 0.1
    scaled = models.perceptron(head=head)
    for k in (2, 3):  # W2 and b2
        array = models.stored(scaled)[scaled.graph.initializer[k].name] * np.float32(0.1)
        scaled.graph.initializer[k].raw_data = array.tobytes()
    task = objective(pd.import_onnx(scaled), loss)
    feeds = dict(
        zip([task.inputs["x"], task.label], columns(task, {"x": X, "label": label}), strict=True)
    )
    np.testing.assert_allclose(pd.eval(task.cost, feeds), formula(z, label), rtol=1e-4)
    assert [v.name for v in task.parameters()] == ["W1", "b1", "W2", "b2"]
    assert task.is_classes == (loss == "cross-entropy")


@pytest.mark.parametrize("axis", [1, -1])
def test_classes_may_be_on_any_axis(axis):
    """Scores [N, C, H, W] of images, [N, T, C] of language models."""
    if axis == 1:
        proto, shape = models.convolution(), (3, 2, 6, 6)
    else:
        text = "(float[N,T,5] x) => (float[N,T,4] y) { y = MatMul(x, W) }"
        proto, shape = models.model(text, {"W": (5, 4)}), (3, 6, 5)
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32) * 0.1
    y = models.run(proto, x=x)[0]
    z = np.moveaxis(y, axis, -1)
    label = rng.integers(0, 4, z.shape[:-1])
    task = objective(pd.import_onnx(proto), "cross-entropy", class_axis=axis)
    feeds = {task.inputs["x"]: x, task.label: label}
    np.testing.assert_allclose(pd.eval(task.cost, feeds), cross_entropy(z, label), rtol=1e-4)


def test_classes_on_an_axis_of_unknown_size_are_refused():
    proto = models.model("(float[N,T,5] x) => (float[N,T,4] y) { y = MatMul(x, W) }", {"W": (5, 4)})
    with pytest.raises(pd.ShapeError, match=r"axis 1, is not known\n  hint: class_axis=-1"):
        objective(pd.import_onnx(proto), "cross-entropy")


def test_the_loss_may_read_any_tensor():
    proto = models.perceptron()
    f = pd.import_onnx(proto)
    task = objective(f, "mse", output="h", label="wanted")
    assert (task.output.name, task.label.name, task.label.shape) == ("h", "wanted", (None, 16))
    proto.graph.output.append(proto.graph.output[0])
    proto.graph.output[1].name = "h"
    with pd.fresh():
        several = pd.import_onnx(proto)
        with pytest.raises(pd.ModelError, match="has the outputs y, h: choose one of them"):
            objective(several, "mse")
        with pytest.raises(pd.ModelError, match="'x' is an input of model 'g'; give the label"):
            objective(several, "mse", output="y", label="x")
        with pytest.raises(ValueError, match="there is no loss 'hinge'; there are cross-entropy,"):
            objective(several, "hinge", output="y")


BAD = [
    ({"x": X}, pd.FeedError, r"has no array 'label' for the label int64\[\?\]; there are x"),
    ({"label": LABEL}, pd.FeedError, "has no array 'x' for the input"),
    (
        {"x": X, "label": LABEL, "z": X},
        pd.FeedError,
        "has the array 'z', which is none of x",
    ),
    ({"x": X[:, :7], "label": LABEL}, pd.ShapeError, r"'x' is \(64, 7\), the model takes float32"),
    (
        {"x": X, "label": LABEL[:9]},
        pd.ShapeError,
        r"the data: different numbers of samples: x \(64, ",
    ),
    ({"x": X[:0], "label": LABEL[:0]}, pd.ShapeError, r"the data: there are no samples: x \(0, "),
    (
        {"x": X, "label": LABEL * 1.0},
        pd.DTypeError,
        "'label' holds float64 numbers, the mod",
    ),
    (
        {"x": X > 0, "label": LABEL},
        pd.DTypeError,
        "'x' holds bool numbers, the model takes",
    ),
]


def test_arrays_that_do_not_fit_are_named():
    task = objective(pd.import_onnx(models.perceptron()), "cross-entropy")
    for arrays, error, text in BAD:
        with pytest.raises(error, match=text):
            columns(task, arrays)
    x, label = columns(task, {"label": LABEL[:, None].astype(np.uint8), "x": X.astype(np.float64)})
    assert (x.dtype, label.dtype, label.shape) == (np.float32, np.int64, (64,))


def test_files_of_arrays_are_read(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=X, label=LABEL)
    assert {n: a.shape for n, a in read_arrays(path).items()} == {"x": (64, 8), "label": (64,)}
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(pd.DamagedFile, match=r"data\.npz is no \.npz file"):
        read_arrays(path)
    np.save(tmp_path / "one.npy", X)
    with pytest.raises(pd.DamagedFile, match="is one array, not an"):
        read_arrays(tmp_path / "one.npy")


def test_the_last_samples_are_held_out():
    first, last = split([X, LABEL], 0.1)
    assert [len(a) for a in first + last] == [58, 58, 6, 6]
    np.testing.assert_array_equal(last[1], LABEL[58:])
    for fraction in (0.0, 1.0):
        with pytest.raises(ValueError, match=r"is within \(0, 1\), not"):
            split([X], fraction)
    with pytest.raises(pd.ShapeError, match="of 1 samples leaves none to train"):
        split([X[:1]], 0.5)


def damaged(path):
    """An .npz file whose member has a broken header, under a right sum."""
    header = io.BytesIO()
    np.save(header, np.arange(6.0))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", header.getvalue().replace(b"(6,), }", b"(6,, {["))


def encrypted(path):
    """A .npz file that says it is encrypted."""
    np.savez(path, x=np.arange(6.0))
    data = path.read_bytes()
    at = data.index(b"PK\1\2") + 8
    path.write_bytes(data[:6] + b"\x40" + data[7:at] + b"\x40" + data[at + 1 :])


@pytest.mark.parametrize("damage", [damaged, encrypted])
def test_damaged_arrays_are_named(damage, tmp_path):
    path = tmp_path / "a.npz"
    damage(path)
    with pytest.raises(pd.DamagedFile, match=r"a\.npz is no \.npz file"):
        read_arrays(path)
