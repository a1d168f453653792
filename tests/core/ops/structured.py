"""Rows of costs of label sequences, of many classes and of beams, against enumerations."""

import numpy as np

from pd_core import ops

from . import reference_structured as naive
from .case import case, distinct, fixed, normal, whole
from .random import stream

STEPS, LABELS = np.array([2, 0, 3]), np.array([1, 0, 2])


def _sequences(lengths=STEPS):
    return ops.Segments(lengths)


def _crf_loss(scores, labels, start, end, moves):
    return ops.crf_loss(scores, labels, _sequences(), moves, start, end)


def _crf_decode(scores, start, end, moves):
    return ops.crf_decode(scores, _sequences(), moves, start, end)


def _ctc_loss(log_p, labels):
    return ops.ctc_loss(log_p, labels, _sequences(), _sequences(LABELS), blank=1)


def _noise(name, rows, classes, samples):
    """Uniform classes: what the hash of that name gives."""
    return np.floor(stream(name, (rows, samples)) * classes).astype(int)


def _nce_loss(x, label, w, b, samples=2):
    scores, classes = x @ w.T + b, len(w)
    noise = _noise("uniform_random_0", len(x), classes, samples)
    both = np.concatenate([label.reshape(-1, 1), noise], 1)
    return naive.nce(np.take_along_axis(scores, both, 1), np.full(both.shape, samples / classes))


def _tree(x, label, w, b):
    return naive.tree(x @ w.T + b, label)


# Two samples with two candidates each; one follows both of them, of the other gold is lost.
_STARTS = np.array([3, 2, 2, 1, 2, 2])


def _beam(first, then):
    ones = ops.Segments(_STARTS[:2])
    rest, samples = ops.Segments(_STARTS[2:]), ops.Segments(np.array([2, 2]))
    return ops.cross_entropy_over_beam(
        [
            ops.BeamExpansion(first, ones, [[2, 0], [1, 0]], [0, 0]),
            ops.BeamExpansion(then, rest, [[0, 1], [0, -1], [1, 0], [1, -1]], [0, 0], samples),
        ]
    )


def _beam_of_samples(first, then):
    a, b = np.split(first[:, 0], [3])
    rows = np.split(then[:, 0], np.cumsum(_STARTS[2:])[:-1])
    return np.array(
        [
            [naive.beam([([a], [[2, 0]], 0), (rows[:2], [[0, 1], [0]], 0)])],
            [naive.beam([([b], [[1, 0]], 0), (rows[2:], [[1, 0], [1]], 0)])],
        ]
    )


CASES = [
    case(
        "crf_loss",
        _crf_loss,
        lambda x, y, start, end, moves: naive.crf(x, y, STEPS, start, end, moves),
        [normal(5, 3), whole(0, 3, 5), normal(3), normal(3), normal(3, 3)],
        batch=(0, 1),
    ),
    case(
        "crf_loss",
        lambda x, y, moves: ops.crf_loss(x, y, _sequences(), moves),
        lambda x, y, moves: naive.crf(x, y, STEPS, np.zeros(3), np.zeros(3), moves),
        [normal(5, 3), whole(0, 3, 5), normal(3, 3)],
        label="no borders",
        batch=(0, 1),
    ),
    case(
        "crf_decode",
        _crf_decode,
        lambda x, start, end, moves: naive.crf_best(x, STEPS, start, end, moves),
        [distinct(5, 3), normal(3), normal(3), normal(3, 3)],
        smooth=False,
    ),
    case(
        "ctc_loss",
        _ctc_loss,
        lambda x, y: naive.ctc(x, y, STEPS, LABELS, blank=1),
        [normal(5, 3), fixed([2, 0, 0])],
        batch=(0, 1),
    ),
    case(
        "random_classes",
        lambda: ops.random_classes([3, 4], 7),
        lambda: _noise("uniform_random_0", 3, 7, 4),
        [],
        smooth=False,
    ),
    case(
        "nce_loss",
        lambda x, y, w, b: ops.nce_loss(x, y, w, b, samples=2),
        _nce_loss,
        [normal(4, 3), whole(0, 5, 4), normal(5, 3), normal(1, 5)],
        batch=(0, 1),
    ),
    case(
        "hierarchical_sigmoid",
        ops.hierarchical_sigmoid,
        _tree,
        [normal(4, 3), whole(0, 6, 4, 1), normal(5, 3), normal(5)],
        batch=(0, 1),
    ),
    case(
        "cross_entropy_over_beam",
        _beam,
        _beam_of_samples,
        [normal(5, 1), normal(7, 1)],
    ),
]
