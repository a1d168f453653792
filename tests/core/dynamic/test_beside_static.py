"""Evaluations of static graphs that repeat, in a session in which values were recorded."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.observers import Observers

X = np.float32([[1, 2], [3, 4]])


def network():
    x, w = pd.Variable([None, 2]), pd.Variable("w", data=np.ones((2, 3), "f"))
    cost = pd.reduce_sum(pd.square(x @ w))
    return x, w, cost, pd.SGDOptimizer(0.01).minimize(cost)


def test_repeated_evaluations_are_as_short_as_without(monkeypatch):
    x, w, cost, step = network()
    with pd.guard():
        pd.reduce_sum(w).numpy()
    wanted = [pd.eval(cost, {x: X}), pd.eval(cost, {x: X})]
    pd.eval(step, {x: X})
    monkeypatch.setattr(Observers, "start", None)  # called, it is an error
    assert wanted[0] == wanted[1] > pd.eval(cost, {x: X})
    pd.eval(step, {x: X})


@pytest.mark.parametrize("row_sparse", [False, True])
def test_recorded_reads_keep_the_values_before_repeated_steps(row_sparse):
    """An operator recorded before an update and computed after it reads the values before."""
    x, w, _, step = network()
    table = pd.Variable("t", data=np.ones((4, 2), "f"), row_sparse=row_sparse)
    ids = pd.Variable([None], dtype="int64")
    row_step = pd.SGDOptimizer(0.5).minimize(pd.reduce_sum(pd.embedding(ids, [4, 2], table)))
    values, recorded = [], []
    with pd.guard():
        for k in range(4):
            values.append((w.val().copy(), table.val().copy()))
            recorded.append((w * 1.0, table * 1.0))
            pd.eval([step, row_step], {x: X, ids: [k, 0]})
        for old, new in zip(values, recorded, strict=True):
            for a, b in zip(old, new, strict=True):
                np.testing.assert_array_equal(a, b.numpy())
    assert not np.array_equal(values[0][0], w.val()) and table.val()[0, 0] < 0


def test_assignments_are_stored_before_a_repeated_evaluation():
    x, w, cost, _ = network()
    with pd.guard():
        for k in range(1, 4):
            pd.assign(w, w * 0.0 + float(k))
            assert pd.eval(cost, {x: X}) == pytest.approx(3 * k**2 * (3**2 + 7**2))


def test_a_waiting_backward_pass_reads_the_values_before():
    x, w, _, step = network()
    grads = []
    with pd.guard():
        for _ in range(3):
            loss = pd.reduce_sum(pd.square(w))
            wanted = 2 * w.val()
            loss.backward()
            pd.eval(step, {x: X})
            grads.append((w.gradient(), wanted))
            w.clear_gradient()
    for got, want in grads:
        np.testing.assert_allclose(got, want, rtol=1e-6)


def several(step, x):
    return pd.run_steps(step, {x: X[None].repeat(3, 0)})


def test_several_steps_are_one_program_beside_what_was_recorded(monkeypatch):
    x, w, cost, step = network()
    with pd.guard():
        pd.reduce_sum(w).numpy()
        several([cost, step], x)
    before = pd.stats()["evaluations"]
    monkeypatch.setattr(Observers, "start", None)  # called, it is an error
    costs, _ = several([cost, step], x)
    assert pd.stats()["evaluations"] - before == 1 and costs[0] > costs[1] > costs[2]


def test_recorded_reads_keep_the_values_before_several_steps():
    x, w, _, step = network()
    with pd.guard():
        for _ in range(3):
            value, recorded = w.val(), w * 1.0
            several(step, x)
            assert not np.array_equal(value, w.val())
            np.testing.assert_array_equal(value, recorded.numpy())


def test_several_steps_begin_after_what_was_recorded():
    x, w, cost, step = network()
    with pd.guard():
        for k in range(1, 4):
            pd.assign(w, w * 0.0 + float(k))
            loss = pd.reduce_sum(pd.square(w))
            loss.backward()
            costs, _ = several([cost, step], x)
            assert costs[0] == pytest.approx(3 * k**2 * (3**2 + 7**2))
            assert np.all(w.gradient() == 2 * k)
            w.clear_gradient()


def test_several_steps_of_a_recorded_graph_are_taken_one_by_one():
    x, w, _, _ = network()
    with pd.guard():
        product = x @ (w * 2.0)
        values = pd.run_steps(product, {x: X[None].repeat(2, 0)})
    np.testing.assert_allclose(values, np.stack([X @ np.full((2, 3), 2.0)] * 2))
