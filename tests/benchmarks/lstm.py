"""An LSTM written with pd.scan, compared with torch.nn.LSTM: forward, backward and update.

100 steps, batch 64, hidden 128; the loss is the mean squared error of the outputs.
"""

import numpy as np
import side_by_side as sbs
import torch

import pd_core as pd

STEPS, BATCH, WIDTH = 100, 64, 128
RATE = 0.1


def ours():
    x, target = pd.Variable([STEPS, None, WIDTH]), pd.Variable([STEPS, None, WIDTH])
    start = pd.Variable([None, WIDTH])
    wx, wh = (pd.Variable(name, shape=[WIDTH, 4 * WIDTH]) for name in ("wx", "wh"))
    bias = pd.Variable("bias", data=np.zeros(4 * WIDTH))

    def cell(state, x):
        h, c = state
        z = pd.matmul(x, wx) + pd.matmul(h, wh) + bias
        i, f, g, o = pd.split(z, [WIDTH] * 4, axis=1)
        c = pd.sigmoid(f) * c + pd.sigmoid(i) * pd.tanh(g)
        h = pd.sigmoid(o) * pd.tanh(c)
        return [h, c], h

    _, outputs = pd.scan(cell, [start, start], x)
    loss = pd.reduce_mean(pd.square(outputs - target))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    zeros = np.zeros((BATCH, WIDTH), np.float32)

    def step(batch):
        feeds = {x: batch[0], target: batch[1], start: zeros}
        return float(pd.eval([update, loss], feeds)[1])

    return step, [update, loss], [wx, wh, bias]


def theirs(parameters):
    wx, wh, bias = (torch.from_numpy(v.val()) for v in parameters)
    lstm = torch.nn.LSTM(WIDTH, WIDTH)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(wx.T)
        lstm.weight_hh_l0.copy_(wh.T)
        lstm.bias_ih_l0.copy_(bias)
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in lstm.parameters() if p.requires_grad], RATE)

    def step(batch):
        outputs, _ = lstm(torch.from_numpy(batch[0]))
        loss = torch.square(outputs - torch.from_numpy(batch[1])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sequences():
    rng = np.random.default_rng(0)
    shape = (2, STEPS, BATCH, WIDTH)
    return [tuple(rng.normal(size=shape).astype(np.float32)) for _ in range(4)]


if __name__ == "__main__":
    title = f"LSTM, {STEPS} steps, batch {BATCH}, hidden {WIDTH}, SGD"
    sbs.compare(title, ours, theirs, sequences(), steps=8, blocks=8)
