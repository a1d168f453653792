"""A model of the next word with a softmax over many words."""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.growth import size

WIDTH, BATCH, RATE = 64, 32, 1e-2

TITLE = f"Next word by the size of the vocabulary: words of {WIDTH}, batch {BATCH}, SGD"
KIND = "train"
RTOL = 1e-3
FLOPS = None


def batches():
    """Return batches of words [n], and those that follow."""
    rng = np.random.default_rng(0)
    return [tuple(rng.integers(0, size(), (2, BATCH))) for _ in range(8)]


def ours():
    """Return the loop of `pd.eval`, and the parameters; the table is updated by rows."""
    import pd_core as pd

    words, following = (pd.Variable([None], dtype="int64") for _ in range(2))
    table = pd.Variable("table", shape=[size(), WIDTH], row_sparse=True)
    scores = pd.nn.FC(size())
    logits = scores(pd.gather(table, words))
    loss = pd.reduce_mean(pd.softmax_cross_entropy(logits, following))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [words, following], [table, *scores.parameters()])


def pytorch(parameters, compiled):
    """Return the loop of PyTorch; the table is updated by rows."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(parameters)
    table, w, b = trained

    @compiled
    def loss(words, following):
        x = f.embedding(words, table, sparse=True)
        return f.cross_entropy(torch.addmm(b, x, w), following)

    return loops.torch_loop(loss, torch.optim.SGD(trained, RATE))
