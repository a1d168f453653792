"""A lazy Adam step on the rows of a large table that a batch reads."""

import numpy as np

from tests.benchmarks import loops

HEIGHT, WIDTH, BATCH = 1_000_000, 64, 4096
RATE = 0.01

TITLE = f"table {HEIGHT:,} x {WIDTH}, {BATCH} ids, lazy Adam"
KIND = "train"
RTOL = 1e-4
FLOPS = None  # there are no products


def batches():
    """Return batches of ids [n] with the frequencies of words (Zipf), and target rows."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, HEIGHT + 1)
    ids = rng.choice(HEIGHT, (50, BATCH), p=frequency / frequency.sum())
    return [(k, rng.normal(size=(BATCH, WIDTH)).astype(np.float32)) for k in ids]


def ours():
    """Return the loop of `pd.eval`, and the table."""
    import pd_core as pd

    ids, target = pd.Variable([None], dtype="int64"), pd.Variable([None, WIDTH])
    table = pd.Variable("table", shape=[HEIGHT, WIDTH], row_sparse=True)
    loss = pd.reduce_mean(pd.square_error(pd.gather(table, ids), target))
    update = pd.AdamOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [ids, target], [table])


def pytorch(parameters, compiled):
    """Return the loop of PyTorch's SparseAdam."""
    import torch
    from torch.nn import functional as f

    (table,) = loops.torch_parameters(parameters)

    @compiled
    def loss(ids, target):
        return (f.embedding(ids, table, sparse=True) - target).square().sum(1).mean()

    return loops.torch_loop(loss, torch.optim.SparseAdam([table], RATE))


def jax(parameters):
    """Return the loop of JAX, which sums the gradients of equal ids and scatters into the table."""
    import jax
    from jax import numpy as jnp

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def loss_of(rows, target):
        return jnp.square(rows - target).sum(1).mean()

    def step(state, ids, target):
        table, means, squares, count = state
        distinct, inverse = jnp.unique(ids, size=BATCH, fill_value=HEIGHT, return_inverse=True)
        loss, gradients = jax.value_and_grad(loss_of)(table[ids], target)
        gradients = jax.ops.segment_sum(gradients, inverse, num_segments=BATCH)
        count = count + 1
        m = beta1 * means[distinct] + (1 - beta1) * gradients
        s = beta2 * squares[distinct] + (1 - beta2) * gradients**2
        root = jnp.sqrt(1 - beta2**count)
        rate = RATE * root / (1 - beta1**count)
        options = {"mode": "drop", "unique_indices": True, "indices_are_sorted": True}
        table = table.at[distinct].add(-rate * m / (jnp.sqrt(s) + root * epsilon), **options)
        means = means.at[distinct].set(m, **options)
        squares = squares.at[distinct].set(s, **options)
        return (table, means, squares, count), loss

    (table,) = parameters
    state = jnp.array(table), jnp.zeros(table.shape), jnp.zeros(table.shape), jnp.zeros(())
    return loops.jax_state_loop(step, state)
