"""Values at hand without a `with`: `enable_dynamic` and back."""

import asyncio
import threading

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.roles import Storage

ONES = np.ones((1, 3), np.float32)


@pytest.fixture(autouse=True)
def afterwards():
    yield
    pd.disable_dynamic()


def test_values_are_at_hand_until_it_is_disabled():
    pd.enable_dynamic()
    b = pd.to_variable(ONES)
    np.testing.assert_array_equal((b + 1).numpy(), ONES + 1)
    pd.disable_dynamic()
    pd.disable_dynamic()  # without effect
    with pytest.raises(pd.NotComputed, match="enable_dynamic"):
        (pd.constant(ONES) + 1).numpy()


def test_training_is_that_of_a_guard():
    def losses():
        pd.reset(seed=0)
        net, optimizer = pd.nn.FC(2, name="net"), pd.SGDOptimizer(0.1)
        for _ in range(3):
            loss = pd.reduce_mean(pd.square(net(ONES)))
            loss.backward()
            optimizer.minimize(loss)
            net.clear_gradients()
            yield float(loss)

    with pd.guard():
        expected = [*losses()]
    pd.enable_dynamic()
    assert [*losses()] == expected


def test_a_cell_may_run_again():
    """A layer of the same name takes the place of the former one."""
    pd.enable_dynamic()
    found = []
    for _ in range(2):
        pd.reset(seed=0)
        for _ in range(2):
            net = pd.nn.FC(2, name="net")
            found.append(net(ONES).numpy())
    for y in found[1:]:
        np.testing.assert_array_equal(y, found[0])


def test_reset_goes_on_with_the_new_session():
    pd.enable_dynamic()
    old = pd.default_session()
    pd.reset(seed=0)
    assert pd.default_session() is not old
    w = pd.Variable("w", data=ONES)
    (w * 2.0).numpy()
    assert pd.default_session().has(w)
    assert not old.has(w)


def drawn():
    """What a layer draws and a net begins with."""
    net, drop = pd.nn.FC(2, name="net"), pd.nn.Dropout(0.5, name="drop")
    return np.append(drop(np.ones(9, np.float32)).numpy(), net(ONES).numpy())


def test_reset_reaches_the_guard_around_it():
    pd.reset(seed=5)
    with pd.guard():
        want = drawn()
    with pd.guard():
        w = pd.Variable("w", data=ONES)
        kept, gone = w * 2.0, w * 3.0
        kept.numpy()
        for _ in range(2):
            pd.reset(seed=5)
            np.testing.assert_array_equal(drawn(), want)
        with pd.guard(), pd.no_grad():
            pd.reset(seed=5)
            np.testing.assert_array_equal(drawn(), want)
        session = pd.default_session()
        assert session.seed == 5
        np.testing.assert_array_equal(kept.numpy(), 2 * ONES)
        # what the collector has freed with the session
        vars(gone)["node"].inputs[0].__dict__["storage"] = Storage(state=lambda: None)
        with pytest.raises(pd.NotComputed, match=r"w: .*dropped before .*\n.*before pd\.reset"):
            gone.numpy()
    assert pd.default_session() is session


def test_reset_leaves_a_session_that_was_chosen_alone():
    with pd.Session(seed=3) as session, pd.guard():
        want = drawn()
        pd.reset(seed=5)
        assert pd.default_session() is session
    with pd.Session(seed=3), pd.guard():
        np.testing.assert_array_equal(drawn(), want)
    assert pd.default_session().seed == 5


def test_static_graphs_are_evaluated_as_well():
    pd.enable_dynamic()
    net, x = pd.nn.FC(2), pd.Variable([None, 3])
    at_hand = net(ONES).numpy()
    np.testing.assert_array_equal(pd.eval(net(x), {x: ONES}), at_hand)
    pd.disable_dynamic()
    np.testing.assert_array_equal(pd.eval(net(x), {x: ONES}), at_hand)


def test_a_guard_inside_has_its_own_values():
    pd.enable_dynamic()
    with pd.guard():
        for function in (pd.enable_dynamic, pd.disable_dynamic):
            with pytest.raises(pd.GraphError, match=f"{function.__name__}: called inside"):
                function()
        assert (pd.to_variable(ONES) + 1).numpy()[0, 0] == 2
    assert (pd.to_variable(ONES) + 1).numpy()[0, 0] == 2


def test_a_fresh_session_inside():
    pd.enable_dynamic()
    outside = pd.nn.FC(2, name="net")(ONES).numpy()
    with pd.fresh(seed=1):
        inside = pd.nn.FC(2, name="net")(ONES).numpy()
        with pd.guard():
            assert pd.default_session().seed == 1
    assert not np.array_equal(inside, outside)
    with pd.fresh(seed=1):
        np.testing.assert_array_equal(pd.nn.FC(2, name="net")(ONES).numpy(), inside)
    np.testing.assert_array_equal(pd.nn.FC(2, name="net")(ONES).numpy(), outside)


def test_a_session_inside_a_guard_has_its_own_values():
    """A trial of a search inside a program with values at hand: nothing of it is left outside."""
    with pd.guard():
        net, optimizer = pd.nn.FC(2, name="net"), pd.SGDOptimizer(0.1)
        outside = net(ONES).numpy()
        with pd.no_grad(), pd.Session(seed=7) as session:
            inside = net(ONES).numpy()
            assert not np.array_equal(inside, outside)
            assert session.has(net.W) and float(session.get(net.W)[0, 0]) != 0
        with pd.Session(seed=7):
            loss = pd.reduce_sum(net(ONES))
            loss.backward()
            optimizer.minimize(loss)
            assert not np.array_equal(net(ONES).numpy(), inside)
        np.testing.assert_array_equal(net(ONES).numpy(), outside)
    np.testing.assert_array_equal(session.eval(net(ONES)), inside)


def test_other_threads_build_static_graphs():
    pd.enable_dynamic()
    found = []

    def build():
        found.append((pd.constant(ONES) + 1).is_recorded)

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    assert found == [False]


def test_each_thread_enables_and_disables_its_own():
    """One that has ended left its own; disabling it elsewhere was an error."""
    found = []

    def work():
        pd.enable_dynamic()
        found.append((pd.to_variable(ONES) + 1).numpy()[0, 0])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [2]
    pd.disable_dynamic()  # without effect
    pd.enable_dynamic()
    assert (pd.to_variable(ONES) + 1).numpy()[0, 0] == 2


def test_a_task_enables_and_disables_for_itself():
    """Each asyncio task has its own setting, such as a notebook cell with an `await`."""

    async def one(function):
        function()
        return recorded()

    def recorded():
        return (pd.constant(ONES) + 1).is_recorded

    assert asyncio.run(one(pd.enable_dynamic))
    assert not recorded()
    pd.enable_dynamic()
    for _ in range(2):
        assert not asyncio.run(one(pd.disable_dynamic))
        assert recorded()
    pd.enable_dynamic()
    assert recorded()
    pd.disable_dynamic()
    assert not recorded()
