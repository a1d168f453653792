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
