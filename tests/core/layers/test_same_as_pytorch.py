"""Layers against PyTorch's with equal parameters: values, gradients and moving statistics."""

from dataclasses import dataclass

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn

torch = pytest.importorskip("torch")
tn = torch.nn

DENSE = {"W": ("weight", np.transpose), "B": ("bias", None)}
CONV = {"W": ("weight", None), "B": ("bias", None)}
NORM = {"scale": ("weight", None), "bias": ("bias", None)}


@dataclass
class Row:
    """A layer of ours, PyTorch's, the shape of an input, and the names of equal parameters.

    A name comes with the function that turns PyTorch's array into ours.
    """

    layer: nn.Layer
    theirs: tn.Module
    shape: tuple
    names: dict
    tolerance: float = 2e-5


def images(*shape):
    return (2, 4, *shape)


BATCH_NORM = {"eps": 1e-3, "momentum": 0.2}  # PyTorch's is the share of the batch
ROWS = {
    "fc": lambda: Row(nn.FC(5), tn.Linear(4, 5), (3, 4), DENSE),
    "fc, rank 3": lambda: Row(nn.FC(5), tn.Linear(4, 5), (3, 2, 4), DENSE),
    "fc, act": lambda: Row(
        nn.FC(5, act="tanh"), tn.Sequential(tn.Linear(4, 5), tn.Tanh()), (3, 4), nested(DENSE)
    ),
    "fc, no bias": lambda: Row(
        nn.FC(5, bias=False), tn.Linear(4, 5, bias=False), (3, 4), {"W": DENSE["W"]}
    ),
    "conv1d": lambda: Row(
        nn.Conv1d(6, 3, stride=2, padding=1), tn.Conv1d(4, 6, 3, 2, 1), images(7), CONV
    ),
    "conv2d": lambda: Row(
        nn.Conv2d(6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
        tn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
        images(6, 7),
        CONV,
    ),
    "conv2d, act, no bias": lambda: Row(
        nn.Conv2d(3, 3, act="relu", bias=False),
        tn.Sequential(tn.Conv2d(4, 3, 3, bias=False), tn.ReLU()),
        images(5, 5),
        {"W": ("0.weight", None)},
    ),
    "conv3d": lambda: Row(
        nn.Conv3d(3, 2, padding=1), tn.Conv3d(4, 3, 2, padding=1), images(3, 4, 5), CONV
    ),
    "conv2d, same": lambda: Row(
        nn.Conv2d(6, (3, 5), padding="same"),
        tn.Conv2d(4, 6, (3, 5), padding="same"),
        images(6, 7),
        CONV,
    ),
    "conv1d, wrap": lambda: Row(
        nn.Conv1d(6, 3, stride=2, padding=2, padding_mode="wrap"),
        tn.Conv1d(4, 6, 3, 2, 2, padding_mode="circular"),
        images(7),
        CONV,
    ),
    "conv2d, same, edge": lambda: Row(
        nn.Conv2d(6, (3, 4), padding="same", dilation=(2, 1), padding_mode="edge"),
        tn.Conv2d(4, 6, (3, 4), padding="same", dilation=(2, 1), padding_mode="replicate"),
        images(6, 7),
        CONV,
    ),
    "conv_transpose1d": lambda: Row(
        nn.ConvTranspose1d(6, 3, stride=2, padding=1, output_padding=1),
        tn.ConvTranspose1d(4, 6, 3, 2, 1, 1),
        images(5),
        CONV,
    ),
    "conv_transpose3d": lambda: Row(
        nn.ConvTranspose3d(2, 2, stride=2, groups=2),
        tn.ConvTranspose3d(4, 2, 2, 2, groups=2),
        images(2, 3, 2),
        CONV,
    ),
    "silu": lambda: Row(nn.SiLU(), tn.SiLU(), (3, 4), {}),
    "mish": lambda: Row(nn.Mish(), tn.Mish(), (3, 4), {}),
    "selu": lambda: Row(nn.SELU(), tn.SELU(), (3, 4), {}),
    "relu6": lambda: Row(nn.ReLU6(), tn.ReLU6(), (3, 4), {}),
    "elu": lambda: Row(nn.ELU(), tn.ELU(), (3, 4), {}),
    "glu": lambda: Row(nn.GLU(), tn.GLU(), (3, 4), {}),
    "hard_sigmoid": lambda: Row(nn.HardSigmoid(), tn.Hardsigmoid(), (3, 4), {}),
    "hard_swish": lambda: Row(nn.HardSwish(), tn.Hardswish(), (3, 4), {}),
    "hard_tanh": lambda: Row(nn.HardTanh(), tn.Hardtanh(), (3, 4), {}),
    "prelu": lambda: Row(nn.PReLU(), tn.PReLU(), images(3), {"W": ("weight", None)}),
    "prelu, channels": lambda: Row(
        nn.PReLU(per_channel=True), tn.PReLU(4), images(3, 2), {"W": ("weight", None)}
    ),
    "conv_transpose2d": lambda: Row(
        nn.ConvTranspose2d(6, 3, stride=2, padding=1, output_padding=1, dilation=2, groups=2),
        tn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, dilation=2),
        images(4, 5),
        CONV,
    ),
    "max_pool1d": lambda: Row(nn.MaxPool1d(3, 2, 1), tn.MaxPool1d(3, 2, 1), images(8), {}),
    "max_pool2d": lambda: Row(nn.MaxPool2d(2), tn.MaxPool2d(2), images(5, 6), {}),
    "max_pool2d, ceil": lambda: Row(
        nn.MaxPool2d(2, ceil_mode=True), tn.MaxPool2d(2, ceil_mode=True), images(5, 7), {}
    ),
    "max_pool2d, dilated": lambda: Row(
        nn.MaxPool2d(3, 2, 1, dilation=(2, 1), ceil_mode=True),
        tn.MaxPool2d(3, 2, 1, (2, 1), ceil_mode=True),
        images(9, 8),
        {},
    ),
    "max_pool3d": lambda: Row(
        nn.MaxPool3d((2, 1, 2)), tn.MaxPool3d((2, 1, 2)), images(4, 3, 4), {}
    ),
    "avg_pool1d": lambda: Row(
        nn.AvgPool1d(3, 2, 1), tn.AvgPool1d(3, 2, 1, count_include_pad=False), images(8), {}
    ),
    "avg_pool2d": lambda: Row(
        nn.AvgPool2d(3, 2, 1, include_pad=True), tn.AvgPool2d(3, 2, 1), images(5, 6), {}
    ),
    "avg_pool3d": lambda: Row(nn.AvgPool3d(2), tn.AvgPool3d(2), images(4, 5, 4), {}),
    "adaptive_avg_pool2d": lambda: Row(
        nn.AdaptiveAvgPool2d((3, 2)), tn.AdaptiveAvgPool2d((3, 2)), images(7, 5), {}
    ),
    "adaptive_max_pool2d": lambda: Row(
        nn.AdaptiveMaxPool2d(3), tn.AdaptiveMaxPool2d(3), images(7, 6), {}
    ),
    "global_avg_pool2d": lambda: Row(
        nn.GlobalAvgPool2d(),
        tn.Sequential(tn.AdaptiveAvgPool2d(1), tn.Flatten()),
        images(3, 5),
        {},
    ),
    "global_max_pool2d": lambda: Row(
        nn.GlobalMaxPool2d(),
        tn.Sequential(tn.AdaptiveMaxPool2d(1), tn.Flatten()),
        images(3, 5),
        {},
    ),
    "batch_norm1d": lambda: Row(
        nn.BatchNorm1d(momentum=0.8, epsilon=1e-3), tn.BatchNorm1d(4, **BATCH_NORM), (6, 4), NORM
    ),
    "batch_norm1d, rank 3": lambda: Row(nn.BatchNorm1d(), tn.BatchNorm1d(4), images(5), NORM),
    "batch_norm2d": lambda: Row(
        nn.BatchNorm2d(momentum=0.8, epsilon=1e-3),
        tn.BatchNorm2d(4, **BATCH_NORM),
        images(3, 5),
        NORM,
    ),
    "batch_norm2d, not affine": lambda: Row(
        nn.BatchNorm2d(affine=False), tn.BatchNorm2d(4, affine=False), images(3, 5), {}
    ),
    "batch_norm3d": lambda: Row(nn.BatchNorm3d(), tn.BatchNorm3d(4), images(3, 2, 2), NORM),
    "layer_norm": lambda: Row(nn.LayerNorm(), tn.LayerNorm(5), (2, 3, 5), NORM),
    "layer_norm, 2 axes": lambda: Row(
        nn.LayerNorm(axis=-2, epsilon=0.1), tn.LayerNorm((3, 5), 0.1), (2, 3, 5), NORM
    ),
    "layer_norm, no bias": lambda: Row(
        nn.LayerNorm(bias=False), tn.LayerNorm(5, bias=False), (2, 5), {"scale": NORM["scale"]}
    ),
    "layer_norm, not affine": lambda: Row(
        nn.LayerNorm(affine=False), tn.LayerNorm(5, elementwise_affine=False), (2, 5), {}
    ),
    "rms_norm": lambda: Row(
        nn.RMSNorm(epsilon=0.1), tn.RMSNorm(5, 0.1), (2, 3, 5), {"scale": NORM["scale"]}
    ),
    "rms_norm, 2 axes": lambda: Row(
        nn.RMSNorm(axis=1), tn.RMSNorm((3, 5), 1e-5), (2, 3, 5), {"scale": NORM["scale"]}
    ),
    "group_norm": lambda: Row(nn.GroupNorm(2), tn.GroupNorm(2, 4), images(3, 5), NORM),
    "instance_norm2d": lambda: Row(
        nn.InstanceNorm2d(epsilon=0.1), tn.InstanceNorm2d(4, 0.1), images(3, 5), {}
    ),
    "instance_norm2d, affine": lambda: Row(
        nn.InstanceNorm2d(affine=True), tn.InstanceNorm2d(4, affine=True), images(3, 5), NORM
    ),
    "instance_norm1d": lambda: Row(
        nn.InstanceNorm1d(affine=True), tn.InstanceNorm1d(4, affine=True), images(5), NORM
    ),
    "instance_norm3d": lambda: Row(
        nn.InstanceNorm3d(affine=True), tn.InstanceNorm3d(4, affine=True), images(2, 3, 2), NORM
    ),
    "relu": lambda: Row(nn.ReLU(), tn.ReLU(), (3, 4), {}),
    "leaky_relu": lambda: Row(nn.LeakyReLU(0.2), tn.LeakyReLU(0.2), (3, 4), {}),
    "sigmoid": lambda: Row(nn.Sigmoid(), tn.Sigmoid(), (3, 4), {}),
    "tanh": lambda: Row(nn.Tanh(), tn.Tanh(), (3, 4), {}),
    "softplus": lambda: Row(nn.Softplus(), tn.Softplus(), (3, 4), {}),
    "softsign": lambda: Row(nn.Softsign(), tn.Softsign(), (3, 4), {}),
    "gelu": lambda: Row(nn.GELU(), tn.GELU(), (3, 4), {}),
    "gelu, approximate": lambda: Row(nn.GELU(True), tn.GELU("tanh"), (3, 4), {}),
    "softmax": lambda: Row(nn.Softmax(1), tn.Softmax(1), (3, 4, 2), {}),
    "log_softmax": lambda: Row(nn.LogSoftmax(), tn.LogSoftmax(-1), (3, 4), {}),
    "flatten": lambda: Row(nn.Flatten(), tn.Flatten(), (3, 4, 2), {}),
    "unfold": lambda: Row(
        nn.Unfold((3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
        tn.Unfold((3, 2), (1, 2), (1, 0), (2, 1)),
        images(5, 6),
        {},
    ),
    "fold": lambda: Row(
        nn.Fold((4, 5), 2, padding=1), tn.Fold((4, 5), 2, padding=1), (2, 8, 30), {}
    ),
    "dropout of nothing": lambda: Row(nn.Dropout(0.0), tn.Dropout(0.0), (3, 4), {}),
}


def nested(names):
    return {ours: (f"0.{theirs}", f) for ours, (theirs, f) in names.items()}


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_same_as_pytorch(row, training, rng):
    torch.manual_seed(0)
    row = row()
    for v in row.theirs.parameters():
        torch.nn.init.normal_(v)
    (row.layer.train if training else row.layer.eval)()
    row.theirs.train(training)
    tensors = dict(row.theirs.named_parameters())
    assert len(tensors) == len(row.names)
    same = {ours: (tensors[k], f or np.asarray) for ours, (k, f) in row.names.items()}
    row.layer.load_dict({k: f(v.detach().numpy()) for k, (v, f) in same.items()}, strict=False)

    array = rng.normal(size=row.shape).astype("float32")
    x, tensor = pd.Variable([None, *row.shape[1:]]), torch.tensor(array, requires_grad=True)
    y, wanted = row.layer(x), row.theirs(tensor)
    assert y.shape == (None, *wanted.shape[1:])
    assert {name for name, _ in row.layer.named_parameters()} == set(row.names)
    weights = rng.normal(size=wanted.shape).astype("float32")
    (wanted * torch.tensor(weights)).sum().backward()

    parameters = dict(row.layer.named_parameters())
    sources = [x, *(parameters[name] for name in row.names)]
    targets = [y, *pd.gradients(pd.reduce_sum(y * weights), sources)]
    got = pd.eval(targets, feeds={x: array}, training=training)
    want = [wanted.detach().numpy(), tensor.grad.numpy()]
    want += [f(v.grad.numpy()) for v, f in same.values()]
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert np.allclose(a, b, rtol=row.tolerance, atol=row.tolerance * max(1, abs(b).max()))


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 2), (2, 4, 3, 2), (2, 4, 2, 3, 2)], ids=str)
def test_moving_statistics_are_those_of_pytorch(shape, rng):
    """PyTorch stores the unbiased variance, ours is that of the batch (Ioffe & Szegedy 2015)."""
    kind = f"BatchNorm{max(len(shape) - 2, 1)}d"
    ours, theirs = getattr(nn, kind)(momentum=0.7), getattr(tn, kind)(4, momentum=0.3)
    x = pd.Variable([None, *shape[1:]])
    y = ours(x)
    step = pd.SGDOptimizer(0.0).minimize(pd.reduce_mean(pd.square(y)))
    count = np.prod(shape) / 4
    variance = np.ones(4)
    for _ in range(3):
        array = rng.normal(2.0, 3.0, size=shape).astype("float32")
        pd.eval(step, feeds={x: array})
        theirs(torch.tensor(array))
        axes = tuple(k for k in range(len(shape)) if k != 1)
        variance = 0.7 * variance + 0.3 * array.var(axes)
    assert [name for name, _ in ours.named_buffers()] == ["mean", "variance"]
    assert np.allclose(ours.mean.val(), theirs.running_mean, rtol=1e-5)
    assert np.allclose(ours.variance.val(), variance, rtol=1e-5)
    unbiased = (ours.variance.val() - 0.7**3) * count / (count - 1) + 0.7**3
    assert np.allclose(unbiased, theirs.running_var, rtol=1e-5)
    theirs.running_var = torch.tensor(ours.variance.val())
    array = rng.normal(size=shape).astype("float32")
    assert np.allclose(
        pd.eval(ours.eval()(x), feeds={x: array}),
        theirs.eval()(torch.tensor(array)).detach().numpy(),
        atol=1e-5,
    )


def test_embedding(rng):
    theirs = tn.Embedding(7, 3, padding_idx=2)
    ours = nn.Embedding(7, 3, padding_id=2)
    ours.load_dict({"W": theirs.weight.detach().numpy()})
    for shape in ((4,), (4, 1), (2, 3)):  # a length of 1 is a length like any other
        array = rng.integers(0, 7, shape)
        array.flat[0] = 2
        ids = pd.Variable([None, *shape[1:]], dtype="int64")
        y, want = ours(ids), theirs(torch.tensor(array))
        weights = rng.normal(size=want.shape).astype("float32")
        theirs.weight.grad = None
        (want * torch.tensor(weights)).sum().backward()
        (gradient,) = pd.gradients(pd.reduce_sum(y * weights), [ours.W])
        got = pd.eval([y, gradient], feeds={ids: array})
        assert y.shape == (None, *want.shape[1:])
        assert np.allclose(got[0], want.detach()) and np.allclose(got[1], theirs.weight.grad)


def test_dropout_drops_in_training_only():
    layer, x = nn.Dropout(0.25), pd.Variable([None, 1000])
    y = layer(x)
    ones = np.ones((20, 1000), np.float32)
    kept = pd.eval(y, feeds={x: ones}, training=True)
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.75)}
    assert (kept > 0).mean() == pytest.approx(0.75, abs=0.01)
    assert (pd.eval(y, feeds={x: ones}) == ones).all()  # a static graph can do both
    assert layer.eval()(x) is x


@pytest.mark.parametrize("mode", ["row", "batch"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_stochastic_depth_is_that_of_torchvision(mode, dynamic):
    """Its formula: noise of one number for each row, or for all, divided by its expectation."""
    layer, ones = nn.StochasticDepth(0.25, mode), np.ones((2000 if mode == "row" else 1, 2, 3))
    x = pd.Variable([None, 2, 3])
    y, rows = layer(x), []
    for _ in range(1 if mode == "row" else 200):
        if dynamic:
            with pd.guard():
                kept = layer(ones).numpy()
        else:
            kept = pd.eval(y, feeds={x: ones}, training=True)
        assert (kept == kept[:, :1, :1]).all() and set(np.unique(kept)) <= {0.0, np.float32(4 / 3)}
        rows += kept[:, 0, 0].tolist()
    assert np.mean(rows) == pytest.approx(1.0, abs=0.06 if mode == "row" else 0.12)
    assert (pd.eval(y, feeds={x: ones}) == ones).all()
    assert layer.eval()(x) is x
