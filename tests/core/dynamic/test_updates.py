"""Steps of optimizers on recorded graphs."""

from contextlib import nullcontext

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.session import default_session

f32 = np.float32


def test_a_parameter_frozen_after_its_line_is_not_updated():
    w, z = pd.Variable("w", data=f32(3)), pd.Variable("z", data=f32(2))
    with pd.guard():
        for before in (False, True):
            rule, product = pd.SGDOptimizer(0.1), w * z
            if before:
                product.backward()
            w.trainable = False
            rule.minimize(product)
            assert float(w) == 3
            w.trainable = True
    assert np.isclose(float(z.numpy()), 1.4)


def test_gradients_are_exchanged_with_and_without_backward():
    w = pd.Variable("w", data=f32(3))

    def ones(gradients):
        return {v: np.ones_like(g) for v, g in gradients.items()}

    with pd.guard(), default_session().exchanging(ones):
        rule, loss = pd.SGDOptimizer(0.1), w * w
        loss.backward()
        rule.minimize(loss)
        assert np.isclose(float(w), 2.9)
        rule.minimize(w * w)
        assert np.isclose(float(w), 2.8)
        y = w * 2.0
        rule.minimize([y * 1.0, y * y, pd.to_variable(f32(1))])  # costs that share a part
        assert np.isclose(float(w), 2.7)
        assert np.isclose(w.gradient(), 6)  # that of `backward` alone


def test_steps_that_are_checked_are_the_same_steps(rng):
    samples = rng.random((4, 3), f32)

    def trained(checked):
        pd.reset(seed=1)
        net = pd.nn.Sequential(pd.nn.FC(4), pd.nn.BatchNorm1d(), pd.nn.Dropout(0.5), pd.nn.FC(1))
        rule = pd.SGDOptimizer(0.1)
        with pd.guard(), pd.check_numerics() if checked else nullcontext():
            for _ in range(3):
                loss = pd.reduce_mean(pd.square(net(samples)))
                loss.backward()
                rule.minimize(loss)
                net.clear_gradients()
        return net.state_dict()

    plain, checked = trained(False), trained(True)
    assert all((plain[k] == checked[k]).all() for k in plain)
    w = pd.Variable(data=f32(-1))
    with pd.guard(), pd.check_numerics(), pytest.raises(pd.NumericError, match="Log"):
        float(pd.log(w))


@pytest.mark.parametrize("looks", ["at nothing", "at the cost", "at a gradient", "at a parameter"])
def test_backward_and_minimize_are_one_program_or_two(looks, no_programs):
    w, rule = pd.Variable("w", data=f32(3)), pd.MomentumOptimizer(0.1)
    with pd.guard():
        for _ in range(3):
            evaluations = pd.stats()["evaluations"]
            out = w * 2.0
            cost = pd.square(out)
            cost.backward()
            if looks == "at the cost":
                float(cost)
            elif looks == "at a gradient":
                w.gradient()
            elif looks == "at a parameter":
                w.numpy()
            rule.minimize(cost)
            evaluations = pd.stats()["evaluations"] - evaluations
            assert evaluations == (1 if looks == "at nothing" else 2)
            old = float(out) / 2  # of the line that made it
            assert np.isclose(float(cost), 4 * old**2) and np.isclose(w.gradient(), 8 * old)
            assert np.isclose(out.gradient(), 4 * old)
            w.clear_gradient()
        assert np.isclose(float(w), descended(3.0, 3))


def descended(w, steps):
    """Momentum 0.9 on 4 w^2 at a rate of 0.1."""
    velocity = 0.0
    for _ in range(steps):
        velocity = 0.9 * velocity - 0.1 * 8 * w
        w += velocity
    return w


def test_backward_that_waits_comes_before_a_change_of_parameters():
    w, v = pd.Variable("w", data=f32(3)), pd.Variable("v", data=f32(5))
    with pd.guard():
        (w * v).backward()
        pd.assign(w, 100.0)
        assert v.gradient() == 3 and w.gradient() == 5
        v.clear_gradient(), w.clear_gradient()
        first, second = w * v, v * v
        first.backward()
        second.backward()
        assert v.gradient() == 110
        w.clear_gradient(), v.clear_gradient()
        loss = w * v
        loss.backward()
    assert w.gradient() == 5  # the guard has ended


@pytest.mark.parametrize("fused", [False, True])
def test_settings_may_change_between_steps(fused):
    w, rule = pd.Variable("w", data=f32(3)), pd.MomentumOptimizer(0.1, 0.9)
    value, velocity = 3.0, 0.0
    with pd.guard():
        for k in range(9):
            rule.momentum = 0.9 if k < 4 else 0.5
            rule.learning_rate = 0.1 if k < 2 else 0.1 / k
            w.learning_rate = 1.0 if k < 6 else 0.25
            w.clip = None if k < 7 else lambda g, w: g * 0.5
            loss = w * w
            if not fused:
                loss.backward()
            rule.minimize(loss)
            w.clear_gradient()
            rate = rule.learning_rate * w.learning_rate * (1 if k < 7 else 0.5)
            velocity = rule.momentum * velocity - rate * 2 * value
            value += velocity
            assert np.isclose(float(w), value), k


def test_changing_rates_are_one_program(no_programs):
    w, rule = pd.Variable("w", data=f32(3)), pd.SGDOptimizer(0.1)
    with pd.guard():
        value = 3.0
        for k in range(16):
            if k == 8:
                compiled = pd.stats()["compiled"]
            rule.learning_rate = 0.1 / (k + 1)
            rule.minimize(w * w)
            value *= 1 - 0.2 / (k + 1)
            assert np.isclose(float(w), value)
        assert pd.stats()["compiled"] == compiled


@pytest.mark.parametrize("known", [False, True], ids=["first", "repeated"])
@pytest.mark.parametrize("other", ["cost before", "step before", "cost after"])
def test_var_list_takes_gradients_of_other_costs_too(other, known):
    a, b, c, d = (pd.Variable(n, data=f32(v)) for n, v in zip("abcd", [2, 3, 5, 7], strict=True))
    rule = pd.SGDOptimizer(0.1)
    with pd.guard():
        for _ in range(3 if known else 1):
            for v, value in zip((a, b, c), [2, 3, 5], strict=True):
                v.clear_gradient()
                pd.assign(v, f32(value))
            loss, second = a * c, b * b + d
            if other == "step before":
                second.backward()
                rule.minimize(second, [d])
            elif other == "cost before":
                second.backward()
            loss.backward()
            if other == "cost after":
                second.backward()
            rule.minimize(loss, [a, b])
            assert np.allclose([float(a), float(b), float(c)], [1.5, 2.4, 5.0])
            assert float(b.gradient()) == 6.0
