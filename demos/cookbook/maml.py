"""Learning to learn: MAML (Finn et al. 2017) on sine waves, with the gradient of a gradient.

Each task is a wave of its own amplitude and phase, seen at ten points. The network is trained so
that one gradient step on these points fits the whole wave; that step is part of the graph, and the
optimizer differentiates through it.

    python demos/cookbook/maml.py
"""

import numpy as np

import pd_core as pd

TASKS, POINTS, WIDTH = 4, 10, 40
INNER_RATE, OUTER_RATE = 0.01, 0.001
SIZES = [(1, WIDTH), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH, 1), (1,)]


def weights():
    """Return the initial values of the three layers: W, b, W, b, W, b."""
    rng = np.random.default_rng(0)
    scales = [1.0 if len(size) == 1 else (2 / size[0]) ** 0.5 for size in SIZES]
    return [
        rng.normal(0, s, size).astype("float32") if len(size) > 1 else np.zeros(size, "float32")
        for s, size in zip(scales, SIZES, strict=True)
    ]


def batches(steps):
    """Yield x [tasks, points, 1] to adapt on, y of it, x to test the adapted network on, and y."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        amplitude, phase = rng.uniform(0.1, 5, (TASKS, 1, 1)), rng.uniform(0, np.pi, (TASKS, 1, 1))
        x = rng.uniform(-5, 5, (2, TASKS, POINTS, 1)).astype("float32")
        y = (amplitude * np.sin(x - phase)).astype("float32")
        yield x[0], y[0], x[1], y[1]


def network(x, w):
    """A perceptron as a function of its weights, which may be computed."""
    h = pd.relu(x @ w[0] + w[1])
    return pd.relu(h @ w[2] + w[3]) @ w[4] + w[5]


def mean_square(prediction, y):
    return pd.reduce_mean(pd.square(prediction - y))


def adapted(w, x, y):
    """The weights after one gradient step on a task."""
    slopes = pd.gradients(mean_square(network(x, w), y), w)
    return [v - INNER_RATE * slope for v, slope in zip(w, slopes, strict=True)]


def build():
    """Return the feeds, the cost after adaptation, and a training step."""
    w = [pd.Variable(f"w{k}", data=value) for k, value in enumerate(weights())]
    feeds = [pd.Variable(n, shape=[TASKS, POINTS, 1]) for n in ("x", "y", "x_test", "y_test")]
    x, y, x_test, y_test = feeds
    costs = [
        mean_square(network(x_test[k], adapted(w, x[k], y[k])), y_test[k]) for k in range(TASKS)
    ]
    cost = pd.reduce_mean(pd.stack(costs))
    return feeds, cost, pd.AdamOptimizer(OUTER_RATE).minimize(cost)


def losses(steps):
    """Train, and return the cost of each step."""
    feeds, cost, step = build()
    return [
        float(pd.eval([cost, step], feeds=dict(zip(feeds, batch, strict=True)))[0])
        for batch in batches(steps)
    ]


def main():
    history = losses(2000)
    for k in range(0, 2000, 250):
        print(f"step {k:4}  cost after one gradient step {np.mean(history[k : k + 250]):.3f}")
    if np.mean(history[-250:]) > 0.8 * np.mean(history[:250]):
        raise SystemExit("did not learn to learn")


if __name__ == "__main__":
    main()
