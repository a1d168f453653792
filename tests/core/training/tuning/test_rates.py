"""A range test of learning rates: what it finds, and that all is as it was before."""

import random

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.training import ArrayReader
from pd_core.tuning import find_learning_rate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 4)).astype("float32")
Y = (X @ RNG.normal(size=(4, 1))).astype("float32")


class Net(nn.Module):
    def __init__(self):
        super().__init__("net")
        self.first, self.norm, self.drop = nn.FC(6), nn.BatchNorm1d(), nn.Dropout(0.3)
        self.last = nn.FC(1)

    def forward(self, x):
        return self.last(self.drop(pd.tanh(self.norm(self.first(x)))))


def linear(w=0.0):
    """A cost of one weight, with its feed slots and the weight."""
    x, y = pd.Variable([None, 1], name="x"), pd.Variable([None, 1], name="y")
    weight = pd.Variable("weight", data=np.full((1, 1), w, np.float32))
    return pd.reduce_mean(pd.square(x @ weight - y)), [x, y], weight


def ones():
    return ArrayReader(np.ones((4, 1)), np.ones((4, 1)), batch_size=4)


def state():
    values = pd.default_session().state()
    return {**values, "values": {name: a.tobytes() for name, a in values["values"].items()}}


def test_costs_are_those_of_a_training():
    """By hand: (w - 1)^2, w := w - rate 2 (w - 1)."""
    cost, inputs, _ = linear()
    found = find_learning_rate(
        cost, ones(), optimizer=pd.SGDOptimizer(0.3), inputs=inputs, highest=1e3, steps=30
    )
    w, costs = 0.0, []
    for rate in found.rates:
        costs.append((w - 1.0) ** 2)
        w -= rate * 2 * (w - 1.0)
    np.testing.assert_allclose(found.costs, costs, rtol=1e-4)
    assert np.allclose(found.rates, np.geomspace(1e-7, 1e3, 30)[: len(costs)])
    assert 2 < len(costs) < 30  # a rate above 1 diverges
    assert 0.001 < found.suggestion < 1.0 and f"{found.suggestion:.3g}" in repr(found)


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 0.9])
def test_the_average(smoothing):
    cost, inputs, _ = linear()
    found = find_learning_rate(
        cost, ones(), optimizer="sgd", inputs=inputs, steps=9, smoothing=smoothing
    )
    weights = [smoothing ** np.arange(k)[::-1] for k in range(1, len(found.costs) + 1)]
    means = [w @ found.costs[: len(w)] / w.sum() for w in weights]
    np.testing.assert_allclose(found.smoothed, means, rtol=1e-12)


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(
    "make",
    [lambda: pd.MomentumOptimizer(0.05), lambda: pd.AdamOptimizer(0.01)],
    ids=["sgd", "adam"],
)
def test_all_is_as_it_was_before(make, before):
    """The training that follows has the same bits, dropout and random order among them."""

    def run(finds):
        pd.reset(seed=3), random.seed(1), np.random.seed(1)
        net, optimizer = Net(), make()
        fitting = {"optimizer": optimizer, "loss": "mse", "verbose": False}
        if before:
            net.fit(X, Y, **fitting)
        if finds:
            was = state()
            find_learning_rate(net, X, Y, optimizer=optimizer, loss="mse", steps=12)
            assert state() == was
            assert list(net.parameters()) == [] or before
        history = net.fit(X, Y, epochs=2, **fitting)
        return history.cost, state(), random.random(), np.random.rand()

    assert run(True) == run(False)


def test_after_an_error_all_is_as_it_was():
    net = Net()
    was = state()

    def reader():
        yield X[:8], Y[:8]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        find_learning_rate(net, reader, optimizer="adam", loss="mse")
    assert state() == was and list(net.parameters()) == []


def test_groups_keep_their_ratio():
    """With a rate of 0 for all others, only the weight of a group moves."""
    cost, inputs, weight = linear()
    groups = [{"params": [weight], "learning_rate": 0.03}]
    alone = find_learning_rate(
        cost, ones(), optimizer=pd.SGDOptimizer(0.3), inputs=inputs, lowest=1e-3, steps=8
    )
    found = find_learning_rate(
        cost,
        ones(),
        optimizer=pd.SGDOptimizer(0.3, groups=groups),
        inputs=inputs,
        lowest=1e-2,
        highest=100.0,
        steps=8,
    )
    np.testing.assert_allclose(found.costs, alone.costs, rtol=1e-4)


def test_schedules_are_left_out():
    cost, inputs, _ = linear()
    rates = pd.schedules.ExponentialDecay(0.3, 1, every=0.5)
    options = {"inputs": inputs, "lowest": 1e-3, "steps": 8}
    found = find_learning_rate(cost, ones(), optimizer=pd.SGDOptimizer(rates), **options)
    plain = find_learning_rate(cost, ones(), optimizer=pd.SGDOptimizer(7.0), **options)
    np.testing.assert_allclose(found.costs, plain.costs, rtol=1e-5)
    optimizer = pd.SGDOptimizer(rates, groups=[{"params": "weight", "learning_rate": 0.1}])
    with pytest.raises(ValueError, match="find_learning_rate: groups have rates of their own"):
        find_learning_rate(cost, ones(), optimizer=optimizer, **options)


def test_a_cost_that_never_falls():
    cost, inputs, _ = linear(w=1.0)
    found = find_learning_rate(cost, ones(), optimizer="sgd", inputs=inputs, steps=5)
    assert found.suggestion is None and "suggestion none" in repr(found)


def test_a_cost_that_is_not_finite():
    cost, inputs, _ = linear(w=np.nan)
    found = find_learning_rate(cost, ones(), optimizer="sgd", inputs=inputs, steps=5)
    assert (len(found.costs), found.suggestion, repr(found)) == (0, None, "RateTest(no rates)")


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"lowest": 0.0}, ValueError, "rates grow from above 0, not from 0.0 to 10.0"),
        ({"lowest": 1.0, "highest": 0.1}, ValueError, "not from 1.0 to 0.1"),
        ({"steps": 1}, ValueError, "needs 2 steps or more, not 1"),
        ({"smoothing": 1.0}, ValueError, "the smoothing is from 0 to below 1, not 1.0"),
        ({"optimizer": "adan"}, ValueError, "there is no optimizer 'adan'"),
        ({"optimizer": None}, TypeError, "needs an optimizer, such as"),
        ({"optimizer": pd.SGDOptimizer(0.0)}, ValueError, "has the learning rate 0.0, not above 0"),
        ({"loss": None}, TypeError, "needs a loss, such as"),
        ({"model": 3}, TypeError, "takes a layer or a cost, not 3"),
        ({"inputs": []}, TypeError, "inputs are for a cost"),
    ],
)
def test_wrong_arguments(options, error, text):
    given = {"model": Net(), "x": X, "y": Y, "optimizer": "adam", "loss": "mse", **options}
    with pytest.raises(error, match=f"find_learning_rate: .*{text}"):
        find_learning_rate(given.pop("model"), given.pop("x"), given.pop("y"), **given)
    with pytest.raises(TypeError, match="there is no y and no loss"):
        find_learning_rate(linear()[0], ones(), Y, optimizer="sgd")
    pd.reset()
