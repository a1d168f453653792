"""Random draws of recorded lines."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def network():
    layers = [pd.nn.FC(6), pd.nn.Dropout(0.3), pd.nn.FC(5, act="tanh"), pd.nn.Dropout(0.5)]
    return pd.nn.Sequential(*layers, pd.nn.FC(1), name="net")


@pytest.mark.parametrize("way", ["backward", "looked at", "fused"])
def test_steps_are_those_of_the_static_graph(way, rng):
    batches = [rng.random((7, 3), f32) for _ in range(5)]
    pd.reset(seed=3)
    net, x = network(), pd.Variable([None, 3])
    cost = pd.reduce_mean(pd.square(net(x) - 1.0))
    step = pd.AdamOptimizer(0.05).minimize(cost)
    want = [pd.eval([cost, step], {x: batch})[0] for batch in batches], net.state_dict()
    pd.reset(seed=3)
    net, rule, costs = network(), pd.AdamOptimizer(0.05), []
    with pd.guard():
        for batch in batches:
            cost = pd.reduce_mean(pd.square(net(batch) - 1.0))
            if way == "looked at":
                cost.numpy()
            if way != "fused":
                cost.backward()
            rule.minimize(cost)
            net.clear_gradients()
            costs.append(float(cost))
    assert np.allclose(costs, want[0], atol=1e-6)
    assert all(np.allclose(v, want[1][k], atol=1e-5) for k, v in net.state_dict().items())


def test_calls_differ_and_seeds_repeat():
    def drawn():
        pd.reset(seed=9)
        with pd.guard():
            net = network()
            return [net(np.ones((4, 3), f32)).numpy() for _ in range(3)]

    a, b = drawn(), drawn()
    assert all((x == y).all() for x, y in zip(a, b, strict=True))
    assert (a[0] != a[1]).any() and (a[1] != a[2]).any()


@pytest.mark.parametrize("looked", [False, True])
def test_backward_has_the_mask_of_forward(looked):
    w = pd.Variable(data=np.ones(50, f32))
    with pd.guard():
        y = pd.dropout(w * 1.0, 0.5)
        if looked:
            y.numpy()
        pd.reduce_sum(y).backward(retain_graph=True)
        pd.reduce_sum(y * 1.0).backward()
        assert (w.gradient() == 2 * y.numpy()).all() and 0 < np.count_nonzero(y.numpy()) < 50


def test_second_derivatives_have_the_mask_of_forward():
    with pd.guard():
        x = pd.to_variable(np.linspace(1, 2, 50).astype(f32))
        x.stop_gradient = False
        y = pd.dropout(x * x * x, 0.5)
        (g,) = pd.gradients(pd.reduce_sum(y), [x])
        pd.reduce_sum(g).backward()
        mask = y.numpy() / x.numpy() ** 3
        assert np.allclose(g.numpy(), 3 * mask * x.numpy() ** 2, rtol=1e-4)
        assert np.allclose(x.gradient(), 6 * mask * x.numpy(), rtol=1e-4)


class Noisy(pd.SGDOptimizer):
    """Adds a draw to the parameter in each step."""

    def rule(self, w, g, slots, rate, step):
        return w + pd.uniform_random([2]), {}


def test_what_an_optimizer_draws_differs_from_step_to_step():
    w, optimizer = pd.Variable("w", data=[0.0, 0.0]), Noisy(1.0)
    values = [w.val()]
    with pd.guard():
        for _ in range(3):
            optimizer.minimize(pd.reduce_sum(w * w))
            values.append(w.numpy())
    drawn = np.diff(values, axis=0)
    assert len(np.unique(drawn)) == drawn.size
