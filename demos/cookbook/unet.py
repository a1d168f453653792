"""A U-Net (Ronneberger et al. 2015) that finds discs in noisy pictures, pixel by pixel.

python demos/cookbook/unet.py
"""

import numpy as np
from initial import weights

import pd_core as pd

SIZE, BATCH, RATE = 32, 16, 3e-3


def batches(steps):
    """Yield noisy pictures [N, 1, 32, 32] of a disc, and its mask."""
    rng = np.random.default_rng(1)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for _ in range(steps):
        y, x, r = (rng.uniform(a, b, (BATCH, 1, 1, 1)) for a, b in ((8, 24), (8, 24), (4, 8)))
        mask = ((rows - y) ** 2 + (columns - x) ** 2 < r**2).astype("float32")
        yield (mask + rng.normal(0, 0.5, mask.shape)).astype("float32"), mask


class Block(pd.nn.Sequential):
    """Two convolutions with ReLU."""

    def __init__(self, channels):
        convolutions = [pd.nn.Conv2d(channels, 3, padding=1, act="relu") for _ in range(2)]
        super().__init__(*convolutions)


class UNet(pd.nn.Layer):
    """Two levels down, two up; the picture at each level is joined with what comes up."""

    def __init__(self, name="unet"):
        super().__init__(name)
        self.first, self.second, self.bottom = Block(8), Block(16), Block(32)
        self.pool = pd.nn.MaxPool2d(2)
        self.up_second = pd.nn.ConvTranspose2d(16, 2, stride=2)
        self.up_first = pd.nn.ConvTranspose2d(8, 2, stride=2)
        self.join_second, self.join_first = Block(16), Block(8)
        self.out = pd.nn.Conv2d(1, 1)

    def forward(self, x):
        first = self.first(x)
        second = self.second(self.pool(first))
        up = self.up_second(self.bottom(self.pool(second)))
        up = self.join_second(pd.concat([second, up], axis=1))
        up = self.join_first(pd.concat([first, self.up_first(up)], axis=1))
        return self.out(up)


def build():
    """Return the network, its feeds, the logits, the cost and a training step."""
    net = UNet()
    x, mask = (pd.Variable(n, shape=[None, 1, SIZE, SIZE]) for n in ("x", "mask"))
    logits = net(x)
    cost = pd.reduce_mean(pd.sigmoid_cross_entropy(logits, mask))
    net.load_dict(weights({name: value.shape for name, value in net.state_dict().items()}))
    return net, (x, mask), logits, cost, pd.AdamOptimizer(RATE).minimize(cost)


def losses(steps):
    """Train, and return the cost of each step."""
    _, (x, mask), _, cost, step = build()
    return [
        float(pd.eval([cost, step], feeds={x: pictures, mask: masks})[0])
        for pictures, masks in batches(steps)
    ]


def main():
    _, (x, mask), logits, cost, step = build()
    for k, (pictures, masks) in enumerate(batches(200)):
        c, _ = pd.eval([cost, step], feeds={x: pictures, mask: masks})
        if k % 40 == 0:
            print(f"step {k:3}  cost {c:.3f}")
    ((pictures, masks),) = batches(1)
    found = pd.eval(logits, feeds={x: pictures}) > 0
    overlap = (found & (masks > 0)).sum() / (found | (masks > 0)).sum()
    print(f"intersection over union: {overlap:.2f}")
    if overlap < 0.8:
        raise SystemExit("did not learn to find discs")


if __name__ == "__main__":
    main()
