"""A character transformer with a warm-up of the learning rate, trained on the Apache License.

Each character is predicted from those before it: causal attention, two layers, norms first.

    python demos/cookbook/transformer.py
"""

from pathlib import Path

import numpy as np
from initial import weights

import pd_core as pd

TEXT = Path(__file__).resolve().parents[2] / "LICENSE"
WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 32, 4, 2, 32, 16
RATE, WARMUP = 3e-3, 10  # steps until the rate is reached


def characters():
    """Return the distinct characters of the text, and the text as their numbers."""
    return np.unique(list(TEXT.read_text("utf-8")), return_inverse=True)


def batches(steps):
    """Yield characters [N, T] and those that follow each, [N, T]."""
    rng, text = np.random.default_rng(1), characters()[1]
    for _ in range(steps):
        at = rng.integers(0, len(text) - CONTEXT - 1, (BATCH, 1)) + np.arange(CONTEXT)
        yield text[at], text[at + 1]


class Transformer(pd.nn.Layer):
    """Characters [N, T] to the logits of the next one, [N, T, vocabulary]."""

    def __init__(self, vocabulary, name="transformer"):
        super().__init__(name)
        self.characters = pd.nn.Embedding(vocabulary, WIDTH)
        self.places = pd.nn.Embedding(CONTEXT, WIDTH)
        self.layers = pd.nn.Sequential(
            *(
                pd.nn.TransformerEncoderLayer(
                    WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", norm_first=True, causal=True
                )
                for _ in range(LAYERS)
            )
        )
        self.norm, self.logits = pd.nn.LayerNorm(), pd.nn.FC(vocabulary)

    def forward(self, x):
        h = self.characters(x) + self.places(np.arange(CONTEXT))
        return self.logits(self.norm(self.layers(h)))


def initial(net):
    """Return the initial weights of the network; scales of norms are ones."""
    shapes = {name: value.shape for name, value in net.state_dict().items()}
    values = weights(shapes)
    ones = {name: np.ones(shapes[name], "float32") for name in shapes if name.endswith("scale")}
    return values | ones


def build():
    """Return the network, its feeds, the cost and a training step."""
    net = Transformer(len(characters()[0]))
    x, y = (pd.Variable(n, shape=[None, CONTEXT], dtype="int64") for n in ("x", "y"))
    cost = pd.nn.SoftmaxCrossEntropy()(net(x), y)
    net.load_dict(initial(net))
    optimizer = pd.AdamOptimizer(pd.schedules.Warmup(RATE, WARMUP))
    return net, (x, y), cost, optimizer.minimize(cost)


def losses(steps):
    """Train, and return the cost of each step."""
    _, (x, y), cost, step = build()
    return [
        float(pd.eval([cost, step], feeds={x: these, y: following})[0])
        for these, following in batches(steps)
    ]


def main():
    history = losses(500)
    for k in range(0, 500, 100):
        print(f"step {k:3}  {history[k]:.2f} nats a character")
    if np.mean(history[-20:]) > 2.2:
        raise SystemExit("did not learn to spell")


if __name__ == "__main__":
    main()
