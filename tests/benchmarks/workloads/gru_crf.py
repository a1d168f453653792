"""Tagging with a GRU and a conditional random field (Lafferty et al. 2001), on ragged sentences.

PyTorch and JAX pad the sentences. The GRU has no biases, since those of torch.nn.GRU are twice as
many.
"""

import numpy as np

from tests.benchmarks import loops

WORDS, TAGS, WIDTH, HIDDEN, BATCH, SHORTEST, LONGEST = 5000, 9, 64, 128, 32, 5, 40
RATE = 1e-3

TITLE = f"GRU {HIDDEN} and CRF, {TAGS} tags, {SHORTEST} to {LONGEST} words, batch {BATCH}, Adam"
KIND = "train"
RTOL = 1e-3
FLOPS = None  # as many as there are words


def batches():
    """Return batches of words [n, T], zeros beyond the end, lengths [n] and tags like the words."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(8):
        lengths = np.sort(rng.integers(SHORTEST, LONGEST, BATCH, endpoint=True))[::-1].copy()
        lengths[0] = LONGEST
        inside = np.arange(LONGEST) < lengths[:, None]
        words = rng.integers(0, WORDS, inside.shape) * inside
        drawn.append((words, lengths, words % TAGS))
    return drawn


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    words, tags = (pd.Variable([None, None], dtype="int64") for _ in range(2))
    lengths = pd.Variable([None], dtype="int64")
    table, scores = pd.nn.Embedding(WORDS, WIDTH, kernel_init="normal"), pd.nn.FC(TAGS)
    w = pd.Variable("w", shape=[WIDTH, 3 * HIDDEN])
    r = pd.Variable("r", shape=[HIDDEN, 3 * HIDDEN])
    transitions = pd.Variable("transitions", data=np.zeros((TAGS, TAGS)))
    outputs, _ = pd.gru(table(words), HIDDEN, lengths=lengths, W=w, R=r, B=False)
    # the words and tags of all sentences, one after another
    inside = pd.unsqueeze(pd.arange(pd.size_of(words, 1)), 0) < pd.unsqueeze(lengths, 1)
    costs = pd.crf_loss(scores(outputs[inside]), tags[inside], pd.Segments(lengths), transitions)
    loss = pd.reduce_mean(costs)
    parameters = [*table.parameters(), w, r, *scores.parameters(), transitions]
    update = pd.AdamOptimizer(RATE).minimize(loss)
    return loops.eval_loop(loss, update, [words, lengths, tags], parameters)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, whose CRF is a loop over the words of all sentences."""
    import torch
    from torch.nn import functional as f

    # torch.nn.GRU has the gates reset, update, candidate; pd update, reset, candidate
    order = np.concatenate([HIDDEN * k + np.arange(HIDDEN) for k in (1, 0, 2)])
    table, w, r, out, out_bias, transitions = parameters
    table, out, out_bias, transitions = loops.torch_parameters([table, out, out_bias, transitions])
    gru = torch.nn.GRU(WIDTH, HIDDEN, bias=False, batch_first=True)
    with torch.no_grad():
        gru.weight_ih_l0.copy_(torch.from_numpy(w.T[order]))
        gru.weight_hh_l0.copy_(torch.from_numpy(r.T[order]))

    def crf_loss(scores, lengths, tags):
        inside = torch.arange(LONGEST) < lengths[:, None]
        chosen = scores.gather(2, tags[:, :, None])[:, :, 0]
        chosen[:, 1:] += transitions[tags[:, :-1], tags[:, 1:]]
        alpha = scores[:, 0]
        for t in range(1, LONGEST):
            following = torch.logsumexp(alpha[:, :, None] + transitions, 1) + scores[:, t]
            alpha = torch.where(inside[:, t, None], following, alpha)
        return (torch.logsumexp(alpha, 1) - (chosen * inside).sum(1)).mean()

    program = compiled(crf_loss)

    def loss(words, lengths, tags):
        outputs = gru(f.embedding(words, table))[0]
        return program(outputs @ out + out_bias, lengths, tags)

    trained = [table, out, out_bias, transitions, *gru.parameters()]
    return loops.torch_loop(loss, torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def loss(parameters, words, lengths, tags):
        table, w, r, out, out_bias, transitions = parameters
        inside = jnp.arange(LONGEST)[:, None] < lengths
        words, tags = words.T, tags.T

        def cell(h, gates):
            update, reset, candidate = jnp.split(gates, 3, 1)
            products = jnp.split(h @ r, 3, 1)
            update = jax.nn.sigmoid(update + products[0])
            reset = jax.nn.sigmoid(reset + products[1])
            candidate = jnp.tanh(candidate + reset * products[2])
            h = candidate + update * (h - candidate)
            return h, h

        _, states = lax.scan(cell, jnp.zeros((BATCH, HIDDEN)), table[words] @ w)
        scores = states @ out + out_bias
        chosen = jnp.take_along_axis(scores, tags[:, :, None], 2)[:, :, 0]
        chosen = chosen.at[1:].add(transitions[tags[:-1], tags[1:]])

        def forward(alpha, step):
            scores, inside = step
            following = jax.nn.logsumexp(alpha[:, :, None] + transitions, 1) + scores
            return jnp.where(inside[:, None], following, alpha), None

        alpha, _ = lax.scan(forward, scores[0], (scores[1:], inside[1:]))
        return (jax.nn.logsumexp(alpha, 1) - (chosen * inside).sum(0)).mean()

    return loops.jax_loop(loss, parameters, loops.jax_adam(RATE))
