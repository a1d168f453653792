"""Gradient accumulation: k small batches are one large one."""

import numpy as np
import pytest

import pd_core as pd

X = np.linspace(-1.0, 2.0, 48, dtype=np.float32).reshape(16, 3)
Y = np.linspace(1.0, -1.0, 16, dtype=np.float32).reshape(16, 1)


def network():
    """Feed slots, parameters, and the mean cost."""
    x, y = (pd.Variable(name, shape=[None, n]) for name, n in (("x", 3), ("y", 1)))
    w = pd.Variable("w", data=np.array([[0.5], [-1.0], [0.25]]))
    b = pd.Variable("b", data=np.array([0.75]))
    return (x, y), (w, b), pd.reduce_mean(pd.square(pd.matmul(x, w) + b - y))


def small(k):
    """Batch k, of a quarter of the samples."""
    rows = slice(k % 4 * 4, k % 4 * 4 + 4)
    return X[rows], Y[rows]


OPTIMIZERS = {
    "sgd": lambda **k: pd.SGDOptimizer(pd.schedules.ExponentialDecay(0.1, 0.8), **k),
    "momentum": lambda **k: pd.MomentumOptimizer(0.1, clip=pd.ClipGlobalNorm(0.5), **k),
    "adamw": lambda **k: pd.AdamWOptimizer(0.1, groups=[{"params": "b", "weight_decay": 0}], **k),
}


def trained(make, accumulate, mode):
    """Values of parameters and state after three large batches, or four times as many small."""
    pd.reset()
    slots, parameters, cost = network()
    optimizer = make(accumulate=accumulate)
    batches = [(X, Y)] * 3 if accumulate == 1 else [small(k) for k in range(12)]
    if mode == "static":
        step = optimizer.minimize(cost)
        for batch in batches:
            pd.eval(step, dict(zip(slots, batch, strict=True)))
        state = {v.name.partition("/")[2]: v.val() for v in step.variables()}
    else:
        w, b = parameters
        with pd.guard():
            for batch in batches:
                u, v = batch
                optimizer.minimize(pd.reduce_mean(pd.square(pd.matmul(u, w) + b - v)))
        state = optimizer.state()
    return {v.name: v.val() for v in parameters} | state


@pytest.mark.parametrize("mode", ["static", "guard"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_four_small_batches_are_a_large_one(name, mode):
    large = trained(OPTIMIZERS[name], 1, mode)
    accumulated = trained(OPTIMIZERS[name], 4, mode)
    assert accumulated.keys() - large.keys() == {"batches", "w/gradient", "b/gradient"}
    for key, value in large.items():
        np.testing.assert_allclose(accumulated[key], value, rtol=1e-5, atol=1e-7, err_msg=key)
    assert all((accumulated[f"{n}/gradient"] == 0.0).all() for n in "wb")


def test_exact_where_the_sums_are():
    w = pd.Variable("w", data=[0.0, 0.0])
    x = pd.Variable("x", shape=[None, 2])
    step = pd.SGDOptimizer(0.5, accumulate=2).minimize(pd.reduce_mean(pd.matmul(x, w)))
    seen = []
    for row in ([1.0, 2.0], [3.0, 8.0], [4.0, 4.0], [0.0, 0.0]):
        pd.eval(step, {x: [row]})
        seen.append(w.val().tolist())
    assert seen == [[0.0, 0.0], [-1.0, -2.5], [-1.0, -2.5], [-2.0, -3.5]]


class Linear(pd.nn.Module):
    def __init__(self):
        super().__init__("net")
        self.l = pd.nn.FC(1)

    def forward(self, x):
        return self.l(x)


def test_a_module_is_fitted_to_small_batches_as_to_large_ones():
    found = []
    for accumulate, batch_size in ((1, 16), (4, 4)):
        pd.reset(seed=3)
        net, adam = Linear(), pd.AdamOptimizer(0.1, accumulate=accumulate)
        settings = {"loss": pd.nn.MSE(), "shuffle": False, "verbose": False, "epochs": 3}
        net.fit(X, Y, optimizer=adam, batch_size=batch_size, **settings)
        found.append([w.val() for w in net.parameters()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_gradients_that_backward_has_summed_are_accumulated():
    w, sgd = pd.Variable("w", data=0.0), pd.SGDOptimizer(1.0, accumulate=2)
    with pd.guard():
        for scale in (1.0, 3.0):
            for _ in range(2):
                loss = w * scale
                loss.backward()
            sgd.minimize(loss)
            w.clear_gradient()
    assert w.val() == -4.0  # the mean of 2 and 6


def test_a_period_that_becomes_shorter():
    w, sgd = pd.Variable("w", data=0.0), pd.SGDOptimizer(1.0, accumulate=5)
    with pd.guard():
        for slope in (1.0, 2.0, 6.0, 4.0, 2.0):
            sgd.minimize(w * slope)
            if slope == 2.0:
                sgd.accumulate = 2
    assert w.val() == -6.0  # the means of three and of two


def test_moving_statistics_follow_every_batch():
    x = pd.Variable("x", shape=[None, 3])
    hidden = pd.nn.BatchNorm1d(momentum=0.5)(x)
    cost = pd.reduce_mean(pd.square(hidden - 1.0))
    step = pd.SGDOptimizer(0.1, accumulate=2).minimize(cost)
    (mean,) = (v for v in pd.persistent_variables() if v.name.endswith("mean"))
    batch = np.ones((4, 3), np.float32) * [1.0, 2.0, 4.0]
    for expected in (0.5, 0.75):
        pd.eval(step, {x: batch.astype(np.float32)})
        np.testing.assert_allclose(mean.val(), np.array([1.0, 2.0, 4.0]) * expected, rtol=1e-6)


def test_a_frozen_parameter_keeps_its_sum():
    a, b = pd.Variable("a", data=1.0), pd.Variable("b", data=1.0)
    step = pd.SGDOptimizer(0.5, accumulate=2, name="sgd").minimize(a * 2.0 + b * 4.0)
    a.trainable = False
    pd.eval([step]), pd.eval([step])
    assert (a.val(), b.val()) == (1.0, -1.0)
    assert pd.get_variable("sgd/a/gradient", reuse=True).val() == 0.0


def test_an_average_follows_the_updates_alone():
    w = pd.Variable("w", data=0.0)
    average = pd.MovingAverage(0.5)
    step = average.follow(pd.SGDOptimizer(1.0, accumulate=3).minimize(w * -1.0))
    for _ in range(8):
        pd.eval(step)
    assert w.val() == 2.0
    with average.applied():
        np.testing.assert_allclose(w.val(), (1.0 * 0.25 + 2.0 * 0.5) / 0.75, rtol=1e-6)


def test_what_cannot_be_accumulated():
    with pytest.raises(ValueError, match="AdamOptimizer: accumulate is at least 1, not 0"):
        pd.AdamOptimizer(accumulate=0)
    table = pd.Variable("table", data=np.ones((5, 2)), row_sparse=True)
    cost = pd.reduce_sum(pd.gather(table, [1, 2]))
    with pytest.raises(pd.GraphError, match=r"table.* is row_sparse: accumulate=2 sums gradients"):
        pd.SGDOptimizer(accumulate=2).minimize(cost)
