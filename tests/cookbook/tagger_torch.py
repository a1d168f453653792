"""demos/cookbook/tagger.py in PyTorch, the conditional random field by the forward algorithm."""

import torch
from initial import weights
from tagger import HIDDEN, RATE, TAGS, WIDTH, WORDS, batches

SHAPES = {"words.W": (WORDS, WIDTH), "gru.W_l0": (WIDTH, 3 * HIDDEN)}
SHAPES |= {"gru.R_l0": (HIDDEN, 3 * HIDDEN), "gru.B_l0": (4 * HIDDEN,)}
SHAPES |= {"scores.W": (HIDDEN, TAGS), "scores.B": (TAGS,)}


def gru_step(x, h, w):
    b = w["gru.B_l0"]
    a = x @ w["gru.W_l0"] + b[: 3 * HIDDEN]
    r = h @ w["gru.R_l0"]
    update = torch.sigmoid(a[:HIDDEN] + r[:HIDDEN])
    reset = torch.sigmoid(a[HIDDEN : 2 * HIDDEN] + r[HIDDEN : 2 * HIDDEN])
    candidate = torch.tanh(a[2 * HIDDEN :] + reset * (r[2 * HIDDEN :] + b[3 * HIDDEN :]))
    return (1 - update) * candidate + update * h


def sentence_cost(words, tags, w):
    h, scores = torch.zeros(HIDDEN), []
    for x in w["words.W"][words]:
        h = gru_step(x, h, w)
        scores.append(h @ w["scores.W"] + w["scores.B"])
    transitions, alpha = w["transitions"], scores[0]
    gold = scores[0][tags[0]]
    for k in range(1, len(scores)):
        alpha = torch.logsumexp(alpha[:, None] + transitions, 0) + scores[k]
        gold = gold + transitions[tags[k - 1], tags[k]] + scores[k][tags[k]]
    return torch.logsumexp(alpha, 0) - gold


def losses(steps):
    w = {n: torch.nn.Parameter(torch.from_numpy(v)) for n, v in weights(SHAPES).items()}
    w["transitions"] = torch.nn.Parameter(torch.zeros(TAGS, TAGS))
    optimizer = torch.optim.SGD(w.values(), lr=RATE, momentum=0.9)
    history = []
    for words, lengths, tags in batches(steps):
        ends = lengths.cumsum()
        costs = [
            sentence_cost(torch.from_numpy(row[:n]), torch.from_numpy(tags[end - n : end]), w)
            for row, n, end in zip(words, lengths, ends, strict=True)
        ]
        cost = torch.stack(costs).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        history.append(cost.item())
    return history
