"""Validations with a weight for each sample: their cost is sum(w loss) / n, as that of training."""

import numpy as np
import pytest

import pd_core as pd

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
W = np.linspace(0.1, 2, 20).astype("float32")


class Network(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = pd.nn.FC(2)

    def forward(self, x):
        return self.layer(x)


class Stepping(Network):
    def train_one_batch(self, x, y):
        return pd.reduce_mean(pd.softmax_cross_entropy(self.forward(x), y))


def validated(network, data, **weights):
    options = {"optimizer": pd.SGDOptimizer(0.1), "loss": "softmax_cross_entropy"}
    if isinstance(network, Stepping):
        del options["optimizer"]
    options |= {"validation_data": data, "batch_size": 8, "verbose": False}
    history = network.fit(X, Y, **options, **weights)
    z = network.predict(X).astype("float64")
    losses = np.log(np.exp(z).sum(1)) - z[np.arange(20), Y]
    return history["val_cost"][-1], losses, network.state_dict()["layer.W"]


def batches():
    return ((X[k : k + 6], Y[k : k + 6], W[k : k + 6]) for k in range(0, 20, 6))


def test_weights_of_validations():
    """With and without weights in training, of arrays and of readers, in graphs and by calls."""
    parameters = []
    for module, data, weights, expected in [
        (Network, (X, Y, W), {}, W),
        (Network, (X, Y, W), {"sample_weight": W}, W),
        (Network, batches, {"sample_weight": W}, W),
        (Network, (X, Y), {"sample_weight": W}, 1.0),
        (Network, (X, Y), {}, 1.0),
        (Stepping, (X, Y, W), {}, W),
        (Stepping, batches, {}, W),
    ]:
        pd.reset(seed=0)
        found, losses, w = validated(module(), data, **weights)
        np.testing.assert_allclose(found, (losses * expected).mean(), rtol=1e-5)
        parameters.append(w)
    np.testing.assert_allclose(parameters[0], parameters[4], rtol=1e-6)  # it trains the same


def test_weights_that_do_not_fit():
    with pytest.raises(pd.ShapeError, match="weight"):
        validated(Network(), (X, Y, W[:5]))
    with pytest.raises(TypeError, match="validation's reader has weights"):
        validated(Network(), lambda: iter([(X, Y, W)]))
