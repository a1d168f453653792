"""A convolutional variational autoencoder (Kingma & Welling 2013) on pictures of bars.

The noise of the latent variables is drawn in the graph while training, and fed where the numbers
are compared with another framework.

    python demos/cookbook/vae.py
"""

import numpy as np
from initial import weights

import pd_core as pd

LATENT, BATCH, RATE = 8, 16, 1e-3


def batches(steps):
    """Yield pictures [N, 1, 16, 16] of bars, horizontal and vertical, and noise [N, 8]."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        x = np.zeros((BATCH, 1, 16, 16), "float32")
        for k, (vertical, place, width) in enumerate(rng.integers(0, (2, 12, 3), (BATCH, 3))):
            bar = slice(place, place + width + 2)
            x[(k, 0, slice(None), bar) if vertical else (k, 0, bar)] = 1.0
        yield x, rng.standard_normal((BATCH, LATENT)).astype("float32")


class VAE(pd.nn.Layer):
    """Pictures to mean and log-variance of latent variables, and these to logits of pictures."""

    def __init__(self, name="vae"):
        super().__init__(name)
        self.encoder = pd.nn.Sequential(
            pd.nn.Conv2d(16, 4, stride=2, padding=1, act="relu"),
            pd.nn.Conv2d(32, 4, stride=2, padding=1, act="relu"),
            pd.nn.Flatten(),
            pd.nn.FC(2 * LATENT),
        )
        self.wide = pd.nn.FC(32 * 4 * 4, act="relu")
        self.decoder = pd.nn.Sequential(
            pd.nn.ConvTranspose2d(16, 4, stride=2, padding=1, act="relu"),
            pd.nn.ConvTranspose2d(1, 4, stride=2, padding=1),
        )

    def encode(self, x):
        code = self.encoder(x)
        return code[:, :LATENT], code[:, LATENT:]

    def decode(self, z):
        return self.decoder(pd.reshape(self.wide(z), [-1, 32, 4, 4]))

    def forward(self, x, noise):
        mean, log_variance = self.encode(x)
        z = mean + pd.exp(log_variance * 0.5) * noise
        return self.decode(z), mean, log_variance


def build():
    """Return the network, its feeds, the cost and a training step."""
    net = VAE()
    x, noise = pd.Variable("x", shape=[None, 1, 16, 16]), pd.Variable("noise", shape=[None, LATENT])
    logits, mean, log_variance = net(x, noise)
    net.load_dict(weights({name: value.shape for name, value in net.state_dict().items()}))
    reconstruction = pd.reduce_sum(pd.sigmoid_cross_entropy(logits, x), axis=[1, 2, 3])
    divergence = pd.reduce_sum(pd.square(mean) + pd.exp(log_variance) - log_variance - 1.0, axis=1)
    cost = pd.reduce_mean(reconstruction + divergence * 0.5)
    return net, (x, noise), cost, pd.AdamOptimizer(RATE).minimize(cost)


def losses(steps):
    """Train, and return the cost of each step."""
    _, (x, noise), cost, step = build()
    return [
        float(pd.eval([cost, step], feeds={x: pictures, noise: draws})[0])
        for pictures, draws in batches(steps)
    ]


def main():
    net, (x, noise), cost, step = build()
    first = None
    for k, (pictures, draws) in enumerate(batches(600)):
        c, _ = pd.eval([cost, step], feeds={x: pictures, noise: draws})
        first = first or c
        if k % 100 == 0:
            print(f"step {k:3}  cost {c:.1f} nats a picture")
    z = pd.Variable("z", shape=[None, LATENT])
    pixels = pd.sigmoid(net.decode(z))
    draws = np.random.default_rng(2).standard_normal((1, LATENT)).astype("float32")
    for row in pd.eval(pixels, feeds={z: draws})[0, 0]:
        print("".join(" .:*#"[int(4.99 * p)] * 2 for p in row))
    if c > 0.3 * first:
        raise SystemExit("did not learn")


if __name__ == "__main__":
    main()
