"""Gradients of steps that nobody reads are not fetched, and whoever reads one gets it all the same.

Random loops are compared with the same where no step has a pattern: each fetches its gradients.

`PD_RANDOM_LOOPS` is the number of loops, 4 by default.
"""

import gc
import os

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic.pattern import Patterns
from pd_core.dynamic.state import current_state
from pd_core.dynamic.trace import Trace

COUNT = int(os.environ.get("PD_RANDOM_LOOPS", "4"))
X = np.random.default_rng(0).random((4, 3), np.float32)


@pytest.fixture
def parts():
    return (
        pd.nn.Sequential(pd.nn.FC(5, "tanh"), pd.nn.FC(2)),
        pd.MomentumOptimizer(0.1, 0.9),
    )


def stepped(net, optimizer, x=X):
    """The cost of a step."""
    loss = pd.reduce_mean(pd.square(net(x)))
    loss.backward()
    optimizer.minimize(loss)
    return loss


def without_patterns(patch):
    """Let every step fetch its gradients."""
    patch.setattr(
        Patterns, "traced", lambda self, targets, state, through: Trace(targets, state, through)
    )


# ---- what is fetched


def test_a_loop_that_clears_its_gradients_computes_none(parts):
    net, optimizer = parts
    with pd.guard():
        for k in range(4):
            before = pd.stats()
            loss = stepped(net, optimizer)
            net.clear_gradients()
            after = pd.stats()
            assert after["evaluations"] - before["evaluations"] == 1
            assert after["fetched"] - before["fetched"] == 1  # the cost
            assert k == 0 or after["compiled"] == before["compiled"]
        assert all(w.gradient() is None for w in net.parameters())
        assert pd.stats()["evaluations"] == after["evaluations"]
        assert loss.gradient() == 1.0


def test_a_loop_that_reads_them_fetches_them_with_the_step(parts):
    net, optimizer = parts
    with pd.guard():
        for k in range(5):
            before = pd.stats()["evaluations"]
            stepped(net, optimizer)
            gradients = [w.gradient() for w in net.parameters()]
            net.clear_gradients()
            assert pd.stats()["evaluations"] - before == (1 if k else 2)
    assert all(np.any(g) for g in gradients)


def test_steps_of_other_parameters_leave_them(parts):
    net, optimizer = parts
    other, second = pd.nn.FC(2), pd.SGDOptimizer(0.1)
    with pd.guard():
        for _ in range(3):
            stepped(net, optimizer)
            before = pd.stats()["evaluations"]
            stepped(other, second)
            assert pd.stats()["evaluations"] - before == 1
            net.clear_gradients()
            other.clear_gradients()


# ---- what they are computed from


def test_they_are_those_of_the_values_before_the_step():
    w = pd.Variable("w", data=[3.0, -1.0])
    with pd.guard():
        for k in range(3):
            pd.assign(w, np.float32([3 + k, -1]))
            loss = pd.reduce_sum(w * w)
            loss.backward()
            pd.SGDOptimizer(0.5).minimize(loss)
            assert w.gradient().tolist() == [6 + 2 * k, -2] and w.numpy().tolist() == [0, 0]
            w.clear_gradient()


def test_a_read_in_use_keeps_its_value_for_them():
    w = pd.Variable("w", data=[3.0, -1.0])
    optimizer = pd.SGDOptimizer(0.5)
    with pd.guard():
        later = w * 10.0  # its value goes to this line, and is the one before the step
        loss = pd.reduce_sum(w * w)
        loss.backward()
        optimizer.minimize(loss)
        assert w.gradient().tolist() == [6, -2] and later.numpy().tolist() == [30, -10]


def test_arrays_that_are_changed_later_do_not_change_them(parts):
    net, optimizer = parts
    with pd.guard():
        x = X.copy()
        stepped(net, optimizer, x)
        x[...] = 0
        gradients = [w.gradient() for w in net.parameters()]
    assert np.any(gradients[0])


@pytest.mark.parametrize("change", ["set", "static step", "load", "several steps"])
def test_a_change_of_a_parameter_comes_after_them(change, parts, monkeypatch):
    feed, weight = pd.Variable("feed", shape=[None, 2]), pd.Variable("v", data=[[1.0], [2.0]])
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(feed @ weight))
    changes = {
        "set": lambda: pd.eval(pd.assign(weight, np.zeros((2, 1), "f"))),
        "static step": lambda: pd.eval(step, {feed: np.ones((3, 2), "f")}),
        "load": lambda: current_state().session.load_values({weight: np.zeros((2, 1), "f")}),
        "several steps": lambda: pd.run_steps(step, {feed: np.ones((2, 3, 2), "f")}),
    }
    optimizer = pd.SGDOptimizer(0.1)
    with pd.guard():
        loss = pd.reduce_sum(pd.square(pd.to_variable(np.ones((1, 2), "f")) @ weight))
        loss.backward()
        optimizer.minimize(loss)
    changes[change]()
    with pd.guard():
        assert weight.gradient().tolist() == [[6.0], [6.0]]


def test_a_parameter_of_a_net_that_is_gone_has_its_own(parts):
    net, optimizer = parts
    with pd.guard():
        stepped(net, optimizer)
        weight = net.parameters()[0]
        del net, parts
        gc.collect()
        assert np.any(weight.gradient())


def test_an_output_has_its_own_when_the_net_is_gone():
    with pd.guard():
        out = pd.nn.FC(2)(X)
        loss = pd.reduce_mean(pd.square(out))
        loss.backward()
        pd.SGDOptimizer(0.1).minimize(loss)
        gc.collect()
        np.testing.assert_allclose(out.gradient(), out.numpy() / 4, rtol=1e-5)
        assert loss.gradient() == 1.0


def test_a_net_that_is_gone_is_freed(parts):
    with pd.guard():
        stepped(pd.nn.FC(2, name="gone"), pd.SGDOptimizer(0.1))
        gc.collect()
        assert not [v for v in current_state().session.values() if v.name.startswith("gone")]


# ---- random loops


def loop(seed):
    """What a random loop has seen."""
    rng = np.random.default_rng(seed)
    pd.reset(seed=1)
    net = pd.nn.Sequential(pd.nn.FC(4, "tanh"), pd.nn.FC(3), name="net")
    other = pd.nn.FC(3, name="other")
    optimizers = [pd.MomentumOptimizer(0.1, 0.9), pd.AdamOptimizer(0.05), pd.SGDOptimizer(0.1)]
    seen, held = [], []

    def chance(p):
        return rng.random() < p

    def gradients(variables):
        found = [v.gradient() for v in variables]
        seen.extend(np.zeros(1, "f") if g is None else g for g in found)

    feed = pd.Variable("feed", shape=[None, 3])
    with pd.guard():
        net(X), other(X)
    parameters = [*net.parameters(), *other.parameters()]
    static = pd.SGDOptimizer(0.05).minimize(pd.reduce_mean(pd.square(net(feed))))
    with pd.guard():
        for _ in range(9):
            x = rng.random((int(rng.integers(2, 4)), 3), np.float32)
            out = net(x)
            if chance(0.3):
                out = out * other(x)
            if chance(0.2):
                held.append(out)
            loss = pd.reduce_mean(pd.square(out))
            before = net.parameters()[0] * 2.0 if chance(0.2) else None
            if chance(0.85):
                loss.backward()
                x[...] = 0
                if chance(0.2):
                    gradients(parameters)
            chosen = [v for v in parameters if chance(0.7)] if chance(0.2) else None
            try:
                optimizers[int(rng.integers(3) if chance(0.2) else 0)].minimize(loss, chosen)
            except pd.GraphError as error:
                seen.append(np.float32(len(str(error)) > 0))
            if chance(0.15):
                v = parameters[int(rng.integers(len(parameters)))]
                v.trainable = not v.trainable
            if chance(0.15):
                v = parameters[int(rng.integers(len(parameters)))]
                pd.assign(v, rng.random(v.shape, np.float32))
            if chance(0.15):
                pd.eval(static, {feed: X})
            if chance(0.1):
                pd.run_steps(static, {feed: X[None].repeat(2, 0)})
            if chance(0.3):
                gradients([*parameters, *held, loss, out])
            if before is not None and chance(0.7):
                seen.append(before.numpy())
            if chance(0.6):
                net.clear_gradients()
            if chance(0.4):
                other.clear_gradients()
            elif chance(0.3):
                parameters[int(rng.integers(len(parameters)))].clear_gradient()
            if chance(0.5):
                seen.append(loss.numpy())
            if held and chance(0.2):
                held.pop().clear_gradient()
        gradients([*parameters, *held])
        seen.extend(v.numpy() for v in [*parameters, *held])
    return seen


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_loop(seed, monkeypatch):
    found = loop(seed)
    with monkeypatch.context() as patch:
        without_patterns(patch)
        wanted = loop(seed)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
