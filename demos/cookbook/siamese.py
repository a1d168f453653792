"""A siamese network with a triplet loss (Schroff et al. 2015): shapes of one kind come together.

One tower with max pooling sees three pictures: two of one kind (squares, discs, crosses) and one of
another. Its weights are shared because it is the same layer, called three times.

    python demos/cookbook/siamese.py
"""

import numpy as np
from initial import weights

import pd_core as pd

SIZE, BATCH, WIDTH, RATE, MARGIN = 16, 24, 8, 1e-3, 0.5


def pictures(kinds, rng):
    """Draw noisy pictures [n, 1, 16, 16] of these kinds, 0 to 2, at random places."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    y, x = rng.integers(4, 12, (2, len(kinds), 1, 1))
    rows, columns = abs(rows - y), abs(columns - x)
    shapes = np.stack(
        [
            (rows < 3) & (columns < 3),
            rows**2 + columns**2 < 10,
            ((rows < 1) & (columns < 4)) | ((columns < 1) & (rows < 4)),
        ]
    )
    chosen = shapes[kinds, np.arange(len(kinds))].astype("float64")
    return (chosen + rng.normal(0, 0.2, chosen.shape))[:, None].astype("float32")


def batches(steps):
    """Yield anchors, pictures of the same kind, and pictures of another kind."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        kinds = rng.integers(0, 3, BATCH)
        others = (kinds + rng.integers(1, 3, BATCH)) % 3
        yield pictures(kinds, rng), pictures(kinds, rng), pictures(others, rng)


def tower():
    """Return the network that embeds a picture [N, 1, 16, 16] as a vector [N, 8]."""
    return pd.nn.Sequential(
        pd.nn.Conv2d(16, 3, padding=1, act="relu"),
        pd.nn.MaxPool2d(2),
        pd.nn.Conv2d(32, 3, padding=1, act="relu"),
        pd.nn.MaxPool2d(2),
        pd.nn.Flatten(),
        pd.nn.FC(WIDTH, bias=False),  # a bias cancels in distances
        name="tower",
    )


def build():
    """Return the feeds, the embedding of the first, the cost and a training step."""
    net = tower()
    feeds = [
        pd.Variable(n, shape=[None, 1, SIZE, SIZE]) for n in ("anchor", "positive", "negative")
    ]
    anchor, positive, negative = (net(x) for x in feeds)
    net.load_dict(weights({name: value.shape for name, value in net.state_dict().items()}))
    near = pd.reduce_sum(pd.square(anchor - positive), axis=1)
    far = pd.reduce_sum(pd.square(anchor - negative), axis=1)
    cost = pd.reduce_mean(pd.relu(near - far + MARGIN))
    return feeds, anchor, cost, pd.AdamOptimizer(RATE).minimize(cost)


def losses(steps):
    """Train, and return the cost of each step."""
    feeds, _, cost, step = build()
    return [
        float(pd.eval([cost, step], feeds=dict(zip(feeds, batch, strict=True)))[0])
        for batch in batches(steps)
    ]


def main():
    feeds, embedding, cost, step = build()
    for k, batch in enumerate(batches(600)):
        c, _ = pd.eval([cost, step], feeds=dict(zip(feeds, batch, strict=True)))
        if k % 100 == 0:
            print(f"step {k:3}  cost {c:.3f}")
    rng = np.random.default_rng(2)
    kinds = np.arange(300) % 3
    vectors = pd.eval(embedding, feeds={feeds[0]: pictures(kinds, rng)})
    centers = np.stack([vectors[:150][kinds[:150] == k].mean(0) for k in range(3)])
    nearest = ((vectors[150:, None] - centers) ** 2).sum(2).argmin(1)
    accuracy = (nearest == kinds[150:]).mean()
    print(f"nearest center of a kind: {accuracy:.0%} right")
    if accuracy < 0.9:
        raise SystemExit("did not learn to tell the kinds apart")


if __name__ == "__main__":
    main()
