"""Guards of several threads on one session."""

import sys

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic.state import current_state
from pd_core.run.session import default_session

from ...threads import in_threads

f32 = np.float32


@pytest.fixture(autouse=True)
def switching():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_networks_train_beside_each_other(rng):
    samples = rng.random((6, 4), f32)
    final = {}
    for together in (False, True):
        pd.reset(seed=0)
        nets = [
            pd.nn.Sequential(*[pd.nn.BatchNorm1d() for _ in range(4)], pd.nn.FC(1), name=f"n{k}")
            for k in range(3)
        ]

        def train(k, nets=nets):
            rule = pd.SGDOptimizer(0.1)
            with pd.guard():
                for step in range(20):
                    loss = pd.reduce_mean(pd.square(nets[k](samples) - 1.0))
                    if step % 2:
                        loss.backward()
                    rule.minimize(loss)
                    nets[k].clear_gradients()
            return nets[k].state_dict()

        final[together] = in_threads(train, range(3)) if together else [train(k) for k in range(3)]
    for k in range(3):
        for name, value in final[False][k].items():
            assert np.allclose(value, final[True][k][name], atol=1e-6), (k, name)


def test_threads_that_begin_at_once_share_a_state():
    for _ in range(100):
        pd.reset()
        first, *others = in_threads(lambda _: current_state(), range(3)).values()
        assert all(state is first for state in others)


def test_no_two_draws_are_the_same():
    def draw(_):
        with pd.guard():
            return [pd.uniform_random([8]).numpy().tobytes() for _ in range(100)]

    drawn = in_threads(draw, range(3))
    assert len({each for k in drawn for each in drawn[k]}) == 300


def test_a_parameter_changes_while_others_read_it():
    w = pd.Variable("w", data=np.zeros(50, f32))
    session = default_session()

    def work(k):
        if k == 0:
            for value in range(200):
                session.set(w, np.full(50, value, f32))
            return []
        with pd.guard():
            return [(w * 1.0 + w * 0.0).numpy() for _ in range(100)]

    values = in_threads(work, range(3))
    for k in (1, 2):
        assert all((v == v[0]).all() for v in values[k])  # never a mixture
        assert all(a[0] <= b[0] for a, b in zip(values[k], values[k][1:], strict=False))


def test_a_guard_is_of_its_thread():
    w = pd.Variable("w", data=f32(2))
    with pd.guard():
        assert in_threads(lambda _: (w * 2.0).is_recorded, [0]) == {0: False}
        y = w * 2.0
    assert in_threads(lambda _: float(y), [0]) == {0: 4}
