"""A perceptron of many layers."""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.growth import size

WIDTH, BATCH, RATE = 64, 32, 1e-3

TITLE = f"Perceptron by its depth: layers of {WIDTH}, batch {BATCH}, SGD"
KIND = "train"
RTOL = 1e-3
FLOPS = None


def batches():
    """Return batches of inputs and targets [n, 64]."""
    rng = np.random.default_rng(0)
    return [tuple(rng.normal(size=(2, BATCH, WIDTH)).astype(np.float32)) for _ in range(4)]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    x, target = pd.Variable([None, WIDTH]), pd.Variable([None, WIDTH])
    layers = [pd.nn.FC(WIDTH, act="tanh") for _ in range(size())]
    loss = pd.reduce_mean(pd.square(pd.nn.Sequential(*layers)(x) - target))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    parameters = [v for layer in layers for v in layer.parameters()]
    return loops.eval_loop(loss, update, [x, target], parameters)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch

    trained = loops.torch_parameters(parameters)

    @compiled
    def loss(x, target):
        for w, b in zip(trained[::2], trained[1::2], strict=True):
            x = torch.addmm(b, x, w).tanh()
        return (x - target).square().mean()

    return loops.torch_loop(loss, torch.optim.SGD(trained, RATE, fused=True))
