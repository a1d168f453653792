"""A physics-informed network (Raissi et al. 2019): solve u'' = -pi² sin(pi x), u(0) = u(1) = 0.

No solution is shown to the network. Its cost is how far its own second derivative, computed by two
calls of `gradients`, is from the right-hand side, and its ends from the boundary values.

    python demos/cookbook/physics_informed.py
"""

import numpy as np

import pd_core as pd

WIDTH, POINTS, RATE = 20, 64, 3e-3
ENDS = np.array([[0.0], [1.0]], "float32")


def weights():
    """Return the initial values of the three layers: W, b, W, b, W, b."""
    rng = np.random.default_rng(0)
    values = []
    for n, m in ((1, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)):
        values += [rng.normal(0, (1 / n) ** 0.5, (n, m)), np.zeros(m)]
    return [v.astype("float32") for v in values]


def batches(steps):
    """Yield points [n, 1] inside of the interval, the only feed."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        yield (rng.uniform(0, 1, (POINTS, 1)).astype("float32"),)


def network(x, w):
    h = pd.tanh(x @ w[0] + w[1])
    return pd.tanh(h @ w[2] + w[3]) @ w[4] + w[5]


def build():
    """Return the feeds, the solution, the cost and a training step."""
    w = [pd.Variable(f"w{k}", data=value) for k, value in enumerate(weights())]
    x = pd.Variable("x", shape=[None, 1])
    u = network(x, w)
    (slope,) = pd.gradients(u, [x])  # each u depends on its own x only
    (curvature,) = pd.gradients(slope, [x])
    inside = pd.reduce_mean(pd.square(curvature + np.pi**2 * pd.sin(np.pi * x)))
    boundary = pd.reduce_mean(pd.square(network(pd.constant(ENDS), w)))
    cost = inside + 100.0 * boundary
    return [x], u, cost, pd.AdamOptimizer(RATE).minimize(cost)


def losses(steps):
    """Train, and return the cost of each step."""
    (x,), _, cost, step = build()
    return [float(pd.eval([cost, step], feeds={x: points})[0]) for (points,) in batches(steps)]


def main():
    (x,), u, cost, step = build()
    for k, (points,) in enumerate(batches(3000)):
        c, _ = pd.eval([cost, step], feeds={x: points})
        if k % 500 == 0:
            print(f"step {k:4}  cost {c:.4f}")
    at = np.linspace(0, 1, 101, dtype="float32")[:, None]
    error = np.abs(pd.eval(u, feeds={x: at}) - np.sin(np.pi * at)).max()
    print(f"largest error of the solution: {error:.4f}")
    if error > 0.05:
        raise SystemExit("did not solve the equation")


if __name__ == "__main__":
    main()
