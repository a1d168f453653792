"""Lookahead around other optimizers, against algorithm 1 of Zhang et al. in NumPy."""

import copy
import pickle

import numpy as np
import pytest

import pd_core as pd

from .test_adaptive import CASES as RULES
from .test_adaptive import trajectory

X = np.linspace(-1.0, 2.0, 24, dtype=np.float32).reshape(8, 3)
Y = np.linspace(1.0, -1.0, 8, dtype=np.float32).reshape(8, 1)
START = {"w": [[0.5], [-1.0], [0.25]], "b": [0.75]}


@pytest.mark.parametrize("name", ["adamw", "nadam", "rmsprop_centered", "lamb", "muon"])
def test_fifty_steps_equal_float64_numpy(name):
    make, rule = RULES[name]
    w, gradient, found = trajectory(pd.Lookahead(make(), k=4, alpha=0.3))
    slow, slots = w, dict.fromkeys("smev", 0.0)
    for t, got in enumerate(found, 1):
        w = rule(w, gradient(w), t, slots)
        if t % 4 == 0:
            w = slow = slow + 0.3 * (w - slow)
        assert np.allclose(got, w, rtol=2e-4, atol=2e-5), t


def parameters():
    return [pd.Variable(name, data=np.array(value)) for name, value in START.items()]


def cost_of(x, y, w, b):
    return pd.reduce_mean(pd.square(x @ w + b - y))


def expected(steps, rates=lambda t: (0.1, 0.05), k=3, alpha=0.5):
    """Momentum with Lookahead in NumPy: the parameters after the steps; rates of w and of b."""
    fast = [np.array(value) for value in START.values()]
    slow, velocity = list(fast), [0.0, 0.0]
    for t in range(1, steps + 1):
        error = 2 * (X @ fast[0] + fast[1] - Y) / len(X)
        for n, g in enumerate((X.T @ error, error.sum(0))):
            velocity[n] = 0.9 * velocity[n] - rates(t)[n] * g
            fast[n] = fast[n] + velocity[n]
            if t % k == 0:
                fast[n] = slow[n] = slow[n] + alpha * (fast[n] - slow[n])
    return fast


def lookahead(rate=0.1, **options):
    groups = [{"params": "^b", "learning_rate": 0.05}]
    return pd.Lookahead(pd.MomentumOptimizer(rate, groups=groups, **options), k=3)


def check(weights, steps, **options):
    for w, value in zip(weights, expected(steps, **options), strict=True):
        np.testing.assert_allclose(w.val(), value, rtol=2e-5, atol=1e-6)


def test_groups_and_accumulated_gradients_in_a_static_graph():
    weights, x, y = parameters(), pd.Variable([None, 3]), pd.Variable([None, 1])
    step = lookahead(accumulate=2).minimize(cost_of(x, y, *weights))
    for t in range(1, 9):
        for rows in (slice(4), slice(4, 8)):
            pd.eval(step, {x: X[rows], y: Y[rows]})
        check(weights, t)


def test_a_schedule():
    weights = parameters()
    schedule = pd.schedules.Piecewise((4,), (0.1, 0.02))
    step = lookahead(schedule).minimize(cost_of(X, Y, *weights))
    for _ in range(7):
        pd.eval(step)
    check(weights, 7, rates=lambda t: (0.1 if t <= 5 else 0.02, 0.05))


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_go_on_inside_a_guard(copier):
    weights, optimizer = parameters(), lookahead()
    with pd.guard():
        for _ in range(8):
            optimizer.minimize(cost_of(X, Y, *weights))
            optimizer = copier(optimizer)
    check(weights, 8)
    assert {"w/velocity", "w/lead", "fast"} <= optimizer.state().keys()
    slow = weights[0].val() - optimizer.state()["w/lead"]  # those after step 6
    np.testing.assert_allclose(slow, expected(6)[0], rtol=2e-5, atol=1e-6)


def test_a_state_is_loaded():
    weights, optimizer, other = parameters(), lookahead(), lookahead()
    with pd.guard():
        for _ in range(4):
            optimizer.minimize(cost_of(X, Y, *weights))
        other.load_state(optimizer.state())
        for _ in range(4):
            other.minimize(cost_of(X, Y, *weights))
    check(weights, 8)


def test_it_goes_on_from_the_steps_of_its_optimizer():
    weights = parameters()
    momentum = pd.MomentumOptimizer(0.1, groups=[{"params": "^b", "learning_rate": 0.05}])
    with pd.guard():
        momentum.minimize(cost_of(X, Y, *weights))
        optimizer = pd.Lookahead(momentum, k=1, alpha=1.0)
        for _ in range(3):
            optimizer.minimize(cost_of(X, Y, *weights))
    check(weights, 4, alpha=1.0)


def test_settings_that_change():
    weights, optimizer = parameters(), lookahead()
    step = optimizer.minimize(cost_of(X, Y, *weights))
    for t in range(1, 8):
        pd.eval(step)
        if t == 4:
            optimizer.learning_rate = 0.02
    check(weights, 7, rates=lambda t: (0.1 if t <= 4 else 0.02, 0.05))
    before = weights[0].val() - optimizer.state()["w/lead"]
    pd.eval(step)
    optimizer.alpha = 0.0  # the slow weights stay
    pd.eval(step)
    np.testing.assert_allclose(weights[0].val(), before, rtol=1e-5)
    with pytest.raises(AttributeError, match="Lookahead: k=3 is a part of the update that"):
        optimizer.k = 5


class Net(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = pd.nn.FC(1)

    def forward(self, x):
        return self.line(x)


def test_in_fit():
    net, optimizer = Net(), pd.Lookahead(pd.MomentumOptimizer(0.05), k=3)
    net(pd.Variable([None, 3]))
    for w, value in zip(net.parameters(), START.values(), strict=True):
        pd.default_session().set(w, np.array(value, np.float32))
    settings = {"optimizer": optimizer, "loss": pd.nn.MSE(), "batch_size": 8, "shuffle": False}
    for _ in range(2):
        net.fit(X, Y, epochs=4, **settings)
    check(net.parameters(), 8, rates=lambda t: (0.05, 0.05))


def test_what_is_refused():
    with pytest.raises(TypeError, match="Lookahead: takes an optimizer with steps of its own, not"):
        pd.Lookahead(pd.Lookahead(pd.SGDOptimizer()))
    with pytest.raises(TypeError, match=r"Lookahead: takes an optimizer .*, not 0\.1"):
        pd.Lookahead(0.1)
    with pytest.raises(TypeError, match=r"Lookahead: k is an integer, not 2\.5"):
        pd.Lookahead(pd.SGDOptimizer(), k=2.5)
    for k in (0, True):
        with pytest.raises(ValueError, match=f"k is a number of steps, 1 or more, not {k}"):
            pd.Lookahead(pd.SGDOptimizer(), k=k)
    for alpha in (0, 1.5):
        with pytest.raises(ValueError, match=f"alpha is above 0 and at most 1, not {alpha}"):
            pd.Lookahead(pd.SGDOptimizer(), alpha=alpha)
