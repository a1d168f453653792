"""Translation with attention as in the 2017 book: a training step of pd_v2 and of PyTorch.

A bidirectional GRU encodes 20 words, a GRU with additive attention decodes 20; vocabularies of 3000
words, width 128, batch 32, Adam. 2017's GRU applies the reset gate before the matrix product,
torch.nn.GRU after it. So pd is compared with two PyTorch programs: one with the same cells written
out, and one with torch.nn.GRU and GRUCell, whose losses differ. Both are also run on 5 to 35 words,
which PyTorch pads.
"""

import functools

import numpy as np
import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build

WORDS, WIDTH, BATCH = 3000, 128, 32
RATE = 1e-3
A, L, N, T = paddle.activation, paddle.layer, paddle.networks, paddle.data_type


def decoder(encoded, projected, word, boot):
    """One decoder step: attention, the GRU, and the probabilities of the next word."""
    state = L.memory(name="state", size=WIDTH, boot_layer=boot)
    context = N.simple_attention(
        encoded_sequence=encoded, encoded_proj=projected, decoder_state=state
    )
    gates = L.fc(input=[context, word], size=3 * WIDTH, act=A.Linear(), bias_attr=False)
    state = L.gru_step(name="state", input=gates, output_mem=state, size=WIDTH)
    return L.fc(input=state, size=WORDS, act=A.Softmax())


def ours():
    source, target, next_word = (
        L.data(name=name, type=T.integer_value_sequence(WORDS))
        for name in ("source", "target", "next_word")
    )
    words = L.embedding(input=source, size=WIDTH)
    forward = N.simple_gru(input=words, size=WIDTH)
    backward = N.simple_gru(input=words, size=WIDTH, reverse=True)
    encoded = L.concat(input=[forward, backward])
    projected = L.fc(input=encoded, size=WIDTH, act=A.Linear(), bias_attr=False)
    boot = L.fc(input=L.first_seq(input=backward), size=WIDTH, bias_attr=False)
    decoded = L.recurrent_group(
        step=lambda e, p, word: decoder(e, p, word, boot),
        input=[
            L.StaticInput(encoded),
            L.StaticInput(projected),
            L.embedding(input=target, size=WIDTH),
        ],
    )
    cost = pd.reduce_mean(L.cross_entropy_cost(input=decoded, label=next_word))
    update = pd.AdamOptimizer(RATE).minimize(cost)
    inputs = [v for x in (source, target, next_word) for v in x.inputs]

    def step(batch):
        return float(pd.eval([update, cost], dict(zip(inputs, batch, strict=True)))[1])

    return step, [update, cost], pd.trainable_variables()


def cell(gates, state, gate, candidate):
    """One step of 2017's GRU."""
    update, reset, new = gates.chunk(3, -1)
    u, r = (state @ gate).chunk(2, -1)
    z, r = torch.sigmoid(update + u), torch.sigmoid(reset + r)
    return (1 - z) * state + z * torch.tanh(new + (r * state) @ candidate)


def recurrent(gates, weight):
    """Return all states [B, L, H] of 2017's GRU from gate inputs [B, L, 3 H]."""
    gate, candidate = weight
    state, states = torch.zeros(BATCH, WIDTH), []
    for gates_t in gates.unbind(1):
        state = cell(gates_t, state, gate, candidate)
        states.append(state)
    return torch.stack(states, 1)


def split(weight):
    """Split 2017's GRU weight into the matrices of the gates and of the candidate."""
    flat = weight.reshape(-1)
    count = 2 * WIDTH * WIDTH
    return flat[:count].reshape(WIDTH, 2 * WIDTH), flat[count:].reshape(WIDTH, WIDTH)


def padded(words, lengths):
    parts = torch.split(words, lengths.tolist())
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def reversed_steps(x, lengths):
    """Reverse each sequence of [B, L, ...]; the padding stays where it is."""
    steps = torch.arange(x.shape[1])[None]
    index = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, index[..., None].expand(x.shape))


class Translator:
    """The same network in PyTorch, with the same parameters and cells."""

    def __init__(self, parameters):
        by_name = {v.name: sbs.parameter(v) for v in parameters}
        values = iter(by_name.values())
        (
            self.source,
            self.into_f,
            self.gru_f,
            self.bias_f,
            self.into_b,
            self.gru_b,
            self.bias_b,
        ) = (next(values) for _ in range(7))
        self.project, self.boot, self.target = (next(values) for _ in range(3))
        self.query, self.score, self.context, self.word = (next(values) for _ in range(4))
        self.gru, self.bias, self.out, self.out_bias = values
        self.trained = list(by_name.values())

    def encode(self, words, lengths):
        x = f.embedding(words, self.source)
        forward = recurrent(x @ self.into_f + self.bias_f, split(self.gru_f))
        reverse = reversed_steps(x, lengths)
        backward = recurrent(reverse @ self.into_b + self.bias_b, split(self.gru_b))
        return forward, reversed_steps(backward, lengths)

    def decode(self, words, state, encoded, projected, padding):
        gates = f.embedding(words, self.target) @ self.word + self.bias
        gru, states = split(self.gru), []
        for gates_t in gates.unbind(1):
            scores = torch.tanh((state @ self.query)[:, None] + projected) @ self.score
            weights = torch.softmax(scores.masked_fill(padding, -torch.inf), 1)
            context = (weights * encoded).sum(1)
            state = cell(context @ self.context + gates_t, state, *gru)
            states.append(state)
        return torch.stack(states, 1)

    def loss(self, source, lengths, target, target_lengths, next_words):
        words, outputs = padded(source, lengths), padded(target, target_lengths)
        forward, backward = self.encode(words, lengths)
        encoded = torch.cat([forward, backward], 2)
        padding = (torch.arange(words.shape[1])[None] >= lengths[:, None])[..., None]
        state = torch.tanh(backward[:, 0] @ self.boot)
        states = self.decode(outputs, state, encoded, encoded @ self.project, padding)
        mask = torch.arange(outputs.shape[1])[None] < target_lengths[:, None]
        return f.cross_entropy(states[mask] @ self.out + self.out_bias, next_words)


class BuiltIn(Translator):
    """The network with torch.nn.GRU and GRUCell."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.encoder = torch.nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.cell = torch.nn.GRUCell(3 * WIDTH, WIDTH)
        replaced = (self.into_f, self.gru_f, self.bias_f, self.into_b, self.gru_b, self.bias_b)
        replaced += (self.context, self.word, self.gru, self.bias)
        self.trained = [p for p in self.trained if all(p is not q for q in replaced)]
        self.trained += [*self.encoder.parameters(), *self.cell.parameters()]

    def encode(self, words, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            f.embedding(words, self.source), lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return out.chunk(2, 2)

    def decode(self, words, state, encoded, projected, padding):
        states = []
        for word in f.embedding(words, self.target).unbind(1):
            scores = torch.tanh((state @ self.query)[:, None] + projected) @ self.score
            weights = torch.softmax(scores.masked_fill(padding, -torch.inf), 1)
            context = (weights * encoded).sum(1)
            state = self.cell(torch.cat([context, word], 1), state)
            states.append(state)
        return torch.stack(states, 1)


def theirs(parameters, model_class):
    model = model_class(parameters)
    optimizer = torch.optim.Adam(model.trained, RATE, fused=True)

    def step(batch):
        source, lengths, target, target_lengths, next_words, _ = map(torch.from_numpy, batch)
        loss = model.loss(source, lengths, target, target_lengths, next_words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sentences(shortest, longest):
    """Return batches of (words, lengths) of the source, the target and the next words."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(6):
        source, target = rng.integers(shortest, longest, (2, BATCH), endpoint=True)
        source[0] = target[0] = longest
        words = [rng.integers(0, WORDS, n.sum()) for n in (source, target, target)]
        batches.append((words[0], source, words[1], target, words[2], target))
    return batches


if __name__ == "__main__":
    size = f"batch {BATCH}, width {WIDTH}, Adam"
    for title, model_class, lengths, rtol in (
        ("the same cells", Translator, (20, 20), 1e-3),
        ("torch.nn.GRU and GRUCell", BuiltIn, (20, 20), np.inf),
        ("5 to 35 words, the same cells", Translator, (5, 35), 1e-3),
        ("5 to 35 words, torch.nn.GRU and GRUCell", BuiltIn, (5, 35), np.inf),
    ):
        with build.fresh():
            build_theirs = functools.partial(theirs, model_class=model_class)
            heading = f"Translation, {size}: {title}"
            batches = sentences(*lengths)
            sbs.compare(heading, ours, build_theirs, batches, steps=6, blocks=6, rtol=rtol)
        print()
