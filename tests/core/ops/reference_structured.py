"""The structured costs by enumeration, a sequence at a time, in double precision."""

import itertools

import numpy as np


def log_sum(numbers):
    """ln of a sum of exponentials; ln 0 of none."""
    numbers = np.asarray(numbers, float)
    top = numbers.max(initial=-np.inf)
    return top + np.log(np.exp(numbers - top).sum()) if np.isfinite(top) else -np.inf


def pieces(lengths, *packed):
    """The rows of each sequence, a tuple with one piece of each packed array."""
    ends = np.cumsum(lengths)
    return [
        tuple(rows[end - length : end] for rows in packed)
        for end, length in zip(ends, lengths, strict=True)
    ]


def chain_score(scores, labels, start, end, moves):
    """The score of one labeling by a linear chain."""
    if not len(labels):
        return 0.0
    steps = sum(scores[t, label] for t, label in enumerate(labels))
    between = sum(moves[a, b] for a, b in itertools.pairwise(labels))
    return steps + between + start[labels[0]] + end[labels[-1]]


def labelings(scores):
    """Every labeling, in the order that prefers low labels from the end on."""
    steps, count = scores.shape
    return [labels[::-1] for labels in itertools.product(range(count), repeat=steps)]


def crf(scores, labels, lengths, start, end, moves):
    """-ln p of each labeling, [B, 1]."""
    weights = (start, end, moves)
    costs = []
    for x, y in pieces(lengths, scores, labels):
        total = log_sum([chain_score(x, labels, *weights) for labels in labelings(x)])
        costs.append(total - chain_score(x, y, *weights))
    return np.reshape(costs, (-1, 1))


def crf_best(scores, lengths, start, end, moves):
    """The labels of the best labelings, [T]."""
    best = []
    for (x,) in pieces(lengths, scores):
        best += max(labelings(x), key=lambda y, x=x: chain_score(x, y, start, end, moves))
    return np.array(best, int)


def ctc(log_p, labels, lengths, label_lengths, blank):
    """-ln p of each label over all alignments, 0 where there is none, [B, 1]."""
    costs = []
    for (x,), (y,) in zip(pieces(lengths, log_p), pieces(label_lengths, labels), strict=True):
        fits = [
            sum(x[t, c] for t, c in enumerate(way))
            for way in itertools.product(range(x.shape[1]), repeat=len(x))
            if [c for c, _ in itertools.groupby(way) if c != blank] == list(y)
        ]
        costs.append(-log_sum(fits) if fits else 0.0)
    return np.reshape(costs, (-1, 1))


def nce(scores, expected):
    """The cost of rows whose first score is the label's, the others those of noise, [N, 1]."""
    o = 1 / (1 + np.exp(-scores))
    true = -np.log(o[:, :1] / (o[:, :1] + expected[:, :1]))
    false = -np.log(expected[:, 1:] / (o[:, 1:] + expected[:, 1:]))
    return true + false.sum(1, keepdims=True)


def tree(scores, label):
    """-ln p of leaves of a binary tree, from the scores of its inner nodes [N, C - 1], [N, 1]."""
    classes, costs = scores.shape[1] + 1, []
    for row, c in zip(scores, np.ravel(label), strict=True):
        code, cost = c + classes, 0.0
        while code > 1:
            t = np.clip(row[code // 2 - 1], -40, 40)
            cost += np.log1p(np.exp(t)) - (code % 2) * t
            code //= 2
        costs.append(cost)
    return np.reshape(costs, (-1, 1))


def beam(expansions):
    """-ln p of the gold path of one sample.

    Expansions are (scores of each sequence, candidates of each sequence, gold).
    """
    paths, gold_score, gold_row = [0.0], 0.0, 0
    for scores, candidates, gold in expansions:
        chosen = [(row, c) for row, selected in enumerate(candidates) for c in selected]
        paths = [paths[row] + scores[row][c] for row, c in chosen]
        gold_score += scores[gold_row][gold]
        if (gold_row, gold) not in chosen:
            return log_sum([*paths, gold_score]) - gold_score
        gold_row = chosen.index((gold_row, gold))
    return log_sum(paths) - gold_score
