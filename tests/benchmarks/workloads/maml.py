"""MAML (Finn et al. 2017) on sine waves: the gradient through a gradient step of each task.

Each task has weights of its own after that step, so the weights are matrices [tasks, n, m].
"""

import numpy as np

from tests.benchmarks import loops

TASKS, POINTS, WIDTH = 16, 10, 40
INNER_RATE, RATE = 0.01, 1e-3
SHAPES = (1, WIDTH), (1, WIDTH), (WIDTH, WIDTH), (1, WIDTH), (WIDTH, 1), (1, 1)

TITLE = f"MAML, {TASKS} tasks of {POINTS} points, hidden {WIDTH}-{WIDTH}, Adam"
KIND = "train"
RTOL = 1e-3
FLOPS = None  # the products are small


def batches():
    """Return batches of x and y to adapt on, and to test on, [tasks, points, 1] each."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(50):
        amplitude = rng.uniform(0.1, 5, (TASKS, 1, 1))
        phase = rng.uniform(0, np.pi, (TASKS, 1, 1))
        x = rng.uniform(-5, 5, (2, TASKS, POINTS, 1)).astype(np.float32)
        y = (amplitude * np.sin(x - phase)).astype(np.float32)
        drawn.append((x[0], y[0], x[1], y[1]))
    return drawn


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    rng = np.random.default_rng(1)
    weights = [
        pd.Variable(f"w{k}", data=rng.normal(0, (2 / n) ** 0.5 if k % 2 == 0 else 0.1, (n, m)))
        for k, (n, m) in enumerate(SHAPES)
    ]
    x, y, x_test, y_test = inputs = [pd.Variable([TASKS, POINTS, 1]) for _ in range(4)]

    def squares(w, x, y):
        h = pd.relu(pd.relu(x @ w[0] + w[1]) @ w[2] + w[3])
        return pd.square(h @ w[4] + w[5] - y)

    own = [pd.expand(w, [TASKS, *w.shape]) for w in weights]
    slopes = pd.gradients(pd.reduce_sum(squares(own, x, y)) / POINTS, own)
    own = [w - INNER_RATE * slope for w, slope in zip(own, slopes, strict=True)]
    loss = pd.reduce_mean(squares(own, x_test, y_test))
    return loops.eval_loop(loss, pd.AdamOptimizer(RATE).minimize(loss), inputs, weights)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch

    trained = loops.torch_parameters(parameters)

    def cost(w, x, y):
        h = torch.addmm(w[1], x, w[0]).relu()
        h = torch.addmm(w[3], h, w[2]).relu()
        return (torch.addmm(w[5], h, w[4]) - y).square().mean()

    def adapted(x, y, x_test, y_test):
        slopes = torch.func.grad(cost)(trained, x, y)
        own = [w - INNER_RATE * slope for w, slope in zip(trained, slopes, strict=True)]
        return cost(own, x_test, y_test)

    def loss(*batch):
        return torch.func.vmap(adapted)(*batch).mean()

    return loops.torch_loop(compiled(loss), torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import numpy as jnp

    def cost(w, x, y):
        h = jax.nn.relu(jax.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3])
        return jnp.square(h @ w[4] + w[5] - y).mean()

    def loss(parameters, *batch):
        def adapted(x, y, x_test, y_test):
            slopes = jax.grad(cost)(parameters, x, y)
            own = [w - INNER_RATE * slope for w, slope in zip(parameters, slopes, strict=True)]
            return cost(own, x_test, y_test)

        return jax.vmap(adapted)(*batch).mean()

    return loops.jax_loop(loss, parameters, loops.jax_adam(RATE))
