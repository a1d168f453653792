"""Packed sequences of generated lengths, empty ones too, against a loop in NumPy."""

from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import pd_core as pd
from tests.properties import examples, normal, seeds

LENGTHS = st.lists(st.integers(0, 4), min_size=0, max_size=5)
WIDTH = 2


def by_sequence(a, lengths, function):
    """The results of a function of each sequence, zeros for an empty one."""
    parts = np.split(a, np.cumsum(lengths)[:-1]) if lengths else []
    rows = [function(part) if len(part) else np.zeros(WIDTH) for part in parts]
    return np.array(rows, a.dtype).reshape(len(lengths), WIDTH)


def softmax(part):
    e = np.exp(part - part.max(axis=0))
    return e / e.sum(axis=0)


@cache
def build():
    """The inputs, the results of each function, and their gradient: one program for all."""
    lengths = pd.Variable(["batch"], dtype="int64")
    segments = pd.Segments(lengths, "tokens")
    x = pd.Variable.of(["tokens", WIDTH], "float32", "x")
    rows = [segments.sum(x), segments.mean(x), segments.max(x), segments.first(x), segments.last(x)]
    total, _ = segments.scan(lambda s, v: (s + v, s), segments.zeros(WIDTH), x)
    back = segments.pack(segments.pad(x))
    gradient = pd.gradients(pd.reduce_sum(pd.square(segments.sum(x))), [x])
    results = [*rows, total, segments.softmax(x), back, segments.repeat(rows[0]), *gradient]
    return lengths, x, [*results, segments.owner, segments.position]


@examples(80)
@given(LENGTHS, seeds)
def test_packed_sequences_are_a_loop(sizes, seed):
    compare(*build(), sizes, normal(seed, (sum(sizes), WIDTH)))


def compare(lengths, x, results, sizes, a):
    """Compare the results for a batch of sequences of these sizes, back to back in `a`."""
    sums = by_sequence(a, sizes, lambda p: p.sum(axis=0))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    parts = np.split(a, np.cumsum(sizes)[:-1]) if sizes else []
    expected = [
        sums,
        by_sequence(a, sizes, lambda p: p.mean(axis=0)),
        by_sequence(a, sizes, lambda p: p.max(axis=0)),
        by_sequence(a, sizes, lambda p: p[0]),
        by_sequence(a, sizes, lambda p: p[-1]),
        sums,
        np.concatenate([np.zeros((0, WIDTH)), *(softmax(p) for p in parts if len(p))]),
        a,
        sums[owner],
        2 * sums[owner],
        owner,
        np.concatenate([np.zeros(0), *(np.arange(n) for n in sizes)]),
    ]
    found = pd.eval(results, {lengths: np.array(sizes, np.int64), x: a})
    for result, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)
        assert result.shape == value.shape


def test_padding_beyond_the_longest_is_left_out(rng):
    """Values and gradients of wider paddings are those of PyTorch's pack_padded_sequence."""
    lengths, x = pd.Variable([None], dtype="int64"), pd.Variable([None, None, 2])
    packed = pd.Segments(lengths).pack(x)
    (slope,) = pd.gradients(pd.reduce_sum(pd.square(packed)), [x])
    for sizes, width in (([2, 0, 3], 5), ([2, 0, 3], 3), ([0, 0], 2), ([1], 4)):
        padded = rng.standard_normal((len(sizes), width, 2)).astype("float32")
        rows = np.concatenate([row[:n] for row, n in zip(padded, sizes, strict=True)])
        inside = np.arange(width) < np.array(sizes)[:, None]
        value, gradient = pd.eval([packed, slope], {lengths: sizes, x: padded})
        np.testing.assert_array_equal(value, rows)
        np.testing.assert_array_equal(gradient, 2.0 * padded * inside[:, :, None])
        with pd.guard():
            at_hand = pd.Segments(np.array(sizes)).pack(padded).numpy()
        np.testing.assert_array_equal(at_hand, rows)
