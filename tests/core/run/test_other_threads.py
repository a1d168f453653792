"""Threads that have entered no session, beside one whose session has the values."""

import contextvars
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pd_core as pd

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def in_thread(function):
    """What a function returns in a thread that has entered no session."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


class Linear(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(1)

    def forward(self, x):
        return self.fc(x)


def trained():
    """A module that was trained in the session in force."""
    net = Linear()
    net.fit(X, X[:, :1], optimizer=pd.SGDOptimizer(0.01), loss="mse")
    return net


@pytest.fixture(params=[pd.fresh, pd.Session], ids=["fresh", "session"])
def block(request):
    with request.param(seed=3) as session:
        yield session


def test_values_of_another_session_are_asked_for(block):
    """They were initial values, silently."""
    net, x = trained(), pd.Variable([None, 3])
    y, expected = net(x), net.predict(X)
    for evaluate in (lambda: net.predict(X), lambda: pd.eval(y, {x: X}), lambda: net.fc.W.numpy()):
        with pytest.raises(
            pd.GraphError, match=r"W: its value is in Session.*has not entered\n.*wi"
        ):
            in_thread(evaluate)

    def inside():
        with block:
            return net.predict(X)

    context = contextvars.copy_context()
    for evaluate in (inside, lambda: context.run(net.predict, X), lambda: block.eval(y, {x: X})):
        np.testing.assert_array_equal(in_thread(evaluate), expected)


def test_threads_choose_other_sessions(block):
    net, x = trained(), pd.Variable([None, 3])
    y = net(x)
    other = pd.Session(seed=5)
    chosen = in_thread(lambda: other.eval(y, {x: X}))  # without a `with`

    def inside():
        with pd.Session(seed=5):
            return pd.eval(y, {x: X})

    np.testing.assert_array_equal(in_thread(inside), chosen)
    assert in_thread(lambda: pd.eval(pd.nn.FC(2)(X))).shape == (4, 2)  # values of its own


def test_pickles_that_other_threads_make_have_the_trained_values(block):
    """As joblib's do, which sends what processes work on."""
    net = trained()
    copy = pickle.loads(in_thread(lambda: pickle.dumps(net)))
    np.testing.assert_array_equal(copy.predict(X), net.predict(X))


def test_blocks_that_are_never_left_keep_no_session():
    from pd_core.run.entered import _open

    before = len(_open)

    def work():
        pd.Session().__enter__()
        pd.enable_dynamic()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with pd.fresh(), pd.guard():
        pd.reset()
    assert len(_open) == before
