"""A stack of 3 x 3 convolutions, 64-64-128-128-256-256 on 32 x 32 images, batch 32, momentum."""

import numpy as np
import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd

BATCH, WIDTHS = 32, (64, 128, 256)
RATE, MOMENTUM = 0.0003, 0.9


def ours():
    image, label = pd.Variable([None, 3, 32, 32]), pd.Variable([None], dtype="int64")
    h = image
    for width in WIDTHS:
        for _ in range(2):
            h = pd.conv2d(h, width, 3, padding=1, act="relu")
        h = pd.pool2d(h, 2)
    loss = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(pd.reshape(h, [-1, 4096]), 10), label))
    update = pd.MomentumOptimizer(RATE, MOMENTUM).minimize(loss)

    def step(batch):
        return float(pd.eval([update, loss], feeds={image: batch[0], label: batch[1]})[1])

    return step, [update, loss], pd.trainable_variables()


def loss_of(parameters):
    """Return the loss of a batch in PyTorch as a function (images, labels)."""
    *filters, weight, bias = parameters

    def loss(images, labels):
        h = images
        for k in range(0, len(filters), 4):
            for w, b in (filters[k : k + 2], filters[k + 2 : k + 4]):
                h = f.relu(f.conv2d(h, w, b, padding=1))
            h = f.max_pool2d(h, 2)
        return f.cross_entropy(torch.addmm(bias, h.flatten(1), weight), labels)

    return loss


def theirs(parameters):
    parameters = [sbs.parameter(v) for v in parameters]
    optimizer = torch.optim.SGD(parameters, RATE, momentum=MOMENTUM, fused=True)
    return sbs.torch_step(loss_of(parameters), optimizer)


def pictures():
    rng = np.random.default_rng(0)
    shape = (BATCH, 3, 32, 32)
    return [
        (rng.normal(size=shape).astype(np.float32), rng.integers(0, 10, BATCH)) for _ in range(4)
    ]


if __name__ == "__main__":
    title = f"VGG-style stack, 32 x 32, batch {BATCH}, momentum"
    sbs.compare(title, ours, theirs, pictures(), steps=4, blocks=6, rtol=5e-2)
