"""A lazy Adam step on 4096 rows of a 1,000,000 x 64 table, in pd and PyTorch.

The height of the table is an optional argument: `python embedding.py 10000`.
"""

import sys

import numpy as np
import side_by_side as sbs
import torch

import pd_core as pd

HEIGHT, WIDTH, BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, 64, 4096
RATE = 0.01


def ours():
    ids, target = pd.Variable([None], dtype="int64"), pd.Variable([None, WIDTH])
    table = pd.Variable("table", shape=[HEIGHT, WIDTH], row_sparse=True)
    loss = pd.reduce_mean(pd.square_error(pd.gather(table, ids), target))
    update = pd.AdamOptimizer(RATE).minimize(loss)

    def step(batch):
        _, value = pd.eval([update, loss], feeds={ids: batch[0], target: batch[1]})
        return float(value)

    return step, [update, loss], [table]


def theirs(parameters):
    table = torch.nn.Embedding(HEIGHT, WIDTH, sparse=True, _weight=sbs.parameter(parameters[0]))
    optimizer = torch.optim.SparseAdam(table.parameters(), RATE)

    def step(batch):
        difference = table(torch.from_numpy(batch[0])) - torch.from_numpy(batch[1])
        loss = difference.square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def batches():
    """Return batches of ids with the frequencies of words (Zipf), and target rows."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, HEIGHT + 1)
    ids = rng.choice(HEIGHT, (50, BATCH), p=frequency / frequency.sum())
    return [(k, rng.normal(size=(BATCH, WIDTH)).astype(np.float32)) for k in ids]


if __name__ == "__main__":
    title = f"Table {HEIGHT} x {WIDTH}, {BATCH} ids per batch, lazy Adam"
    sbs.compare(title, ours, theirs, batches(), steps=50)
