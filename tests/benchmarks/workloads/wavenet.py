"""A WaveNet (van den Oord et al. 2016): gated dilated convolutions that predict the next sample."""

import numpy as np

from tests.benchmarks import loops

LEVELS, CHANNELS, LENGTH, BATCH, LAYERS, HIDDEN = 256, 32, 1024, 8, 8, 128
RATE = 1e-3

TITLE = f"WaveNet, {LAYERS} layers of {CHANNELS}, {LENGTH} samples, batch {BATCH}, Adam"
KIND = "train"
RTOL = 1e-3
FLOPS = 6 * BATCH * LENGTH * (LAYERS * 6 * CHANNELS**2 + CHANNELS * HIDDEN + HIDDEN * LEVELS)


def batches():
    """Return batches of quantized samples [n, T], and those that follow."""
    rng = np.random.default_rng(0)
    time = np.arange(LENGTH + 1)
    drawn = []
    for _ in range(4):
        pitch, phase = rng.uniform(0.01, 0.2, (2, BATCH, 2, 1)) * [[[[1.0]]], [[[30.0]]]]
        wave = np.sin(pitch * time + phase).sum(1) / 2 + rng.normal(0, 0.02, (BATCH, LENGTH + 1))
        samples = np.clip((wave + 1) * LEVELS / 2, 0, LEVELS - 1).astype(np.int64)
        drawn.append((samples[:, :-1].copy(), samples[:, 1:].copy()))
    return drawn


def initial():
    """Return a table, (dilated filters, b, 1 x 1 filters, b) of each layer, and two more 1 x 1."""
    rng = np.random.default_rng(1)

    def filters(outputs, inputs, size):
        scale = (1 / (inputs * size)) ** 0.5
        return [rng.normal(0, scale, (outputs, inputs, size)), np.zeros(outputs)]

    values = [rng.normal(size=(LEVELS, CHANNELS))]
    for _ in range(LAYERS):
        values += filters(2 * CHANNELS, CHANNELS, 2) + filters(2 * CHANNELS, CHANNELS, 1)
    values += filters(HIDDEN, CHANNELS, 1) + filters(LEVELS, HIDDEN, 1)
    return [value.astype(np.float32) for value in values]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    parameters = [pd.Variable(f"v{k}", data=value) for k, value in enumerate(initial())]
    table, *rest = parameters
    samples, following = (pd.Variable([None, LENGTH], dtype="int64") for _ in range(2))
    x, skipped = pd.transpose(pd.gather(table, samples), [0, 2, 1]), []
    for k in range(LAYERS):
        w, b, w1, b1 = rest[4 * k : 4 * k + 4]
        z = pd.conv(x, w, b, pads=(2**k, 0), dilations=2**k)
        value, gate = pd.split(z, [CHANNELS] * 2, axis=1)
        y = pd.conv(pd.tanh(value) * pd.sigmoid(gate), w1, b1)
        residual, skip = pd.split(y, [CHANNELS] * 2, axis=1)
        x = x + residual
        skipped.append(skip)
    w1, b1, w2, b2 = rest[4 * LAYERS :]
    h = pd.relu(pd.conv(pd.relu(sum(skipped[1:], skipped[0])), w1, b1))
    logits = pd.conv(h, w2, b2)
    loss = pd.reduce_mean(pd.softmax_cross_entropy(logits, following, axis=1))
    update = pd.AdamOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [samples, following], parameters)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(parameters)
    table, *rest = trained

    def loss(samples, following):
        x, skipped = f.embedding(samples, table).transpose(1, 2), 0.0
        for k in range(LAYERS):
            w, b, w1, b1 = rest[4 * k : 4 * k + 4]
            value, gate = f.conv1d(f.pad(x, (2**k, 0)), w, b, dilation=2**k).chunk(2, 1)
            residual, skip = f.conv1d(value.tanh() * gate.sigmoid(), w1, b1).chunk(2, 1)
            x, skipped = x + residual, skipped + skip
        w1, b1, w2, b2 = rest[4 * LAYERS :]
        return f.cross_entropy(f.conv1d(f.conv1d(skipped.relu(), w1, b1).relu(), w2, b2), following)

    return loops.torch_loop(compiled(loss), torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX, whose convolutions of two filters are matrix products [n, T, c]."""
    import jax
    from jax import numpy as jnp

    def loss(parameters, samples, following):
        table, *rest = parameters
        x, skipped = table[samples], 0.0
        for k in range(LAYERS):
            w, b, w1, b1 = rest[4 * k : 4 * k + 4]
            before = jnp.pad(x, ((0, 0), (2**k, 0), (0, 0)))[:, :LENGTH]
            value, gate = jnp.split(jnp.concatenate([before, x], -1) @ w + b, 2, -1)
            y = (jnp.tanh(value) * jax.nn.sigmoid(gate)) @ w1 + b1
            residual, skip = jnp.split(y, 2, -1)
            x, skipped = x + residual, skipped + skip
        w1, b1, w2, b2 = rest[4 * LAYERS :]
        logits = jax.nn.relu(jax.nn.relu(skipped) @ w1 + b1) @ w2 + b2
        logarithms = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(logarithms, following[:, :, None], 2).mean()

    def shaped(w):  # from [outputs, inputs, size]
        return w.transpose(2, 1, 0).reshape(-1, len(w)) if w.ndim == 3 else w

    return loops.jax_loop(loss, list(map(shaped, parameters)), loops.jax_adam(RATE))
