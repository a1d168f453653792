"""A perceptron on batches of many samples."""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.growth import size

INPUTS, HIDDEN, CLASSES, RATE = 784, 128, 10, 1e-2

TITLE = f"Perceptron {INPUTS}-{HIDDEN}-{CLASSES} by its batch, SGD"
KIND = "train"
RTOL = 1e-3
FLOPS = None


def batches():
    """Return batches of pixels [n, 784] and labels [n]."""
    rng = np.random.default_rng(0)
    pixels = rng.random((4, size(), INPUTS), np.float32)
    return [(p, rng.integers(0, CLASSES, size())) for p in pixels]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    pixels, labels = pd.Variable([None, INPUTS]), pd.Variable([None], dtype="int64")
    net = pd.nn.Sequential(pd.nn.FC(HIDDEN, act="relu"), pd.nn.FC(CLASSES))
    loss = pd.reduce_mean(pd.softmax_cross_entropy(net(pixels), labels))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [pixels, labels], net.parameters())


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(parameters)
    w1, b1, w2, b2 = trained

    @compiled
    def loss(pixels, labels):
        return f.cross_entropy(torch.addmm(b2, torch.addmm(b1, pixels, w1).relu(), w2), labels)

    return loops.torch_loop(loss, torch.optim.SGD(trained, RATE, fused=True))
