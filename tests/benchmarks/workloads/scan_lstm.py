"""An LSTM written with `pd.scan`; PyTorch has its built-in one, and JAX `lax.scan`.

The loss is the mean squared error of the outputs. No step of the sequence is padding.
"""

import numpy as np

from tests.benchmarks import loops

STEPS, BATCH, WIDTH = 100, 64, 128
RATE = 0.1

TITLE = f"LSTM written with a scan, {STEPS} steps, batch {BATCH}, hidden {WIDTH}, SGD"
KIND = "train"
RTOL = 1e-4
# The gradient of the input is not needed.
FLOPS = 2 * STEPS * BATCH * 4 * WIDTH * (2 * WIDTH + 3 * WIDTH)


def batches():
    """Return batches of inputs and targets [STEPS, n, WIDTH]."""
    rng = np.random.default_rng(0)
    shape = (2, STEPS, BATCH, WIDTH)
    return [tuple(rng.normal(size=shape).astype(np.float32)) for _ in range(4)]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    x, target = pd.Variable([STEPS, None, WIDTH]), pd.Variable([STEPS, None, WIDTH])
    start = pd.Variable([None, WIDTH])
    wx, wh = (pd.Variable(name, shape=[WIDTH, 4 * WIDTH]) for name in ("wx", "wh"))
    bias = pd.Variable("bias", data=np.zeros(4 * WIDTH))

    def cell(state, x):
        h, c = state
        z = pd.matmul(x, wx) + pd.matmul(h, wh) + bias
        i, f, g, o = pd.split(z, [WIDTH] * 4, axis=1)
        c = pd.sigmoid(f) * c + pd.sigmoid(i) * pd.tanh(g)
        h = pd.sigmoid(o) * pd.tanh(c)
        return [h, c], h

    _, outputs = pd.scan(cell, [start, start], x)
    loss = pd.reduce_mean(pd.square(outputs - target))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    zeros = np.zeros((BATCH, WIDTH), np.float32)

    def step(inputs, targets):
        return pd.eval([loss, update], {x: inputs, target: targets, start: zeros})[0]

    return loops.step_loop(step), [v.val() for v in (wx, wh, bias)]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch

    wx, wh, bias = map(torch.from_numpy, parameters)
    lstm = torch.nn.LSTM(WIDTH, WIDTH)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(wx.T)
        lstm.weight_hh_l0.copy_(wh.T)
        lstm.bias_ih_l0.copy_(bias)
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(False)

    @compiled
    def loss(inputs, targets):
        return torch.square(lstm(inputs)[0] - targets).mean()

    trained = [p for p in lstm.parameters() if p.requires_grad]
    return loops.torch_loop(loss, torch.optim.SGD(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def loss(parameters, inputs, targets):
        wx, wh, bias = parameters

        def cell(state, gates):
            h, c = state
            i, f, g, o = jnp.split(gates + h @ wh, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((BATCH, WIDTH))
        _, outputs = lax.scan(cell, (zeros, zeros), inputs @ wx + bias)
        return jnp.square(outputs - targets).mean()

    return loops.jax_loop(loss, parameters, loops.jax_momentum(RATE, 0.0))
