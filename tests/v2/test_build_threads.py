"""Networks that several threads describe, train and ask at the same time."""

import sys

import numpy as np
import pytest

import pd_v2 as paddle

from ..threads import in_threads

A, L, T = paddle.activation, paddle.layer, paddle.data_type


@pytest.fixture
def changing_places():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def group(k, n):
    """The running sum of a sequence, as a group of its own."""
    x = L.data(name=f"x{k}-{n}", type=T.dense_vector_sequence(1))

    def step(value):
        last = L.memory(name=f"h{k}-{n}", size=1)
        return L.addto([value, last], A.Linear(), name=f"h{k}-{n}")

    return L.recurrent_group(step=step, input=x, name=f"g{k}-{n}")


def test_threads_of_one_process(changing_places):
    build = paddle.build._process
    token = paddle.build._current.set(build)

    def work(k):
        for n in range(5):
            total = L.last_seq(group(k, n))
            cost = L.sum_cost(L.fc(total, 1))
            pool = paddle.parameters.create(cost)
            sgd = paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam(learning_rate=0.0))
            sgd.train(lambda: iter([[([[1.0]] * 3,), ([[2.0]],)]]))
            found = paddle.infer(total, pool, [([[1.0]] * 3,), ([[2.0]],)])
            np.testing.assert_array_equal(found, [[3.0], [2.0]])

    try:
        in_threads(work, range(4))
    finally:
        paddle.build._current.reset(token)


def test_every_thread_describes_a_network_of_its_own(changing_places):
    """The same names in all of them: a server that describes its network for each request."""
    build = paddle.build._process
    token = paddle.build._current.set(build)

    def described(k):
        x = L.data(name="x", type=T.dense_vector(2))
        return L.fc(L.fc(x, 3), 1, act=A.Linear())

    y = described(0)
    pool = paddle.parameters.create(y)
    expected = paddle.infer(y, pool, [([1.0, 2.0],)])

    def work(k):
        paddle.build._current.set(build)
        for _ in range(5):
            again = described(k)
            assert again.name == y.name
            np.testing.assert_array_equal(paddle.infer(again, pool, [([1.0, 2.0],)]), expected)

    try:
        in_threads(work, range(4))
    finally:
        paddle.build._current.reset(token)
