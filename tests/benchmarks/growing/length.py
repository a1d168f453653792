"""An LSTM over long sequences."""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.growth import size

WIDTH, BATCH, RATE = 64, 16, 1e-2

TITLE = f"LSTM by the length of sequences: {WIDTH} units, batch {BATCH}, SGD"
KIND = "train"
RTOL = 1e-3
FLOPS = None


def batches():
    """Return batches of sequences [n, T, 64] and targets [n, 64]."""
    rng = np.random.default_rng(0)
    shapes = (BATCH, size(), WIDTH), (BATCH, WIDTH)
    return [tuple(rng.normal(size=s).astype(np.float32) for s in shapes) for _ in range(4)]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    x, target = pd.Variable([None, size(), WIDTH]), pd.Variable([None, WIDTH])
    lstm = pd.nn.LSTM(WIDTH)
    _, (h, _) = lstm(x)
    loss = pd.reduce_mean(pd.square(pd.reshape(h, [-1, WIDTH]) - target))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [x, target], lstm.parameters())


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, whose gates are i, f, g, o; those of pd are g, i, f, o."""
    import torch

    w, r, b = parameters
    order = np.concatenate([WIDTH * k + np.arange(WIDTH) for k in (1, 2, 0, 3)])
    lstm = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.from_numpy(w.T[order]))
        lstm.weight_hh_l0.copy_(torch.from_numpy(r.T[order]))
        lstm.bias_ih_l0.copy_(torch.from_numpy(b[order]))
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(False)
    trained = [p for p in lstm.parameters() if p.requires_grad]

    @compiled
    def loss(x, target):
        return (lstm(x)[1][0][0] - target).square().mean()

    return loops.torch_loop(loss, torch.optim.SGD(trained, RATE, fused=True))
