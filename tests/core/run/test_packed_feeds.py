"""Lengths of packed sequences that do not fit what is fed with them."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import thinned


def sequences(name, depth=1):
    """Values, and the lengths and the Segments of each level."""
    sizes = ["batch", f"{name}.parts", f"{name}.rows"] if depth == 2 else ["batch", f"{name}.rows"]
    lengths = [pd.Variable.of(sizes[k : k + 1], np.int64, f"{name}{k}") for k in range(depth)]
    segments = [pd.Segments(v, d) for v, d in zip(lengths, sizes[1:], strict=True)]
    return pd.Variable.of(sizes[-1:], "float32", name), lengths, segments


def rows(n):
    return np.ones(n, np.float32)


def test_lengths_add_up_to_the_rows():
    x, (lengths,), (segments,) = sequences("x")
    assert pd.eval(segments.sum(x), {x: rows(3), lengths: [1, 2]}).tolist() == [1, 2]
    for wrong in ([1, 1], [2, 2]):
        with pytest.raises(pd.ShapeError, match=f"'x0' adds up to {sum(wrong)}, x: .* has 3 rows"):
            pd.eval(segments.sum(x), {x: rows(3), lengths: wrong})


def test_a_length_is_not_negative():
    """Not even where the sum is right; a step that is refused changes nothing."""
    x, (lengths,), (segments,) = sequences("x")
    w = pd.Variable("w", data=np.float32(2.0))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(segments.sum(x * w)))
    with pytest.raises(pd.ShapeError, match="'x0' has the length -2 at 1, it cannot be negative"):
        pd.eval(step, {x: rows(3), lengths: [5, -2]})
    assert w.val() == 2.0


def test_parts_add_up_too():
    x, (outer, inner), (samples, parts) = sequences("x", 2)
    y = samples.sum(parts.sum(x))
    assert pd.eval(y, {x: rows(3), outer: [2, 0], inner: [1, 2]}).tolist() == [3, 0]
    with pytest.raises(pd.ShapeError, match=r"'x0' adds up to 3, x1: .* has 2 rows"):
        pd.eval(y, {x: rows(3), outer: [3, 0], inner: [1, 2]})


def test_rows_that_meet_are_of_the_same_sequences():
    x, (a,), (segments,) = sequences("x")
    z, (b,), _ = sequences("z")
    y = segments.sum(pd.add(x, z))
    fed = {x: rows(3), z: rows(3), a: [1, 2]}
    assert pd.eval(y, {**fed, b: [1, 2]}).tolist() == [2, 4]
    with pytest.raises(pd.ShapeError, match="sequence 0 has 1 by 'x0', 2 by 'z0'"):
        pd.eval(y, {**fed, b: [2, 1]})
    with pytest.raises(pd.ShapeError, match="have 2 and 3 sequences"):
        pd.eval(y, {**fed, b: [1, 1, 1]})


@pytest.mark.parametrize(
    "verb",
    [
        lambda s, z: s.sum(z),
        lambda s, z: s.max(z),
        lambda s, z: s.last(z),
        lambda s, z: s.softmax(z),
        lambda s, z: pd.sequence_context(s, z, -1, 3),
    ],
)
def test_values_of_other_sequences(verb):
    _, (a,), (segments,) = sequences("x")
    z, (b,), _ = sequences("z")
    y = verb(segments, pd.add(z, 1.0))
    fed = {z: rows(3), a: [1, 2]}
    pd.eval(y, {**fed, b: [1, 2]})
    with pytest.raises(pd.ShapeError, match="rows of different sequences meet"):
        pd.eval(y, {**fed, b: [2, 1]})


def test_sequences_that_meet_parts():
    x, (a,), _ = sequences("x")
    z, (outer, inner), _ = sequences("z", 2)
    y = pd.add(x, z)
    fed = {x: rows(4), z: rows(4), outer: [2, 0, 1], inner: [0, 3, 1]}
    assert pd.eval(y, {**fed, a: [3, 0, 1]}).tolist() == [2] * 4
    with pytest.raises(pd.ShapeError, match="sequence 1 has 1 by 'x0', 0 by 'z0'"):
        pd.eval(y, {**fed, a: [3, 1, 0]})


def test_rows_of_a_constant_are_no_sequences():
    """Two feeds have as many rows as it by chance, and are summed up apart."""
    x, (a,), (segments,) = sequences("x")
    z, (b,), (others,) = sequences("z")
    c, fed = np.arange(3, dtype=np.float32), {x: rows(3), z: rows(3), a: [1, 2], b: [2, 1]}
    apart = pd.reduce_sum(segments.softmax(x) * c) + pd.reduce_sum(others.softmax(z) * c)
    np.testing.assert_allclose(pd.eval(apart, fed), (0 + 0.5 + 1.0) + (0 + 0.5 + 2.0))
    with pytest.raises(pd.ShapeError, match="rows of different sequences meet"):
        pd.eval(pd.reduce_sum((x + z) * c), fed)


def test_parts_that_meet_are_divided_alike():
    x, lengths, _ = sequences("x", 2)
    z, others, _ = sequences("z", 2)
    fed = {x: rows(3), z: rows(3), lengths[0]: [2], lengths[1]: [1, 2], others[0]: [2]}
    assert len(pd.eval(pd.add(x, z), {**fed, others[1]: [1, 2]})) == 3
    with pytest.raises(pd.ShapeError, match="sequence 0 has 1 by 'x1', 2 by 'z1'"):
        pd.eval(pd.add(x, z), {**fed, others[1]: [2, 1]})


def test_rows_for_each_sequence_are_as_many():
    x, (a,), _ = sequences("x")
    _, (outer, inner), (_, parts) = sequences("z", 2)
    y = parts.repeat(pd.add(x, 1.0))
    fed = {x: rows(3), outer: [1, 2], inner: [1, 0, 2]}
    assert len(pd.eval(y, {**fed, a: [1, 2]})) == 3
    with pytest.raises(pd.ShapeError, match="sequence 0 has 2 by 'x0', 1 by 'z0'"):
        pd.eval(y, {**fed, a: [2, 1]})
    with pytest.raises(pd.ShapeError, match="sizes 2 and 3 must be equal"):
        pd.eval(y, {**fed, x: rows(2), a: [1, 1]})


def test_lengths_that_nobody_fed_are_not_asked_for():
    x, _, _ = sequences("x")
    z, (b,), _ = sequences("z")
    assert len(pd.eval(pd.add(x, z), {x: rows(3), z: rows(3), b: [3]})) == 3


VERBS = {
    "sum": lambda s, v: s.sum(v),
    "mean": lambda s, v: s.mean(v),
    "max": lambda s, v: s.max(v),
    "first": lambda s, v: s.first(v),
    "last": lambda s, v: s.last(v),
    "pad": lambda s, v: s.pad(v),
    "softmax": lambda s, v: s.softmax(v),
    "scan": lambda s, v: s.scan(lambda state, x: (state + x, x), s.zeros(2), v)[0],
}
AT_HAND = "the lengths add up to {}, the values are 3 rows"
# How values and lengths come: {name: (a function of arrays that computes a verb, words)}
WAYS = {}


def way(words):
    return lambda function: WAYS.update({function.__name__: (function, words)})


@way("'lengths' adds up to {}, x: .* has 3 rows")
def feeds(verb, values, lengths):
    """The size of the values has no name in common with the lengths."""
    x = pd.Variable([None, 2], name="x")
    counts = pd.Variable([None], dtype="int64", name="lengths")
    return pd.eval(verb(pd.Segments(counts), x * 1.0), {x: values, counts: lengths})


@way(AT_HAND)
def constants(verb, values, lengths):
    return verb(pd.Segments(np.array(lengths)), pd.constant(values)).eval()


@way(AT_HAND)
def dynamic(verb, values, lengths):
    with pd.guard():
        return verb(pd.Segments(np.array(lengths)), pd.to_variable(values) * 1.0).numpy()


@way(AT_HAND)
def dynamic_variables(verb, values, lengths):
    with pd.guard():
        segments = pd.Segments(pd.to_variable(np.array(lengths)))
        return verb(segments, pd.to_variable(values)).numpy()


@pytest.mark.parametrize("way, verb", thinned(itertools.product(WAYS, VERBS), 3))
def test_lengths_add_up_however_they_come(way, verb):
    (compute, words), verb = WAYS[way], VERBS[verb]
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.isfinite(compute(verb, values, [1, 0, 2])).all()
    for wrong in ([1, 1], [1, 3], [], [2, 2**40]):
        wrong = np.array(wrong, np.int64)
        with pytest.raises(pd.ShapeError, match=words.format(wrong.sum())):
            compute(verb, values, wrong)
    with pytest.raises(pd.ShapeError, match="negative"):
        compute(verb, values, [-1, 4])
