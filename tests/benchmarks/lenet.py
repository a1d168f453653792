"""LeNet as in the 2017 book, batch 128: a training step in pd and PyTorch."""

import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd

BATCH = 128
RATE, MOMENTUM, DECAY = 0.1 / BATCH, 0.9, 0.0005 * BATCH  # gradients are sums over the batch


def ours():
    image, label = pd.Variable([None, 784]), pd.Variable([None], dtype="int64")
    x = pd.reshape(image, [-1, 1, 28, 28])
    for filters in (20, 50):
        x = pd.max_pool(pd.conv2d(x, filters, 5, act="relu", W=pd.MSRA()), 2, 2)
    logits = pd.fc(pd.flatten(x), 10)
    loss = pd.reduce_sum(pd.softmax_cross_entropy(logits, label))
    optimizer = pd.MomentumOptimizer(RATE, MOMENTUM, regularizer=pd.L2(DECAY))
    update = optimizer.minimize(loss)

    def step(batch):
        _, value = pd.eval([update, loss], feeds={image: batch[0], label: batch[1]})
        return float(value)

    return step, [update, loss], pd.trainable_variables()


def theirs(parameters):
    w1, b1, w2, b2, w3, b3 = parameters = [sbs.parameter(v) for v in parameters]
    optimizer = torch.optim.SGD(parameters, RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)

    def step(batch):
        x = torch.from_numpy(batch[0]).reshape(-1, 1, 28, 28)
        x = f.max_pool2d(f.relu(f.conv2d(x, w1, b1)), 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, w2, b2)), 2)
        logits = x.flatten(1) @ w3 + b3
        loss = f.cross_entropy(logits, torch.from_numpy(batch[1]), reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    sbs.compare("LeNet, batch 128, momentum and L2", ours, theirs, sbs.digits(BATCH))
