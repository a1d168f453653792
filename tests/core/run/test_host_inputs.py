"""Supplied Variables: feeds that the host computes before an evaluation."""

import gc
from weakref import ref

import numpy as np
import pytest

import pd_core as pd
from pd_core.run import host_inputs, observers
from pd_core.run.host_inputs import supply_by


@pytest.fixture(autouse=True)
def no_host_inputs_later():
    """Evaluations of other tests need not look for host inputs."""
    yield
    host_inputs.in_use.clear()


class Doubled:
    """Supplies twice the value of another Variable, and counts its calls."""

    def __init__(self, source, name="doubled"):
        self.source, self.name, self.calls = source, name, 0
        self.slot = supply_by(self, pd.Variable(list(source.shape)))

    def sources(self, wanted):
        assert wanted == [self.slot]
        return [self.source]

    def supply(self, session, wanted, arrays):
        self.calls += 1
        return {self.slot: 2 * arrays[self.source]}


def test_from_a_feed():
    x = pd.Variable([None])
    twice = Doubled(x)
    np.testing.assert_array_equal(pd.eval(twice.slot + x, {x: [1.0, 2.0]}), [3, 6])
    np.testing.assert_array_equal(pd.eval(twice.slot * 1.0, {twice.slot: [1.0]}), [1])
    pd.eval(x * 1.0, {x: [1.0]})
    assert twice.calls == 1


def test_from_what_is_computed_and_supplied():
    """In a training step from the values before it."""
    x = pd.Variable([None])
    w = pd.Variable("w", data=[1.0, 1.0])
    twice = Doubled(x * w, "b")
    fourfold = Doubled(twice.slot + 0.0, "a")  # its name is the first, but it needs the other
    step = pd.SGDOptimizer(0.5).minimize(pd.reduce_sum(fourfold.slot * w))
    y, _ = pd.eval([fourfold.slot * w, step], {x: [1.0, 2.0]})
    np.testing.assert_array_equal(y, [4, 8])
    np.testing.assert_array_equal(w.val(), [-1, -3])
    np.testing.assert_array_equal(pd.eval(fourfold.slot * w, {x: [1.0, 2.0]}), [4, 72])


def test_only_the_side_of_the_mode():
    x = pd.Variable([None])
    twice = Doubled(x)
    y = pd.mode_switch(twice.slot * 1.0, x * 1.0)
    pd.eval(y, {x: [1.0]})
    assert twice.calls == 0
    np.testing.assert_array_equal(pd.eval(y, {x: [1.0]}, training=True), [2])


def test_random_draws_are_the_same_and_count_once():
    draw = pd.dropout(pd.Variable(data=np.ones(64)), 0.5)
    twice = Doubled(draw)
    both, alone = [draw, twice.slot * 1.0], twice.slot * 1.0
    with pd.Session(seed=5):
        expected = [pd.eval(draw, training=True) for _ in range(3)]
    with pd.Session(seed=5):
        first, doubled = pd.eval(both, training=True)
        np.testing.assert_array_equal(doubled, 2 * first)
        np.testing.assert_array_equal(first, expected[0])
        np.testing.assert_array_equal(pd.eval(alone, training=True), 2 * expected[1])
        np.testing.assert_array_equal(pd.eval(draw, training=True), expected[2])


def test_an_error_leaves_the_session_as_it_was():
    x = pd.Variable([None])
    twice = Doubled(pd.dropout(x, 0.5))
    target = twice.slot + pd.dropout(x, 0.5)
    with pd.Session(seed=5) as session:
        before = dict(session.draws)
        with pytest.raises(pd.FeedError, match="which is not fed"):
            session.eval(target, training=True)
        assert dict(session.draws) == before


def test_a_graph_without_other_references_is_freed():
    x = pd.Variable([None])
    twice = Doubled(x)
    y = twice.slot * 3.0
    pd.eval(y, {x: [1.0]})
    node = ref(y.node)
    del y
    gc.collect()
    assert node() is None


def test_graphs_without_any_are_not_searched(monkeypatch):
    monkeypatch.setattr(observers, "in_use", [])
    monkeypatch.setattr(host_inputs, "Needs", None)
    x = pd.Variable([None])
    np.testing.assert_array_equal(pd.eval(x * 2.0, {x: [1.0]}), [2])
