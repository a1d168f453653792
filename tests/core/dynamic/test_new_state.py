"""New values of state that a forward pass stores: who else reads them, and when they are stored."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32
X = np.random.default_rng(0).standard_normal((2, 4)).astype(f32)


class Centred(pd.nn.Layer):
    """x times the moving mean that it moves."""

    def forward(self, x):
        mean = self.buffer("mean", [1])
        moved = mean * 0.5 + pd.reshape(pd.reduce_mean(x), [1]) * 0.5
        return pd.mode_switch(x * moved, x - mean, [(mean, moved)])


class Last(pd.nn.Layer):
    """The square of x, which is kept as it is."""

    def forward(self, x):
        last = self.buffer("last", [2, 4])
        return pd.mode_switch(x * x, x, [(last, x)])


class Same(pd.nn.Layer):
    """x, and the number of passes in training."""

    def forward(self, x):
        count = self.buffer("count", [1])
        return pd.mode_switch(x, x, [(count, count + 1.0)])


class Follows(pd.nn.Layer):
    """x, and half of the value of another variable before."""

    def __init__(self, other):
        super().__init__()
        self.of = [other]

    def forward(self, x):
        half = self.buffer("half", [4])
        return pd.mode_switch(x + 1.0, x, [(half, self.of[0] * 0.5)])


@pytest.mark.parametrize("kind", [Centred, Last, Same])
def test_gradients_through_what_is_stored(kind):
    found = []
    for dynamic in (False, True):
        with pd.fresh(seed=0):
            net, rule = pd.nn.Sequential(pd.nn.FC(4), kind()), pd.SGDOptimizer(0.01)
            session = pd.default_session()
            if dynamic:
                with pd.guard():
                    for _ in range(3):
                        rule.minimize(pd.reduce_sum(pd.square(net(X))))
            else:
                update = rule.minimize(pd.reduce_sum(pd.square(net(pd.constant(X)))))
                for _ in range(3):
                    pd.eval(update)
            found.append([session.val(v) for v in (*net.parameters(), *net.buffers())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_new_state_of_a_pass_nobody_looks_at():
    with pd.fresh(seed=0), pd.guard():
        centred, last, same = Centred(), Last(), Same()
        _ = centred(X), last(X), same(X)
        expected = X.mean() * 0.5
        assert float(pd.reduce_sum(centred.mean * 1.0)) == pytest.approx(expected)
        np.testing.assert_allclose(centred.mean.numpy(), [expected], rtol=1e-5)
        np.testing.assert_array_equal(last.last.numpy(), X)
        assert same.count.numpy() == [1]


def test_state_of_a_pass_that_is_read_in_part():
    with pd.fresh(seed=0), pd.guard():
        norms = pd.nn.BatchNorm1d(momentum=0.5), pd.nn.BatchNorm1d(momentum=0.5)
        net = pd.nn.Sequential(norms[0], pd.nn.ReLU(), norms[1])
        for _ in range(3):
            net(X).numpy()
        follows = Follows(norms[0].mean)
        before = [n.mean.numpy() for n in norms]
        with pd.no_grad():
            y = net(X)
        follows(X).numpy()
        seen = y.numpy()
        after = [n.mean.numpy() for n in norms]
        np.testing.assert_allclose(after[0], before[0] * 0.5 + X.mean(0) * 0.5, rtol=1e-5)
        hidden = np.maximum((X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5), 0.0)
        np.testing.assert_allclose(after[1], before[1] * 0.5 + hidden.mean(0) * 0.5, rtol=1e-4)
        np.testing.assert_array_equal(follows.half.numpy(), after[0] * f32(0.5))
        assert np.isfinite(seen).all()


class Doubled(pd.nn.Layer):
    """Twice x, which is kept."""

    def forward(self, x):
        last, y = self.buffer("last", [2, 4]), x * 2.0
        return pd.mode_switch(y, x, [(last, y)])


def test_a_result_that_is_stored_as_it_is():
    with pd.fresh(seed=0), pd.guard():
        layer = Doubled()
        for k in range(4):
            y = layer(X + f32(k))
            if k % 2:
                y.numpy()
            np.testing.assert_array_equal(layer.last.numpy(), (X + f32(k)) * 2)
            np.testing.assert_array_equal(y.numpy(), (X + f32(k)) * 2)


def _spectral(order):
    """The state after two passes of a network, of which the costs are used in this order."""
    with pd.fresh(seed=0), pd.guard():
        net = pd.nn.Sequential(pd.nn.SpectralNorm(pd.nn.FC(4)), pd.nn.FC(2))
        rule = pd.SGDOptimizer(0.1)
        for _ in range(3):
            net(X).numpy()
        costs = [pd.reduce_mean(pd.square(net(x))) for x in (X, np.tile(X, [2, 1]))]
        for k, steps in order:
            if steps:
                rule.minimize(costs[k])
            else:
                float(costs[k])
        return list(net.state_dict().values())


def test_a_step_of_a_cost_that_was_looked_at_late():
    expected = _spectral([(0, True), (1, True)])
    early = [(0, False), (0, True), (1, True)]
    for order in (early, early, [(1, False), *early[1:]]):  # the first makes what others know
        for a, b in zip(_spectral(order), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_layer_in_another_draws_by_its_own_name():
    with pd.fresh(seed=0), pd.guard():
        net = pd.nn.Sequential(pd.nn.Sequential(pd.nn.Dropout(0.5)))
        for _ in range(4):
            net(X).numpy()
        assert list(pd.default_session().draws.values()) == [4]


def test_a_lambda_is_called_each_time():
    factor = [0.0]
    with pd.fresh(seed=0), pd.guard():
        net = pd.nn.Sequential(pd.nn.Lambda(lambda x: x * factor[0]), pd.nn.Lambda(pd.identity))
        for factor[0] in range(4):
            np.testing.assert_array_equal(net(X).numpy(), X * f32(factor[0]))


def test_a_step_that_fails_raises_once():
    with pd.fresh(seed=0), pd.guard():
        table, rule, taken = pd.nn.Embedding(3, 4), pd.SGDOptimizer(0.1), []
        for k in range(6):
            try:
                cost = pd.reduce_mean(pd.square(table(np.array([0, 7 if k in (2, 4) else 1]))))
                cost.backward()
                rule.minimize(cost)
                table.clear_gradients()
            except pd.OutOfRange:
                continue
            taken.append(k)
    assert taken == [0, 1, 3, 5]
