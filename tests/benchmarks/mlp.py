"""A perceptron 784-128-64-10, batch 128: a training step in pd and PyTorch."""

import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd

BATCH = 128
RATE, MOMENTUM = 0.01, 0.9


def ours():
    image, label = pd.Variable([None, 784]), pd.Variable([None], dtype="int64")
    hidden = pd.fc(pd.fc(image, 128, act="relu"), 64, act="relu")
    loss = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(hidden, 10), label))
    update = pd.MomentumOptimizer(RATE, MOMENTUM).minimize(loss)

    def step(batch):
        _, value = pd.eval([update, loss], feeds={image: batch[0], label: batch[1]})
        return float(value)

    return step, [update, loss], pd.trainable_variables()


def theirs(parameters):
    w1, b1, w2, b2, w3, b3 = parameters = [sbs.parameter(v) for v in parameters]
    optimizer = torch.optim.SGD(parameters, RATE, momentum=MOMENTUM, fused=True)

    def step(batch):
        hidden = f.relu(torch.addmm(b1, torch.from_numpy(batch[0]), w1))
        hidden = f.relu(torch.addmm(b2, hidden, w2))
        loss = f.cross_entropy(torch.addmm(b3, hidden, w3), torch.from_numpy(batch[1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    title = "Perceptron 784-128-64-10, batch 128, momentum"
    sbs.compare(title, ours, theirs, sbs.digits(BATCH), steps=200)
