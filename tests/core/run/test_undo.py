"""Undo: values, seeds and draws of sessions go back to what they were."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.initializers import Constant, Uniform
from pd_core.run.undo import Undo

f32 = np.float32
DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


class Stopped(BaseException):
    """Such as Ctrl-C."""


def stop():
    raise Stopped


@DEVICES
def test_everything_goes_back(device):
    with pd.fresh(seed=3, device=device) as session:
        w, u = (
            pd.Variable("w", shape=[2], initializer=Constant(1.0)),
            pd.Variable("u", shape=[2], initializer=Constant(2.0)),
        )
        noise = pd.gaussian_random([2])
        session.eval([w * 2.0, noise])
        before = session.state()
        with pytest.raises(Stopped), Undo(session):
            session.set(w, [5, 6])
            session.set(w, [7, 8])
            session.set(u, [7, 8])
            session.seed = 4
            session.eval(noise)
            session.store.waiting["v"] = np.zeros(3, f32)
            stop()
        np.testing.assert_equal(session.state(), before)
        assert not session.has(u) and session.has(w)
        assert session.eval(w + u).tolist() == [3, 3]


@DEVICES
def test_steps_go_on_after_it(device):
    """The buffers of a program are those of before; values that are gone are drawn again."""
    with pd.fresh(device=device) as session:
        w = pd.Variable("w", shape=[2], initializer=Uniform())
        first = session.get(w) if device == "cpu" else None
        step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(w * w))
        session.eval(step), session.eval(step)
        expected = session.get(w) * f32(0.8)
        with pytest.raises(Stopped), Undo(session):
            session.set(w, [5, 6])
            session.eval(step), session.eval(step)
            stop()
        session.eval(step)
        np.testing.assert_allclose(session.get(w), expected, rtol=1e-6)
        assert first is None or not (session.get(w) == first).any()
        v = pd.Variable("v", shape=[2], initializer=Constant(3.0))
        with pytest.raises(Stopped), Undo(session):
            session.set(v, [5, 6])
            session.eval(v * w)
            stop()
        np.testing.assert_allclose(session.eval(v * w), 3 * expected, rtol=1e-6)


def test_in_a_dynamic_graph():
    w = pd.Variable("w", shape=[2], initializer=Constant(1.0))
    session = pd.default_session()
    with pd.guard():
        with pytest.raises(Stopped), Undo(session):
            session.set(w, [5, 6])
            inside = w * 1.0
            assert (w * 2.0).numpy().tolist() == [10, 12]
            stop()
        assert inside.numpy().tolist() == [5, 6]
        assert (w * 2.0).numpy().tolist() == [2, 2]


def test_later_and_only_once():
    session = pd.default_session()
    w = pd.Variable("w", shape=[2], initializer=Constant(1.0))
    session.get(w)
    with Undo(session) as undo:
        session.set(w, [5, 6])
    assert session.get(w).tolist() == [5, 6]
    undo.run(ValueError())
    assert session.get(w).tolist() == [1, 1]
    session.set(w, [7, 8])
    undo.run(ValueError())
    assert session.get(w).tolist() == [7, 8]


def test_functions_are_called_the_last_one_first():
    called, error = [], ValueError("a reason")
    with pytest.raises(ValueError, match="a reason"), Undo() as undo:
        undo.add(lambda: called.append("first"))
        undo.add(lambda: 1 / 0)
        undo.add(lambda: called.append("last"))
        raise error
    assert called == ["last", "first"]
    assert error.__notes__ == [
        "  then, as this was taken back: ZeroDivisionError('division by zero')"
    ]


class Until(dict):
    """A dict that stops after some items."""

    def items(self):
        yield from list(super().items())[:-1]
        stop()


def test_values_are_loaded_all_or_none():
    w, v = (pd.Variable(name, shape=[2], initializer=Constant(1.0)) for name in "wv")
    session = pd.default_session()
    session.store.initialize([w, v])
    with pytest.raises(pd.ShapeError, match=r"v: fed an array of \[3\], it is float32\[2\]"):
        session.load_values({w: [5, 6], v: [5, 6, 7]})
    with pytest.raises(Stopped):
        session.load_values(Until({w: [5, 6], v: [7, 8]}))
    assert session.get(w).tolist() == [1, 1]
