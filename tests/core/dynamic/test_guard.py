"""Blocks: where recording begins and ends."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.recording import recorder
from pd_core.run.session import default_session

f32 = np.float32


def test_blocks_of_generators_may_end_in_any_order():
    w, session = pd.Variable("w", data=f32(3)), pd.Session()
    outside = default_session()

    def numbers(k):
        with session if k == 2 else outside, pd.guard(), pd.no_grad():
            for i in range(3):
                yield float(w * f32(k * i))

    rows = list(zip(numbers(1), numbers(2), strict=False))
    assert rows == [(0, 0), (3, 6), (6, 12)]
    assert recorder() is None and default_session() is outside
    a, b, c = numbers(1), numbers(2), numbers(3)
    for each in (a, b, c):
        next(each)
    for each in (b, c, a):
        each.close()
        assert (recorder() is None) == (each is a)
    assert default_session() is outside


def test_one_guard_may_be_entered_again():
    guard = pd.guard()
    with guard:
        with guard:
            x = pd.to_variable(f32(1))
        assert float(x * 2.0) == 2
    assert recorder() is None


def test_blocks_end_with_errors():
    net = pd.nn.FC(3)
    for block in (pd.guard, pd.no_grad):
        with pd.guard(), pytest.raises(ValueError, match="mine"), block():
            net(np.ones((2, 3), f32))
            raise ValueError("mine")
        assert recorder() is None
    with pd.guard():
        for _ in range(3):
            with pytest.raises(pd.ShapeError):
                pd.matmul(np.ones((2, 3), f32), np.ones((2, 3), f32))
        pd.reduce_sum(net(np.ones((2, 3), f32))).backward()
        assert net.parameters()[0].gradient().sum() == 18


def test_guards_of_several_sessions_nest():
    w, session = pd.Variable("w", data=f32(3)), pd.Session()
    session.set(w, f32(5))
    with pd.guard():
        a = w * 2.0
        with session, pd.guard():
            b = w * 2.0
            c = a + b
            with pd.guard():
                d = c * w
            assert float(d) == 80
        e = d + w
        assert [float(v) for v in (a, b, c, e)] == [6, 10, 16, 83]


def test_a_function_without_gradients():
    w = pd.Variable("w", data=f32(2))

    @pd.no_grad()
    def double():
        return w * 2.0

    with pd.guard():
        assert double().stop_gradient and not (w * 2.0).stop_gradient
    with pytest.raises(pd.GraphError, match="no_grad: there are values only inside"):
        double()
