"""Values are those of their lines, whatever changes what they were computed from."""

import gc
from weakref import ref

import numpy as np

import pd_core as pd
from pd_core.run.session import default_session

f32 = np.float32


def test_a_value_belongs_to_the_session_of_its_guard():
    w = pd.Variable("w", data=f32(3))
    session = pd.Session()
    session.set(w, f32(5))
    with session, pd.guard():
        y = w * 2.0
        z = y + 1.0
    assert (float(y), float(z)) == (10, 11)
    with pd.guard():
        assert float(w * y) == 30
        u = w * 2.0
    with session, pd.guard():
        v = u + w  # of both sessions
        assert float(v) == 11
    session.set(w, f32(7))
    assert float(y) == 10


def test_a_guard_on_a_device_keeps_its_values():
    w = pd.Variable("w", data=f32(3))
    with pd.guard(device="reference"):
        y = w * 2.0
        pd.SGDOptimizer(0.5).minimize(w * w)
        z = w * 2.0
    assert (float(y), float(z), float(w.eval())) == (6, 0, 3)


def test_draws_are_of_the_session_of_their_guard():
    def drawn(inside):
        with pd.Session(seed=5) as session, pd.guard():
            x = pd.uniform_random([4])
            first = x.numpy() if inside else None
        return x.numpy() if first is None else first, session

    assert (drawn(True)[0] == drawn(False)[0]).all()


def test_static_graphs_read_recorded_values():
    w, x = pd.Variable("w", data=f32(3)), pd.Variable([None])
    with pd.guard():
        y, z = w * 2.0, w * 3.0
        z.numpy()
    feeds = {x: [1.0, 2.0]}
    products = [x * y, x * z, x * (y + z)]
    before = pd.eval(products, feeds)
    pd.eval(pd.assign(w, f32(5)))
    later = pd.eval([*products, x * y], feeds)
    assert [a.tolist() for a in before] == [[6, 12], [9, 18], [15, 30]]
    assert [a.tolist() for a in later] == [[6, 12], [9, 18], [15, 30], [6, 12]]


def test_recorded_lines_may_read_feed_slots():
    w, x = pd.Variable("w", data=f32(3)), pd.Variable([None])
    with pd.guard():
        y = (x * w) * (w * 2.0)
        assert pd.eval(y, {x: [1.0]}).tolist() == [18]


def test_random_draws_in_static_graphs_are_of_their_line():
    x = pd.Variable([None])
    with pd.guard():
        u = pd.uniform_random([3])
    a, b = (pd.eval(x * u, {x: np.ones(3, f32)}) for _ in range(2))
    assert (a == b).all() and (a == u.numpy()).all()


def test_all_values_of_a_session_are_up_to_date(rng):
    norm, session = pd.nn.BatchNorm1d(), default_session()
    with pd.guard():
        for _ in range(2):
            norm(rng.random((6, 4), f32))
            values = session.values()
            assert all((values[v] == session.val(v)).all() for v in norm.buffers())
            assert values[norm.buffers()[0]].any()


def test_rows_written_in_place_do_not_change_earlier_lines():
    data = np.arange(12, dtype=f32).reshape(4, 3)
    table, rule = pd.Variable("t", data=data, row_sparse=True), pd.SGDOptimizer(0.1)
    with pd.guard():
        rows, lines = np.array([1, 2]), []
        for k in range(4):
            e, whole = pd.gather(table, rows) * 1.0, table * 1.0
            lines += [(e, table.numpy()[rows]), (whole, table.numpy())]
            loss = pd.reduce_sum(pd.gather(table, rows))
            if k % 2:
                loss.backward()
            rule.minimize(loss)
            table.clear_gradient()
        assert all((line.numpy() == value).all() for line, value in lines)
        assert np.allclose(table.numpy()[:, 0], [0, 2.6, 5.6, 9])


def test_a_value_that_was_set_is_there_for_reads_before_a_step():
    w, rule = pd.Variable(data=np.zeros(8, np.float32)), pd.SGDOptimizer(0.5)
    array = np.arange(8, dtype=np.float32)
    memory = ref(array)
    default_session().store.set(w, array, copy=False)  # it becomes the value
    del array
    held = []
    with pd.guard():
        for _ in range(12):  # of each value somebody holds a read, so that no buffer is used again
            held.append(w * 2.0)
            rule.minimize(pd.reduce_sum(w))
        gc.collect()
        assert memory() is not None
        for k, v in enumerate(held):
            np.testing.assert_array_equal(v.numpy(), 2.0 * np.arange(8) - k)
