"""Session.run_steps: several steps in one call, equal to the same steps one by one."""

import numpy as np
import pytest

import pd_core as pd

STEPS = 5


def one_by_one(session, targets, feeds):
    """Evaluate flat targets for each entry of the feeds, and stack the results."""
    results = [
        session.eval(targets, {v: a[k] for v, a in feeds.items()})
        for k in range(len(next(iter(feeds.values()))))
    ]
    return [
        None if values[0] is None else np.stack(values) for values in zip(*results, strict=True)
    ]


def same(targets, feeds, device="cpu"):
    """Check both ways in two sessions, twice, with all that they store."""
    outcomes = []
    for run in (one_by_one, pd.Session.run_steps):
        with pd.Session(device, seed=4) as session:
            values = [*run(session, targets, feeds), *run(session, targets, feeds)]
            stored = {v.name: a for v, a in session.values().items()}
            outcomes.append((values, stored, session.draws))
    (values, stored, draws), (others, kept, drawn) = outcomes
    assert draws == drawn and stored.keys() == kept.keys()
    pairs = [*zip(values, others, strict=True), *((a, kept[k]) for k, a in stored.items())]
    for a, b in pairs:
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return others[len(targets) :]


def network(rng, rows=4):
    x, label = pd.Variable("x", shape=[None, 3]), pd.Variable("label", shape=[None], dtype=np.int64)
    h = pd.relu(pd.layer.batch_norm(pd.dropout(pd.layer.fc(x, 8), 0.5)))
    loss = pd.reduce_mean(pd.softmax_cross_entropy(pd.layer.fc(h, 2), label))
    feeds = {
        x: rng.normal(size=(STEPS, rows, 3)).astype(np.float32),
        label: rng.integers(0, 2, (STEPS, rows)),
    }
    return h, loss, feeds


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_equal_to_the_same_steps_one_by_one(device, rng):
    h, loss, feeds = network(rng)
    rate = pd.schedules.ExponentialDecay(0.1, 2, every=0.5)
    step = pd.AdamOptimizer(rate, accumulate=2).minimize(loss)
    w = next(v for v in step.owners if v.rank == 2)
    frozen = pd.Variable("frozen", data=[1.0, 2.0], trainable=False)
    last = pd.Variable("last", shape=[])  # written, and never read
    targets = [loss, step, w, frozen, h, pd.assign(last, loss * 2)]
    values = same(targets, feeds, device)
    assert [a is None for a in values] == [False, True, False, False, False, True]
    assert {len(a) for a in values if a is not None} == {STEPS}
    assert len(np.unique(values[2][:, 0, 0])) == 3  # updated in every other step


def test_two_updates_and_row_writes(rng):
    ids, z = pd.Variable("ids", shape=[None], dtype=np.int64), pd.Variable("z", shape=[None, 2])
    table = pd.Variable("table", shape=[7, 2], row_sparse=True)
    w = pd.Variable("w", data=np.eye(2))
    d = pd.reduce_sum(pd.square(pd.gather(table, ids) - z @ w))
    steps = [pd.AdaGradOptimizer(0.1).minimize(d, [v]) for v in (table, w)]
    feeds = {ids: rng.integers(0, 7, (STEPS, 3)), z: rng.normal(size=(STEPS, 3, 2))}
    same([d, *steps], {v: a.astype(v.dtype) for v, a in feeds.items()})


def test_images_recurrence_and_a_loop(rng):
    """Forms that passes choose for a device, in a body and with bodies of their own."""
    x = pd.Variable("x", shape=[None, 3, 12, 12])
    h = pd.pool2d(pd.relu(pd.layer.conv2d(x, 16, 3)), 2)
    h = pd.relu(pd.layer.batch_norm(pd.layer.conv2d(h, 16, 3)))
    h = pd.reduce_mean(h, axes=[2])  # [batch, 16, steps]
    steps = pd.transpose(h, [2, 0, 1])
    state = pd.reduce_mean(steps, axes=[0])
    state, _ = pd.scan(lambda s, v: (pd.tanh(s * v + s), None), state, steps)
    loss = pd.reduce_mean(pd.square(pd.layer.fc(state, 2)))
    update = pd.MomentumOptimizer(0.1).minimize(loss)
    same([loss, update], {x: rng.normal(size=(STEPS, 4, 3, 12, 12)).astype(np.float32)})


def test_one_program_runs_and_the_nesting_is_that_of_the_targets(rng):
    h, loss, feeds = network(rng)
    session = pd.default_session()
    step = pd.SGDOptimizer(0.1).minimize(loss)
    before = session.stats()
    for _ in range(2):
        values = pd.run_steps({"loss": loss, "more": (step, [h])}, feeds)
    after = session.stats()
    assert after["evaluations"] - before["evaluations"] == 2
    assert after["compiled"] - before["compiled"] == 1
    assert values["loss"].shape == (STEPS,) and values["more"][0] is None
    np.testing.assert_array_equal(h.val(), values["more"][1][0][-1])


def test_shapes_and_trained_parameters_may_change_between_calls(rng):
    x = pd.Variable("x", shape=[None])
    a, b = (pd.Variable(name, data=[1.0]) for name in "ab")
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(x * (a + b)))
    pd.run_steps(step, {x: np.ones((2, 1), np.float32)})
    pd.run_steps(step, {"x": np.ones((1, 3))})
    assert (a.val(), b.val()) == (-4.0, -4.0)
    a.trainable = False
    pd.run_steps(step, {x: np.ones((2, 1), np.float32)})
    assert (a.val(), b.val()) == (-4.0, -6.0)


def test_the_mode_is_that_of_eval():
    x = pd.Variable("x", shape=[None])
    ones = np.ones((2, 1000), np.float32)
    assert (pd.run_steps(pd.dropout(x, 0.5), {x: ones}) == 1).all()
    first, second = pd.run_steps(pd.dropout(x, 0.5), {x: ones}, training=True)
    assert 300 < (first == 0).sum() < 700 and (first != second).any()


def test_what_belongs_between_steps_is_done_there(rng):
    w = pd.Variable("w", data=[0.0])
    x = pd.Variable("x", shape=[1])
    feeds = {x: np.arange(3, dtype=np.float32).reshape(3, 1)}
    seen, _ = pd.run_steps([w + x, pd.assign(w, [5.0])], feeds)
    assert seen.ravel().tolist() == [0, 6, 7]
    logs = pd.log(x)
    with pd.check_numerics(), pytest.raises(pd.NumericError):
        pd.run_steps(logs, {x: [[1.0], [-1.0]]})
    gradients = []
    loss = pd.reduce_sum(w * x)
    step = pd.SGDOptimizer(1.0).minimize(loss)
    with pd.default_session().exchanging(lambda g: gradients.append(g[w]) or g):
        pd.run_steps(step, feeds)
    assert np.ravel(gradients).tolist() == [0, 1, 2]
    with pd.profile() as profile:
        pd.run_steps(loss, feeds)
    assert len(profile.evaluations) == 3


def test_a_call_that_fails_stores_nothing():
    n = pd.Variable("n", shape=[None], dtype=np.int64)
    w = pd.Variable("w", data=[1.0, 2.0])
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(pd.gather(w, n)))
    for _ in range(2):
        with pytest.raises(pd.BackendError, match=r"test_run_steps\.py"):
            pd.run_steps(step, {n: [[0], [1], [2]]})
    assert w.val().tolist() == [1, 2]
    pd.run_steps(step, {n: [[0], [1]]})
    assert w.val().tolist() == [0, 1]


def test_errors_name_the_feeds():
    x, y = pd.Variable("x", shape=[None, 3]), pd.Variable("y", shape=[None, 3])
    z = x + y
    a = np.ones((4, 2, 3), np.float32)
    wrong = [
        ({x: a, y: a[:3]}, pd.ShapeError, r"run_steps: y is fed 3 steps, x is fed 4"),
        ({x: a[:0], y: a[:0]}, pd.ShapeError, r"run_steps: x is fed no steps"),
        (
            {x: a[0], y: a},
            pd.ShapeError,
            r"run_steps: x: fed .* \[2, 3\], each step of it is .*3\]",
        ),
        ({x: a, y: a[:, :1]}, pd.ShapeError, "sizes 2 and 1 must be equal"),
        ({x: a, "x": a}, pd.FeedError, "is fed twice"),
        ({x: a}, pd.MissingFeed, "need a value for .*y"),
        ({}, pd.FeedError, "run_steps: the feeds say how many steps"),
    ]
    for feeds, error, message in wrong * 2:
        with pytest.raises(error, match=message):
            pd.run_steps(z, feeds)
    lengths = pd.Variable.of(["batch"], np.int64, "lengths")
    rows = pd.Variable.of(["rows"], np.float32, "rows")
    total = pd.Segments(lengths, "rows").sum(rows)
    with pytest.raises(pd.ShapeError, match=r"'lengths' adds up to 2, rows: .* has 3 rows"):
        pd.run_steps(total, {rows: np.ones((2, 3)), lengths: [[1, 2], [1, 1]]})
    assert pd.run_steps(total, {rows: np.ones((1, 3)), lengths: [[1, 2]]}).tolist() == [[1, 2]]
