"""Sentiment classification with the 2017 book's LSTM, in pd, PyTorch and JAX."""

import numpy as np

from tests.benchmarks import loops

WORDS, WIDTH, HIDDEN, CLASSES, BATCH, LONGEST = 5147, 128, 128, 2, 64, 100
RATE = 2e-3


def flops(words):
    """Return the operations of a step on so many words."""
    return 6 * (words * (WIDTH + HIDDEN) * 4 * HIDDEN + BATCH * HIDDEN * CLASSES)


def batches(shortest):
    """Return batches of words of all texts, lengths [n] and labels [n]; one has LONGEST words."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(8):
        lengths = rng.integers(shortest, LONGEST, BATCH, endpoint=True)
        lengths[0] = LONGEST
        words = rng.integers(0, WORDS, lengths.sum())
        drawn.append((words, lengths, rng.integers(0, CLASSES, BATCH)))
    return drawn


def samples(batch):
    """Return tuples (words, label)."""
    words, lengths, labels = batch
    return list(zip(np.split(words, np.cumsum(lengths)[:-1]), labels, strict=True))


def padded(words, lengths):
    """Return the words of each text, zeros behind them, as [n, LONGEST]."""
    rows = np.zeros((len(lengths), LONGEST), words.dtype)
    rows[np.arange(LONGEST) < lengths[:, None]] = words
    return rows


def ours():
    """Return the loop of `paddle.trainer.SGD.train`, and the parameters."""
    import pd_v2 as paddle

    layer, types = paddle.layer, paddle.data_type
    words = layer.data(name="words", type=types.integer_value_sequence(WORDS))
    label = layer.data(name="label", type=types.integer_value(CLASSES))
    embedded = layer.embedding(input=words, size=WIDTH)
    projected = layer.full_matrix_projection(embedded)
    gates = layer.mixed(size=4 * HIDDEN, bias_attr=True, input=projected)
    hidden = layer.lstmemory(input=gates, bias_attr=False)
    pooled = layer.pooling(input=hidden, pooling_type=paddle.pooling.Max())
    scores = layer.fc(input=pooled, size=CLASSES, act=paddle.activation.Softmax())
    cost = layer.cross_entropy_cost(input=scores, label=label)
    return loops.trainer_loop(cost, paddle.optimizer.Adam(learning_rate=RATE), samples)


def shaped(parameters):
    """Return table, input weight and bias, recurrent weight, and those of the last layer."""
    gates = 4 * HIDDEN
    shapes = (WORDS, WIDTH), (WIDTH, gates), (gates,), (HIDDEN, gates), (HIDDEN, CLASSES)
    shapes = (*shapes, (CLASSES,))
    return [value.reshape(shape) for value, shape in zip(parameters, shapes, strict=True)]


def pytorch(parameters, compiled, ragged):
    """Return the loop of PyTorch; without `ragged` all texts have the same length."""
    import torch
    from torch.nn import functional as f

    # torch.nn.LSTM has the gates i, f, g, o; 2017 has g, i, f, o
    order = np.concatenate([HIDDEN * k + np.arange(HIDDEN) for k in (1, 2, 0, 3)])
    table, w_input, bias, w_hidden, out, out_bias = shaped(parameters)
    table, out, out_bias = loops.torch_parameters([table, out, out_bias])
    lstm = torch.nn.LSTM(WIDTH, HIDDEN, batch_first=True)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.from_numpy(w_input.T[order]))
        lstm.weight_hh_l0.copy_(torch.from_numpy(w_hidden.T[order]))
        lstm.bias_ih_l0.copy_(torch.from_numpy(bias[order]))
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(False)
    trained = [table, out, out_bias, *(p for p in lstm.parameters() if p.requires_grad)]

    def loss_of(rows, lengths, labels):
        states = lstm(f.embedding(rows, table))[0]
        if ragged:
            padding = torch.arange(LONGEST) >= lengths[:, None]
            states = states.masked_fill(padding[:, :, None], -torch.inf)
        return f.cross_entropy(torch.addmm(out_bias, states.amax(1), out), labels)

    program = compiled(loss_of)

    def loss(words, lengths, labels):
        if ragged:
            texts = torch.split(words, lengths.tolist())
            rows = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
        else:
            rows = words.reshape(BATCH, LONGEST)
        return program(rows, lengths, labels)

    return loops.torch_loop(loss, torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX, on padded texts."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def loss(parameters, rows, lengths, labels):
        table, w_input, bias, w_hidden, out, out_bias = parameters
        gates = table[rows.T] @ w_input + bias

        def cell(state, gates):
            h, c = state
            g, i, f, o = jnp.split(gates + h @ w_hidden, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((BATCH, HIDDEN))
        _, states = lax.scan(cell, (zeros, zeros), gates)
        mask = jnp.arange(LONGEST)[:, None] < lengths
        pooled = jnp.where(mask[:, :, None], states, -jnp.inf).max(0)
        logarithms = jax.nn.log_softmax(pooled @ out + out_bias)
        return -jnp.take_along_axis(logarithms, labels[:, None], 1).mean()

    loop = loops.jax_loop(loss, shaped(parameters), loops.jax_adam(RATE))
    return lambda batches: loop([(padded(w, n), n, labels) for w, n, labels in batches])
