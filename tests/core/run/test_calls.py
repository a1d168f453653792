"""Calls of eval that were made before: the same results and errors as the first one."""

import gc

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import apply, refined


def network():
    """Return feeds and targets of a step with two parameters, a rate and dropout."""
    x = pd.Variable("x", shape=[None, 3])
    y = pd.dropout(pd.layer.fc(x, 2), 0.5)
    loss = pd.reduce_mean(pd.square(y))
    return x, y, loss, pd.AdamOptimizer(0.1).minimize(loss)


def batches(rng, count=6, rows=4):
    return rng.normal(size=(count, rows, 3)).astype(np.float32)


def test_repeated_calls_train_like_calls_by_name(rng):
    data = batches(rng)
    data = [*data, data[0, :2], data[1, :2], data[2, :2], data[3]]
    results = []
    with pd.fresh():
        x, y, loss, step = network()
        for key in (x, "x"):  # a call that feeds names is prepared anew
            with pd.Session(seed=3) as session:
                outputs = [session.eval([loss, step, {"y": y}], {key: a}) for a in data]
                results.append([(a, c["y"]) for a, _, c in outputs])
                assert session.stats()["evaluations"] == len(data)
    for (a, b), (c, d) in zip(*results, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_results_and_fed_arrays_of_earlier_calls_stay(rng):
    x = pd.Variable("x", shape=[None, 3])
    y = x + 1
    arrays = [np.full((2, 3), k, np.float32) for k in range(6)]
    results = [pd.eval(y, {x: a}) for a in arrays]
    for k, (a, b) in enumerate(zip(arrays, results, strict=True)):
        assert (a == k).all() and (b == k + 1).all()
    assert (y.val() == 6).all()


def test_a_repeated_call_checks_its_feeds():
    x, n = pd.Variable("x", shape=[None, 3]), pd.Variable("n", shape=[None], dtype=np.int64)
    z = pd.Variable("z", shape=[None, 3])
    y = x + z + pd.cast(pd.reduce_sum(n), np.float32)
    x3, two = np.ones((2, 3), np.float32), np.array([1, 2])
    wrong = [
        ({x: np.ones((2, 4), np.float32), z: x3, n: two}, pd.ShapeError, r"x: fed .* \[2, 4\]"),
        ({x: x3, z: x3, n: np.ones(2)}, pd.FeedError, "cannot take floats"),
        ({x: x3, z: x3}, pd.MissingFeed, "need a value for .*n"),
        ({x: x3, z: x3[:1], n: two}, pd.ShapeError, "sizes 2 and 1 must be equal"),
    ]
    for _ in range(4):
        np.testing.assert_array_equal(pd.eval(y, {x: x3, z: x3, n: two}), x3 * 5)
        for feeds, error, message in wrong:
            with pytest.raises(error, match=message):
                pd.eval(y, feeds)
    np.testing.assert_array_equal(pd.eval(y, {x: x3.tolist(), z: x3[:, ::-1], n: [1, 2]}), x3 * 5)
    np.testing.assert_array_equal(pd.eval(y, {x: x3[:0], z: x3[:0], n: two}), x3[:0])


def test_a_repeated_call_sees_what_changed_between(rng):
    x = pd.Variable("x", shape=[None])
    a, b = (pd.Variable(name, data=[1.0]) for name in "ab")
    loss = pd.reduce_sum(x * (a + b))
    step = pd.SGDOptimizer(1.0).minimize(loss)
    other = pd.SGDOptimizer(2.0).minimize(pd.reduce_sum(a))
    one = np.ones(1, np.float32)
    session = pd.default_session()
    for _ in range(4):
        session.set(a, [1.0])
        session.set(b, [1.0])
        assert session.eval([loss, step], {x: one}) == [2.0, None]
        assert session.eval([loss, step], {x: one}) == [0.0, None]
        a.trainable = False
        assert session.eval([loss, step], {x: one}) == [-2.0, None]
        a.trainable = True
        session.eval(other)
        assert (session.get(a), session.get(b)) == (-3.0, -2.0)


def test_a_repeated_call_can_be_checked_and_profiled():
    x = pd.Variable("x", shape=[None])
    y = pd.log(x)
    for _ in range(3):
        pd.eval(y, {x: np.ones(2, np.float32)})
    with pd.check_numerics(), pytest.raises(pd.NumericError):
        pd.eval(y, {x: np.array([1, -1], np.float32)})
    with pd.profile() as profile:
        pd.eval(y, {x: np.ones(2, np.float32)})
    assert len(profile.evaluations) == 1


def test_the_error_of_a_repeated_call_names_its_line():
    x = pd.Variable("x", shape=[2])
    n = pd.Variable("n", shape=[None], dtype=np.int64)
    y = pd.gather(x + 1, n)
    for _ in range(3):
        pd.eval(y, {x: np.zeros(2, np.float32), n: np.array([0])})
    with pytest.raises(pd.BackendError, match=r"test_calls\.py"):
        pd.eval(y, {x: np.zeros(2, np.float32), n: np.array([5])})
    pd.eval(y, {x: np.zeros(2, np.float32), n: np.array([1])})


def test_results_whose_size_depends_on_values():
    x = pd.Variable("x", shape=[None])
    honest = pd.nonzero(x)
    # an imported model may declare that a result has the size of its feed
    wrong = refined(apply("Compress", x, x > 0, axis=0), x.dims)
    for k in (3, 3, 3, 3, 2, 1, 3, 0, 3):
        a = np.where(np.arange(3) < k, 1, 0).astype(np.float32)
        rows, ones = pd.eval([honest, wrong], {x: a})
        assert rows.size == k and ones.size == k


def test_lengths_are_checked_in_every_call():
    lengths = pd.Variable.of(["batch"], np.int64, "lengths")
    x = pd.Variable.of(["rows"], np.float32, "x")
    total = pd.Segments(lengths, "rows").sum(x)
    a = np.ones(3, np.float32)
    for _ in range(4):
        assert pd.eval(total, {x: a, lengths: np.array([1, 2])}).tolist() == [1, 2]
        with pytest.raises(pd.ShapeError, match=r"'lengths' adds up to 2, x: .* has 3 rows"):
            pd.eval(total, {x: a, lengths: np.array([1, 1])})


def test_a_freed_target_frees_its_call():
    session = pd.default_session()
    x = pd.Variable("x", shape=[None])
    for _ in range(3):
        session.eval(x * 2, {x: np.ones(1, np.float32)})
    gc.collect()
    assert len(session.compiler.cache) == 0
