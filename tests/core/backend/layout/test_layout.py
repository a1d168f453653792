"""Images kept position-major give what plain images give: results, gradients, and steps."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.base import NO_SEAM
from pd_core.backend.ort import OrtBackend
from pd_core.graph.node import ancestors
from pd_core.run.programs import Source

N = 6


@pytest.fixture(autouse=True)
def small_images_too(monkeypatch):
    monkeypatch.setattr("pd_core.backend.layout.choice.gain_of", lambda *_: 1e9)


def conv(x, filters, size=3, stride=1, padding=None, act=None, B=None):
    padding = size // 2 if padding is None else padding
    return pd.conv2d(x, filters, size, stride, padding, act=act, B=B)


def normalised(x):
    return pd.nn.BatchNorm2d()(x)


def stack(x):
    x = pd.max_pool(conv(x, 16, act="relu"), 2, 2)
    return pd.max_pool(conv(conv(x, 24, act="tanh"), 16, act="relu"), 2, 2)


def odd_sizes(x):
    return conv(conv(x[:, :, :17, :14], 16, act="relu"), 20, act="sigmoid")


def residual(x):
    x = pd.relu(normalised(conv(x, 16, B=False)))
    y = pd.relu(normalised(conv(x, 32, stride=2, B=False)))
    y = normalised(conv(y, 32, B=False))
    x = normalised(conv(x, 32, size=1, stride=2, B=False))
    x = pd.relu(x + y)
    return pd.avg_pool(x, x.shape[2], 1)


def large_filters(x):
    x = conv(x, 16, size=5, padding=0, act="relu")
    return conv(conv(x, 20, size=5, padding=0, act="relu"), 16, size=5, act="relu")


def few_channels(x):
    return conv(conv(x[:, :3], 16, size=5, stride=2, act="relu"), 16)


def strided(x):
    x = conv(conv(x, 16), 16, stride=2, act="relu")
    return conv(x, 24, size=2, stride=2, padding=0)


def average_pools(x):
    x = pd.avg_pool(conv(x, 16, act="leaky_relu"), 2, 2)
    return pd.avg_pool(conv(x, 16, act="elu"), 3, 3)


def overlapping_pools(x):
    x = pd.max_pool(conv(x, 16, act="relu"), 3, 2, 1)
    x = pd.max_pool(conv(x, 16), 3, 1, ties="all")
    return pd.avg_pool(conv(x, 16, act="sigmoid"), 3, 2)


def branches(x):
    x = conv(x, 16, act="relu")
    y = pd.concat([conv(x, 16, size=1), conv(x, 24), pd.max_pool(x, 3, 1, 1)], axis=1)
    return conv(y, 16) + y[:, 8:24]


def other_operators(x):
    x = conv(x, 16, act="relu")
    y = pd.concat([x, conv(x, 16)], axis=1)
    y = pd.softmax(conv(y, 16), axis=1) * x - pd.transpose(x, [0, 1, 3, 2])
    return pd.clip(y, -0.5, 0.5) + pd.reduce_max(x, [2, 3], True)


def scaled(x):
    y = conv(x, 16)
    gate = pd.sigmoid(pd.fc(pd.reduce_mean(y, [2, 3]), 16))
    return conv(y * pd.reshape(gate, [-1, 16, 1, 1]), 16) / 3.0


NETWORKS = [
    *(stack, odd_sizes, residual, large_filters, few_channels, strided, average_pools),
    *(other_operators, scaled, overlapping_pools, branches),
]


def outcome(network, exact, steps=3, second=False):
    """Losses, gradients of image and parameters, and parameters after some steps."""
    pd.reset()
    session = pd.Session(seed=3, exact_convolutions=exact)
    rng = np.random.default_rng(0)
    with session:
        image = pd.Variable([None, 16, 20, 20])
        y = network(image)
        target = np.cos(np.arange(np.prod(y.shape[1:]))).reshape(y.shape[1:]).astype("float32")
        loss = pd.reduce_mean((y - target) ** 2) * 4.0
        if second:
            (slope,) = pd.gradients(loss, [image])
            loss = loss + 1000.0 * pd.reduce_mean(slope**2)
        parameters = pd.trainable_variables()
        slopes = pd.gradients(loss, [image, *parameters])
        step = pd.MomentumOptimizer(0.05, 0.9).minimize(loss)
        values = []
        for _ in range(steps):
            feeds = {image: rng.normal(size=(N, 16, 20, 20)).astype("float32")}
            values += [pd.eval([loss, y, *slopes, step], feeds)[:-1]]
        values += [[v.val() for v in parameters]]
    return values


def operators(network, exact, n=N):
    with pd.fresh():
        image = pd.Variable([None, 16, 20, 20])
        loss = pd.reduce_mean(network(image) ** 2)
        slopes = [g for g in pd.gradients(loss, pd.trainable_variables()) if g is not None]
    fed = {image: np.zeros((n, 16, 20, 20), np.float32)}
    graph, _ = Source.of(slopes, [], NO_SEAM, fed, True).graph(OrtBackend("cpu", exact))
    return {node.op_type for node in ancestors(graph.outputs)}


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_steps_are_those_of_plain_images(network):
    exact, other = outcome(network, True), outcome(network, False)
    for a, b in zip(exact, other, strict=True):
        for x, y in zip(a, b, strict=True):
            scale = max(1e-3, np.abs(x).max())
            np.testing.assert_allclose(y / scale, x / scale, atol=2e-4)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_no_convolution_is_left(network):
    left = {"Conv", "ConvTranspose", "ConvInputGrad", "ConvFilterGrad"}
    assert operators(network, exact=True) & left
    assert not operators(network, exact=False) & left


def test_second_derivatives_are_those_of_plain_images():
    exact, other = (outcome(stack, e, steps=2, second=True) for e in (True, False))
    for a, b in zip(exact, other, strict=True):
        for x, y in zip(a, b, strict=True):
            scale = max(1e-3, np.abs(x).max())
            np.testing.assert_allclose(y / scale, x / scale, atol=1e-3)


@pytest.mark.parametrize("options", [(2, 2), (3, 2, 1), (3, 1)], ids=str)
@pytest.mark.parametrize("ties", ["first", "all"])
def test_nan_in_a_window_is_its_maximum(options, ties):
    rng = np.random.default_rng(0)
    x = pd.Variable([None, 16, 20, 20])

    def network(x):
        y = conv(x, 16)
        return pd.max_pool(y + 0.0 * pd.log(y + 2.5), *options, ties=ties)

    assert "MaxPool" not in operators(network, exact=False)
    y = network(x)
    scale = rng.normal(size=y.shape[1:]).astype("float32")
    slope = pd.gradients(pd.reduce_sum(y * scale), [x])[0]
    feeds = {x: rng.normal(size=(N, 16, 20, 20)).astype("float32")}
    found, wanted = (
        pd.Session(exact_convolutions=e).eval([y, slope], feeds) for e in (False, True)
    )
    assert 0.05 < np.isnan(found[0]).mean() < 0.95
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
