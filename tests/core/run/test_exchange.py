"""A function between the gradients and the update of a step."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def regression(rows):
    x, y = pd.Variable([None, 3]), pd.Variable([None])
    w = pd.Variable("w", data=np.ones((3, 1)))
    b = pd.Variable("b", data=np.zeros(1))
    error = pd.square(pd.reshape(x @ w + b, [-1]) - y)
    return x, y, pd.reduce_sum(error) / float(rows), error


def data(rng, rows=8):
    return rng.standard_normal((rows, 3)).astype(f32), rng.standard_normal(rows).astype(f32)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_gradients_of_two_sessions_are_added_up(rng, device):
    """Two halves of a batch, each in a session of its own, take the step of the whole."""
    xs, ys = data(rng)
    x, y, cost, _ = regression(8)
    parameters = pd.trainable_variables()
    step = pd.AdamOptimizer(0.1).minimize(cost)
    gradients = pd.gradients(cost, parameters)
    whole, one, other = (pd.Session(device) for _ in range(3))
    halves = {x: xs[:5], y: ys[:5]}, {x: xs[5:], y: ys[5:]}

    def add_the_other_half(mine):
        theirs = other.eval(gradients, halves[1])
        return {w: mine[w] + g for w, g in zip(parameters, theirs, strict=True)}

    for _ in range(3):
        whole.eval(step, {x: xs, y: ys})
        other.load_values({w: one.get(w) for w in parameters})
        with one.exchanging(add_the_other_half):
            one.eval(step, halves[0])
    for v in (*parameters, *step.variables()):
        np.testing.assert_allclose(one.get(v), whole.get(v), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_step_in_stages_is_the_step(rng, device):
    xs, ys = data(rng)
    trained = []
    for staged in (False, True):
        with pd.fresh(device=device) as session:
            x, y, cost, _ = regression(8)
            clip = pd.ClipGlobalNorm(0.5)
            step = pd.MomentumOptimizer(0.1, regularizer=pd.L2(0.1), clip=clip).minimize(cost)
            for _ in range(3):
                if staged:
                    with session.exchanging(lambda gradients: gradients):
                        session.eval([cost, step], {x: xs, y: ys})
                else:
                    session.eval([cost, step], {x: xs, y: ys})
            trained.append([session.get(v) for v in (*pd.trainable_variables(), *step.variables())])
            assert session.stats()["compiled"] <= 1
    for whole, parts in zip(*trained, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-6)


def test_rows_of_a_table_may_become_more():
    table = pd.Variable("table", data=np.zeros((5, 2)), row_sparse=True)
    ids = pd.Variable([None], dtype="int64")
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(pd.gather(table, ids)))

    def other_rows(gradients):
        rows, values = gradients[table]
        assert rows.tolist() == [1, 3] and values.tolist() == [[1.0, 1.0], [2.0, 2.0]]
        return {table: (np.array([0, 1, 3]), np.full((3, 2), -1.0, f32))}

    with pd.default_session().exchanging(other_rows):
        pd.eval(step, {ids: [3, 1, 3]})
    assert table.val().tolist() == [[1, 1], [1, 1], [0, 0], [1, 1], [0, 0]]


def test_statistics_and_fetches_of_both_stages(rng):
    x = pd.Variable([None, 3, 1, 1])
    w = pd.Variable("w", data=2.0)
    seen = pd.Variable("seen", data=0.0, trainable=False)
    counted = pd.mode_switch(x, x, effects=[(seen, seen + 1.0)])
    cost = pd.reduce_sum(counted * w)
    step = pd.SGDOptimizer(0.5).minimize(cost, [w])
    (g,) = pd.gradients(cost, [w])
    rows = rng.standard_normal((2, 3, 1, 1)).astype(f32)
    with pd.default_session().exchanging(lambda gradients: {w: gradients[w] * 0.0 + 4.0}):
        value, gradient, _ = pd.eval([cost, g, step], {x: rows})
    assert w.val() == 0.0 and seen.val() == 1.0
    np.testing.assert_allclose(gradient, rows.sum(), rtol=1e-5)
    np.testing.assert_allclose(value, 2.0 * rows.sum(), rtol=1e-5)


def test_a_frozen_parameter_has_no_gradient_to_exchange():
    w, v = pd.Variable("w", data=1.0), pd.Variable("v", data=2.0)
    step = pd.SGDOptimizer(0.5).minimize(w * v)
    v.trainable = False
    given = []
    with pd.default_session().exchanging(lambda gradients: given.append(gradients) or gradients):
        pd.eval(step)
        pd.eval(w * v)
    assert [list(g) for g in given] == [[w]]
    assert (w.val(), v.val()) == (0.0, 2.0)


@pytest.mark.parametrize(
    "answer, error, words",
    [
        (lambda g: {}, pd.FeedError, "exchanging: the function returns the gradients"),
        (lambda g: {w: a[:1] for w, a in g.items()}, pd.ShapeError, "fed an array of"),
        (lambda g: {w: np.array(["a"]) for w in g}, pd.FeedError, "cannot take"),
    ],
)
def test_what_is_no_gradient_is_refused_and_changes_nothing(answer, error, words):
    w = pd.Variable("w", data=[1.0, 2.0])
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(w * 2.0))
    with pytest.raises(error, match=words), pd.default_session().exchanging(answer):
        pd.eval(step)
    assert w.val().tolist() == [1.0, 2.0]
    pd.eval(step)  # as without
    assert w.val().tolist() == [-1.0, 0.0]
