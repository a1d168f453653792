"""Translation with attention as in the 2017 book's eighth chapter, in pd, PyTorch and JAX.

A bidirectional GRU encodes the source, a GRU with additive attention decodes. 2017's GRU applies
the reset gate before the matrix product, torch.nn.GRU after it, so PyTorch has the cells written
out.
"""

from typing import NamedTuple

import numpy as np

from tests.benchmarks import loops

WORDS, WIDTH, BATCH = 3000, 128, 32
RATE = 1e-3


def flops(source, target):
    """Return the operations of a step on so many words, padding included."""
    encoder = 2 * (WIDTH * 3 * WIDTH + WIDTH * 3 * WIDTH) + 2 * WIDTH * WIDTH
    decoder = WIDTH * WIDTH + 2 * WIDTH * 3 * WIDTH + WIDTH * 3 * WIDTH + WIDTH * 3 * WIDTH
    attention = source // BATCH * 3 * WIDTH
    return 6 * (source * encoder + target * (decoder + attention + WIDTH * WORDS))


def batches(shortest, longest):
    """Return batches of (words, lengths) of source and target, and the next words."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(6):
        source, target = rng.integers(shortest, longest, (2, BATCH), endpoint=True)
        source[0] = target[0] = longest
        words = [rng.integers(0, WORDS, n.sum()) for n in (source, target, target)]
        drawn.append((words[0], source, words[1], target, words[2]))
    return drawn


def samples(batch):
    """Return tuples (source, target, next words)."""
    source, source_lengths, target, target_lengths, following = batch
    columns = (source, source_lengths), (target, target_lengths), (following, target_lengths)
    split = (np.split(words, np.cumsum(n)[:-1]) for words, n in columns)
    return list(zip(*split, strict=True))


def padded(words, lengths):
    """Return the words of each sentence, zeros behind them, as [n, longest]."""
    rows = np.zeros((len(lengths), lengths.max()), words.dtype)
    rows[np.arange(lengths.max()) < lengths[:, None]] = words
    return rows


def ours():
    """Return the loop of `paddle.trainer.SGD.train`, and the parameters."""
    import pd_v2 as paddle

    layer, networks, linear = paddle.layer, paddle.networks, paddle.activation.Linear()
    softmax = paddle.activation.Softmax()
    sentence = paddle.data_type.integer_value_sequence(WORDS)
    names = ("source", "target", "next_word")
    source, target, following = (layer.data(name=name, type=sentence) for name in names)

    words = layer.embedding(input=source, size=WIDTH)
    forward = networks.simple_gru(input=words, size=WIDTH)
    backward = networks.simple_gru(input=words, size=WIDTH, reverse=True)
    encoded = layer.concat(input=[forward, backward])
    projected = layer.fc(input=encoded, size=WIDTH, act=linear, bias_attr=False)
    boot = layer.fc(input=layer.first_seq(input=backward), size=WIDTH, bias_attr=False)

    def decoder(encoded, projected, word):
        state = layer.memory(name="state", size=WIDTH, boot_layer=boot)
        context = networks.simple_attention(
            encoded_sequence=encoded, encoded_proj=projected, decoder_state=state
        )
        gates = layer.fc(input=[context, word], size=3 * WIDTH, act=linear, bias_attr=False)
        state = layer.gru_step(name="state", input=gates, output_mem=state, size=WIDTH)
        return layer.fc(input=state, size=WORDS, act=softmax)

    inputs = [layer.StaticInput(encoded), layer.StaticInput(projected)]
    inputs.append(layer.embedding(input=target, size=WIDTH))
    decoded = layer.recurrent_group(step=decoder, input=inputs)
    cost = layer.cross_entropy_cost(input=decoded, label=following)
    return loops.trainer_loop(cost, paddle.optimizer.Adam(learning_rate=RATE), samples)


class Weights(NamedTuple):
    """The parameters, of which a GRU has three: of its gates, of its candidate, and the bias."""

    source: object
    forward_input: object
    forward_gate: object
    forward_candidate: object
    forward_bias: object
    backward_input: object
    backward_gate: object
    backward_candidate: object
    backward_bias: object
    project: object
    boot: object
    target: object
    query: object
    score: object
    context: object
    word: object
    gate: object
    candidate: object
    bias: object
    out: object
    out_bias: object


def shaped(parameters):
    """Return the Weights; pd has the gates and the candidate of a GRU in one parameter."""
    arrays = []
    for k, value in enumerate(parameters):
        if k in (2, 5, 14):
            flat, count = value.reshape(-1), 2 * WIDTH * WIDTH
            arrays += [flat[:count].reshape(WIDTH, -1), flat[count:].reshape(WIDTH, -1)]
        else:
            arrays.append(value.reshape(-1) if value.shape[0] == 1 else value)
    return Weights(*arrays)


def reversal(lengths, longest):
    """Return indices [n, longest] that reverse each sentence and leave its padding."""
    steps = np.arange(longest)
    return np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)


def padded_batch(batch):
    """Return (source, its reversal and mask, target, its mask, next words), all [n, longest]."""
    source, lengths, target, target_lengths, following = batch
    masks = (np.arange(n.max()) < n[:, None] for n in (lengths, target_lengths))
    source_mask, target_mask = masks
    return (
        padded(source, lengths),
        reversal(lengths, lengths.max()),
        source_mask,
        padded(target, target_lengths),
        target_mask,
        padded(following, target_lengths),
    )


def pytorch(parameters, compiled):
    """Return the loop of PyTorch.

    Its steps are compiled one by one: compiling all of them as one program takes minutes.
    """
    import torch
    from torch.nn import functional as f

    w = Weights(*loops.torch_parameters(shaped(parameters)))

    def cell(gates, state, gate, candidate):
        update, reset, new = gates.chunk(3, -1)
        u, r = (state @ gate).chunk(2, -1)
        z = torch.sigmoid(update + u)
        new = torch.tanh(new + (torch.sigmoid(reset + r) * state) @ candidate)
        return torch.lerp(state, new, z)

    @compiled
    def decode(gates, state, encoded, projected, mask):
        scores = torch.tanh((state @ w.query)[:, None] + projected) @ w.score
        weights = torch.softmax(scores.masked_fill(~mask[..., None], -torch.inf), 1)
        context = (weights * encoded).sum(1)
        return cell(context @ w.context + gates, state, w.gate, w.candidate)

    @compiled
    def cost(states, target_mask, following):
        following = following.masked_fill(~target_mask, -100).flatten()  # is left out of the sum
        logits = torch.addmm(w.out_bias, states.flatten(0, 1), w.out)
        return f.cross_entropy(logits, following, reduction="sum") / BATCH

    encode = compiled(cell)

    def recurrent(gates, gate, candidate):
        state, states = gates.new_zeros(BATCH, WIDTH), []
        for gates_t in gates.unbind(1):
            state = encode(gates_t, state, gate, candidate)
            states.append(state)
        return torch.stack(states, 1)

    def loss(source, reverse, mask, target, target_mask, following):
        x = f.embedding(source, w.source)
        forward = recurrent(
            x @ w.forward_input + w.forward_bias, w.forward_gate, w.forward_candidate
        )
        index = reverse[..., None].expand(x.shape)
        gates = x.gather(1, index) @ w.backward_input + w.backward_bias
        backward = recurrent(gates, w.backward_gate, w.backward_candidate).gather(1, index)
        encoded = torch.cat([forward, backward], 2)
        projected = encoded @ w.project
        state, states = torch.tanh(backward[:, 0] @ w.boot), []
        gates = f.embedding(target, w.target) @ w.word + w.bias
        for gates_t in gates.unbind(1):
            state = decode(gates_t, state, encoded, projected, mask)
            states.append(state)
        return cost(torch.stack(states, 1), target_mask, following)

    loop = loops.torch_loop(loss, torch.optim.Adam(w, RATE, fused=True))
    return lambda batches: loop(list(map(padded_batch, batches)))


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def cell(gates, state, gate, candidate):
        update, reset, new = jnp.split(gates, 3, axis=-1)
        u, r = jnp.split(state @ gate, 2, axis=-1)
        z = jax.nn.sigmoid(update + u)
        new = jnp.tanh(new + (jax.nn.sigmoid(reset + r) * state) @ candidate)
        return state + z * (new - state)

    def recurrent(gates, gate, candidate):
        def step(state, gates):
            state = cell(gates, state, gate, candidate)
            return state, state

        return lax.scan(step, jnp.zeros((BATCH, WIDTH)), gates.swapaxes(0, 1))[1].swapaxes(0, 1)

    def loss(w, source, reverse, mask, target, target_mask, following):
        x = w.source[source]
        forward = recurrent(
            x @ w.forward_input + w.forward_bias, w.forward_gate, w.forward_candidate
        )
        reversed_x = jnp.take_along_axis(x, reverse[..., None], 1)
        gates = reversed_x @ w.backward_input + w.backward_bias
        backward = recurrent(gates, w.backward_gate, w.backward_candidate)
        backward = jnp.take_along_axis(backward, reverse[..., None], 1)
        encoded = jnp.concatenate([forward, backward], 2)
        projected = encoded @ w.project

        def step(state, gates):
            scores = jnp.tanh((state @ w.query)[:, None] + projected) @ w.score
            weights = jax.nn.softmax(jnp.where(mask[..., None], scores, -jnp.inf), 1)
            context = (weights * encoded).sum(1)
            state = cell(context @ w.context + gates, state, w.gate, w.candidate)
            return state, state

        gates = w.target[target] @ w.word + w.bias
        _, states = lax.scan(step, jnp.tanh(backward[:, 0] @ w.boot), gates.swapaxes(0, 1))
        logarithms = jax.nn.log_softmax(states.swapaxes(0, 1) @ w.out + w.out_bias)
        chosen = jnp.take_along_axis(logarithms, following[..., None], 2)[..., 0]
        return -jnp.where(target_mask, chosen, 0.0).sum() / BATCH

    loop = loops.jax_loop(loss, shaped(parameters), loops.jax_adam(RATE))
    return lambda batches: loop(list(map(padded_batch, batches)))
