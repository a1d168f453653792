"""Logistic regression on a million sparse features, of which a row has 50."""

import numpy as np

from tests.benchmarks import loops

FEATURES, ACTIVE, BATCH = 1_000_000, 50, 256
RATE = 1.0

TITLE = f"logistic regression, {FEATURES:,} features, {ACTIVE} in a row, batch {BATCH}, SGD"
KIND = "train"
RTOL = 1e-4
FLOPS = None  # there are no products


def batches():
    """Return batches of features [n, 50] with the frequencies of words (Zipf), and labels [n]."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, FEATURES + 1)
    drawn = rng.choice(FEATURES, (50, BATCH, ACTIVE), p=frequency / frequency.sum())
    return [(ids, rng.integers(0, 2, BATCH).astype(np.float32)) for ids in drawn]


def ours():
    """Return the loop of `pd.eval`, and the weights and the bias."""
    import pd_core as pd

    ids, labels = pd.Variable([None, ACTIVE], dtype="int64"), pd.Variable([None])
    rng = np.random.default_rng(1)
    start = rng.normal(0, 0.1, (FEATURES, 1)).astype(np.float32)
    weights = pd.Variable("weights", data=start, row_sparse=True)
    bias = pd.Variable("bias", data=np.zeros(1, np.float32))
    scores = pd.reduce_sum(pd.gather(weights, ids), [1, 2]) + bias
    loss = pd.reduce_mean(pd.sigmoid_cross_entropy(scores, labels))
    update = pd.SGDOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [ids, labels], [weights, bias])


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, which adds the gradients of a batch to the weights in place.

    That is faster than `embedding_bag(sparse=True)` with SGD, which sorts the gradients,
    and `torch.compile` does not take sparse tensors.
    """
    import torch
    from torch.nn import functional as f

    weights, bias = (torch.from_numpy(value) for value in parameters)
    weights = weights[:, 0]

    @compiled
    def loss_of(rows, bias, labels):
        return f.binary_cross_entropy_with_logits(rows.sum(1) + bias, labels)

    def step(ids, labels):
        ids, labels = torch.from_numpy(ids), torch.from_numpy(labels)
        rows = weights[ids].requires_grad_()
        loss = loss_of(rows, bias.requires_grad_(), labels)
        slopes, slope = torch.autograd.grad(loss, [rows, bias])
        with torch.no_grad():
            weights.index_add_(0, ids.flatten(), slopes.flatten(), alpha=-RATE)
            bias.sub_(slope, alpha=RATE)
        return loss.item()

    return loops.step_loop(step)


def jax(parameters):
    """Return the loop of JAX, which adds the gradients of a batch to the weights in place."""
    import jax
    from jax import numpy as jnp

    def loss_of(rows, bias, labels):
        scores = rows.sum(1) + bias
        return (jax.nn.softplus(scores) - labels * scores).mean()

    def step(state, ids, labels):
        weights, bias = state
        loss, (rows, slope) = jax.value_and_grad(loss_of, (0, 1))(weights[ids], bias, labels)
        return (weights.at[ids].add(-RATE * rows), bias - RATE * slope), loss

    weights, bias = parameters
    return loops.jax_state_loop(step, (jnp.array(weights[:, 0]), jnp.array(bias)))
