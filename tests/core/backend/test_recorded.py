"""Recorded runs: the same results as others, in every order of shapes, settings and failures.

The sessions here are of a CPU, which repeats nothing by itself but is driven in the same way.
"""

from dataclasses import replace

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import devices, recorded
from pd_core.graph.node import apply
from pd_core.run.programs import program_cache

f32 = np.float32


@pytest.fixture
def runs(monkeypatch):
    """The shapes of the feeds of recorded runs, where the CPU is a device that records."""
    monkeypatch.setattr(devices, "CPU", replace(devices.CPU, records=True))
    found, run = [], recorded._Run.__call__

    def counted(self, arrays):
        found.append(tuple(a.shape for a in arrays))
        run(self, arrays)

    monkeypatch.setattr(recorded._Run, "__call__", counted)
    return found


def network(dropout=0.0):
    x = pd.Variable("x", shape=[None, 4])
    w = pd.Variable("w", data=np.linspace(-1, 1, 8).reshape(4, 2))
    h = pd.dropout(x, dropout) if dropout else x
    loss = pd.reduce_mean(pd.square(h @ w))
    optimizer = pd.AdamOptimizer(0.1)
    return x, w, loss, optimizer, optimizer.minimize(loss)


def trained(sizes, dropout=0.0, between=None):
    """Losses and parameters of steps on batches of these sizes."""
    pd.reset(seed=0)
    x, w, loss, optimizer, step = network(dropout)
    doubled, session, losses, kept = x * 2.0, pd.Session(seed=3), [], []
    session.backend.can_resize = False  # as on a GPU
    program_cache(session.backend).clear()  # of programs that are recorded, or are not
    for k, n in enumerate(sizes):
        feed = np.random.default_rng(k).random((n, 4)).astype(f32)
        found = session.eval([loss, step, doubled], {x: feed}, training=True)
        losses.append(float(found[0]))
        kept.append((found[2], 2 * feed))
        if between is not None:
            between(k, session, w, optimizer)
    assert all(np.array_equal(a, b) for a, b in kept)  # results are the caller's
    return [*losses, *session.eval(w).ravel().tolist()]


def plain(*args, **kwargs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "CPU", replace(devices.CPU, records=False))
        return trained(*args, **kwargs)


ORDERS = {"equal": [3] * 20, "last is smaller": [3, 3, 3, 2] * 6, "many": [1, 2, 3, 4, 5, 6] * 8}


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("sizes", ORDERS.values(), ids=ORDERS)
def test_steps_are_those_that_are_not_recorded(sizes, dropout, runs):
    wanted = plain(sizes, dropout)
    assert not runs
    assert trained(sizes, dropout) == wanted
    assert runs


def test_values_and_rates_that_are_set_between(runs):
    def between(k, session, w, optimizer):
        if k in (9, 15):
            session.set(w, np.full((4, 2), 0.5, f32))
        if k == 12:
            optimizer.learning_rate = 0.01

    wanted = plain([3] * 24, between=between)
    assert trained([3] * 24, between=between) == wanted
    assert len(runs) >= 10


def test_a_program_that_cannot_be_recorded_runs_as_it_is(runs, monkeypatch):
    wanted, make = plain([3] * 12), recorded.Recorder.__init__

    def refused(sizes):
        raise RuntimeError("this session cannot use the graph capture feature")

    monkeypatch.setattr(recorded.Recorder, "__init__", lambda self, _: make(self, refused))
    assert trained([3] * 12) == wanted
    assert not runs


def test_a_run_that_fails_while_it_is_recorded_is_run_again(runs, monkeypatch):
    wanted, run = plain([3] * 12), recorded._Run.__call__
    failures = []

    def spoils(self, arrays):
        run(self, [a + 1 if a.dtype == f32 else a for a in arrays])  # other values are stored
        failures.append(1)
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(recorded._Run, "__call__", spoils)
    assert trained([3] * 12) == wanted
    assert failures == [1]  # and nothing is recorded for these sizes any more


@pytest.mark.parametrize("kind", ["stateful", "loop", "size by value", "large"])
def test_what_is_not_recorded(kind, runs, monkeypatch):
    x = pd.Variable("x", shape=[None, 4])
    if kind == "stateful":
        y = apply("RandomNormalLike", x)
    elif kind == "loop":
        y = pd.scan(lambda h, s: (h + s, h), np.zeros(4, f32), x)[0]
    elif kind == "size by value":
        y = pd.nonzero(x)
    else:
        y = x * 2.0
        monkeypatch.setattr(recorded, "_MOST", 8)
    session = pd.Session()
    for _ in range(8):
        session.eval(y, {x: np.ones((3, 4))})
    assert not runs
