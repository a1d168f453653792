"""Translation with attention as in the 2017 book: a training step of pd.v2 beside one of PyTorch.

A bidirectional GRU reads 20 words, a GRU with additive attention writes 20; vocabularies of 3000
words, width 128, batch 32, Adam. 2017's GRU resets the state before its product, torch.nn.GRU
after it. So there are two opponents: one that computes the same, with cells written out, and one
with torch.nn.GRU and GRUCell, whose losses are others. A third table has 5 to 35 words, which
PyTorch pads.
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
    """One step of writing: attention, the GRU, and the probability of each next word."""
    state = L.memory(name="state", size=WIDTH, boot_layer=boot)
    context = N.simple_attention(
        encoded_sequence=encoded, encoded_proj=projected, decoder_state=state
    )
    gates = L.fc(input=[context, word], size=3 * WIDTH, act=A.Linear(), bias_attr=False)
    state = L.gru_step(name="state", input=gates, output_mem=state, size=WIDTH)
    return L.fc(input=state, size=WORDS, act=A.Softmax())


def ours():
    source, target, following = (
        L.data(name=name, type=T.integer_value_sequence(WORDS))
        for name in ("source", "target", "following")
    )
    words = L.embedding(input=source, size=WIDTH)
    forward = N.simple_gru(input=words, size=WIDTH)
    backward = N.simple_gru(input=words, size=WIDTH, reverse=True)
    encoded = L.concat(input=[forward, backward])
    projected = L.fc(input=encoded, size=WIDTH, act=A.Linear(), bias_attr=False)
    boot = L.fc(input=L.first_seq(input=backward), size=WIDTH, bias_attr=False)
    written = L.recurrent_group(
        step=lambda e, p, word: decoder(e, p, word, boot),
        input=[
            L.StaticInput(encoded),
            L.StaticInput(projected),
            L.embedding(input=target, size=WIDTH),
        ],
    )
    cost = pd.reduce_mean(L.cross_entropy_cost(input=written, label=following))
    update = pd.AdamOptimizer(RATE).minimize(cost)
    inputs = [v for x in (source, target, following) for v in x.inputs]

    def step(batch):
        return float(pd.eval([update, cost], dict(zip(inputs, batch, strict=True)))[1])

    return step, [update, cost], pd.trainable_variables()


def cell(gates, state, gate, candidate):
    """2017's GRU."""
    update, reset, new = gates.chunk(3, -1)
    u, r = (state @ gate).chunk(2, -1)
    z, r = torch.sigmoid(update + u), torch.sigmoid(reset + r)
    return (1 - z) * state + z * torch.tanh(new + (r * state) @ candidate)


def recurrent(gates, weight):
    """All states of 2017's GRU over [B, L, 3 H]."""
    gate, candidate = weight
    state, states = torch.zeros(BATCH, WIDTH), []
    for gates_t in gates.unbind(1):
        state = cell(gates_t, state, gate, candidate)
        states.append(state)
    return torch.stack(states, 1)


def split(weight):
    """The two matrices of 2017's GRU weight, which is stored one after the other."""
    flat = weight.reshape(-1)
    cut = 2 * WIDTH * WIDTH
    return flat[:cut].reshape(WIDTH, 2 * WIDTH), flat[cut:].reshape(WIDTH, WIDTH)


def padded(words, lengths):
    parts = torch.split(words, lengths.tolist())
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def reversed_steps(x, lengths):
    """Every sequence of [B, L, ...] from its end on, what follows it in place."""
    steps = torch.arange(x.shape[1])[None]
    index = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, index[..., None].expand(x.shape))


class Translator:
    """The parameters of ours by their role, and the same computation."""

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
        self.learned = list(by_name.values())

    def encoded(self, words, lengths):
        x = f.embedding(words, self.source)
        forward = recurrent(x @ self.into_f + self.bias_f, split(self.gru_f))
        turned = reversed_steps(x, lengths)
        backward = recurrent(turned @ self.into_b + self.bias_b, split(self.gru_b))
        return forward, reversed_steps(backward, lengths)

    def written(self, words, state, encoded, projected, hidden):
        gates = f.embedding(words, self.target) @ self.word + self.bias
        gru, states = split(self.gru), []
        for gates_t in gates.unbind(1):
            scores = torch.tanh((state @ self.query)[:, None] + projected) @ self.score
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), 1)
            context = (weights * encoded).sum(1)
            state = cell(context @ self.context + gates_t, state, *gru)
            states.append(state)
        return torch.stack(states, 1)

    def loss(self, source, lengths, target, target_lengths, following):
        words, outputs = padded(source, lengths), padded(target, target_lengths)
        forward, backward = self.encoded(words, lengths)
        encoded = torch.cat([forward, backward], 2)
        hidden = (torch.arange(words.shape[1])[None] >= lengths[:, None])[..., None]
        state = torch.tanh(backward[:, 0] @ self.boot)
        states = self.written(outputs, state, encoded, encoded @ self.project, hidden)
        there = torch.arange(outputs.shape[1])[None] < target_lengths[:, None]
        return f.cross_entropy(states[there] @ self.out + self.out_bias, following)


class Stock(Translator):
    """The same network of PyTorch's own recurrent modules."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.encoder = torch.nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.cell = torch.nn.GRUCell(3 * WIDTH, WIDTH)
        replaced = (self.into_f, self.gru_f, self.bias_f, self.into_b, self.gru_b, self.bias_b)
        replaced += (self.context, self.word, self.gru, self.bias)
        self.learned = [p for p in self.learned if all(p is not q for q in replaced)]
        self.learned += [*self.encoder.parameters(), *self.cell.parameters()]

    def encoded(self, words, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            f.embedding(words, self.source), lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return out.chunk(2, 2)

    def written(self, words, state, encoded, projected, hidden):
        states = []
        for word in f.embedding(words, self.target).unbind(1):
            scores = torch.tanh((state @ self.query)[:, None] + projected) @ self.score
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), 1)
            context = (weights * encoded).sum(1)
            state = self.cell(torch.cat([context, word], 1), state)
            states.append(state)
        return torch.stack(states, 1)


def theirs(parameters, kind):
    model = kind(parameters)
    optimizer = torch.optim.Adam(model.learned, RATE, fused=True)

    def step(batch):
        source, lengths, target, target_lengths, following, _ = map(torch.from_numpy, batch)
        loss = model.loss(source, lengths, target, target_lengths, following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sentences(shortest, longest):
    """Batches of (words, lengths) to read, to write, and what follows those."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(6):
        lengths, others = rng.integers(shortest, longest, (2, BATCH), endpoint=True)
        lengths[0] = others[0] = longest
        drawn = [rng.integers(0, WORDS, n.sum()) for n in (lengths, others, others)]
        found.append((drawn[0], lengths, drawn[1], others, drawn[2], others))
    return found


if __name__ == "__main__":
    size = f"batch {BATCH}, width {WIDTH}, Adam"
    for title, kind, lengths, rtol in (
        ("the same cells", Translator, (20, 20), 1e-3),
        ("torch.nn.GRU and GRUCell", Stock, (20, 20), np.inf),
        ("5 to 35 words, the same cells", Translator, (5, 35), 1e-3),
        ("5 to 35 words, torch.nn.GRU and GRUCell", Stock, (5, 35), np.inf),
    ):
        with build.fresh():
            other = functools.partial(theirs, kind=kind)
            heading = f"Translation, {size}: {title}"
            sbs.compare(heading, ours, other, sentences(*lengths), steps=6, blocks=6, rtol=rtol)
        print()
