"""A classifier of texts by the last state of an LSTM, for inference in each framework."""

import numpy as np

from tests.benchmarks import inference

WORDS, WIDTH, HIDDEN, CLASSES, LENGTH = 5000, 128, 128, 2, 100


def flops(batch):
    """Return the operations of the products."""
    return 2 * batch * (LENGTH * (WIDTH + HIDDEN) * 4 * HIDDEN + HIDDEN * CLASSES)


def batches(batch):
    """Return batches of words [n, 100]."""
    rng = np.random.default_rng(0)
    return [(rng.integers(0, WORDS, (batch, LENGTH)),) for _ in range(8)]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    table, last = pd.nn.Embedding(WORDS, WIDTH, kernel_init="normal"), pd.nn.FC(CLASSES)
    lstm = pd.nn.LSTM(HIDDEN)
    words = pd.Variable([None, LENGTH], dtype="int64")
    _, (h, _) = lstm(table(words))
    scores = last(pd.reshape(h, [-1, HIDDEN]))
    parameters = [v.val() for part in (table, lstm, last) for v in part.parameters()]
    return inference.eval_loop(scores, [words]), parameters


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, whose gates are i, f, g, o; those of pd are g, i, f, o."""
    import torch
    from torch.nn import functional as f

    table, w, r, b, out, out_bias = parameters
    order = np.concatenate([HIDDEN * k + np.arange(HIDDEN) for k in (1, 2, 0, 3)])
    lstm = torch.nn.LSTM(WIDTH, HIDDEN, batch_first=True)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.from_numpy(w.T[order]))
        lstm.weight_hh_l0.copy_(torch.from_numpy(r.T[order]))
        lstm.bias_ih_l0.copy_(torch.from_numpy(b[order]))
        lstm.bias_hh_l0.zero_()
    table, out, out_bias = map(torch.from_numpy, (table, out, out_bias))

    def scores(words):
        return torch.addmm(out_bias, lstm(f.embedding(words, table))[1][0][0], out)

    return inference.torch_loop(scores, compiled)


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def scores(parameters, words):
        table, w, r, b, out, out_bias = parameters

        def cell(state, gates):
            h, c = state
            g, i, f, o = jnp.split(gates + h @ r, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((len(words), HIDDEN))
        (h, _), _ = lax.scan(cell, (zeros, zeros), table[words.T] @ w + b)
        return h @ out + out_bias

    return inference.jax_loop(scores, parameters)
