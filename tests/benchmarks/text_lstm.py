"""Sentiment classification with the 2017 book's LSTM: a training step in pd_v2 and PyTorch.

An embedding of 5147 words, an LSTM, max pooling over time, and a softmax; batch 64, Adam. Once with
texts of 100 words, once with 5 to 100. PyTorch pads those and masks the padding, which takes less
than half the time of its packed sequences here. The LSTM is that of torch.nn.LSTM: it has no
peepholes, and its bias is that of the input projection.
"""

import functools

import numpy as np
import side_by_side as sbs
import torch
from torch.nn import functional as f

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build

WORDS, WIDTH, HIDDEN, CLASSES, BATCH, MAX_LENGTH = 5147, 128, 128, 2, 64, 100
RATE = 2e-3


def ours():
    layers, types = paddle.layer, paddle.data_type
    words = layers.data(name="words", type=types.integer_value_sequence(WORDS))
    label = layers.data(name="label", type=types.integer_value(CLASSES))
    gates = layers.mixed(
        size=4 * HIDDEN,
        bias_attr=True,
        input=layers.full_matrix_projection(layers.embedding(input=words, size=WIDTH)),
    )
    hidden = layers.lstmemory(input=gates, bias_attr=False)
    pooled = layers.pooling(input=hidden, pooling_type=paddle.pooling.Max())
    scores = layers.fc(input=pooled, size=CLASSES, act=paddle.activation.Softmax())
    cost = pd.reduce_mean(layers.cross_entropy_cost(input=scores, label=label))
    update = pd.AdamOptimizer(RATE).minimize(cost)
    texts, lengths = words.inputs

    def step(batch):
        feeds = {texts: batch[0], lengths: batch[1], label: batch[2]}
        return float(pd.eval([update, cost], feeds)[1])

    return step, [update, cost], pd.trainable_variables()


def theirs(parameters, ragged):
    table, w_input, bias, w_hidden, out, out_bias = map(sbs.parameter, parameters)
    lstm = torch.nn.LSTM(WIDTH, HIDDEN, batch_first=True)
    order = [
        HIDDEN * k + np.arange(HIDDEN) for k in (1, 2, 0, 3)
    ]  # gates i, f, g, o from g, i, f, o
    order = np.concatenate(order)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(w_input.T[order])
        lstm.weight_hh_l0.copy_(w_hidden.reshape(HIDDEN, -1).T[order])
        lstm.bias_ih_l0.copy_(bias.reshape(-1)[order])
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(False)
    trained = [table, out, out_bias, *(p for p in lstm.parameters() if p.requires_grad)]
    optimizer = torch.optim.Adam(trained, RATE, fused=True)

    def hidden(words, lengths):
        if not ragged:
            return lstm(f.embedding(words.reshape(BATCH, MAX_LENGTH), table))[0]
        texts = torch.split(words, lengths.tolist())
        padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
        padding = torch.arange(padded.shape[1]) >= lengths[:, None]
        states = lstm(f.embedding(padded, table))[0]
        return states.masked_fill(padding[:, :, None], -torch.inf)

    def step(batch):
        words, lengths, label = map(torch.from_numpy, batch)
        scores = hidden(words, lengths).amax(1) @ out + out_bias
        loss = f.cross_entropy(scores, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def texts(shortest):
    """Return batches of (words of all texts, lengths, labels)."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(8):
        lengths = rng.integers(shortest, MAX_LENGTH, BATCH, endpoint=True)
        lengths[0] = MAX_LENGTH
        words = rng.integers(0, WORDS, lengths.sum())
        batches.append((words, lengths, rng.integers(0, CLASSES, BATCH)))
    return batches


if __name__ == "__main__":
    for shortest in (MAX_LENGTH, 5):
        title = f"Text LSTM, {shortest} to {MAX_LENGTH} words, batch {BATCH}, hidden {HIDDEN}, Adam"
        build_theirs = functools.partial(theirs, ragged=shortest < MAX_LENGTH)
        with build.fresh():
            sbs.compare(title, ours, build_theirs, texts(shortest), steps=8, blocks=8)
        print()
