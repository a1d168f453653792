"""Exact resume of dynamic graphs: Modules, optimizers inside `pd.guard()`, dropout."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import ArrayReader, Counter, Data, Device, RunnerItem, TrainStep

from .resuming import arrays, assert_resumes

FEATURES, LABELS = arrays()


def items(step, reader=None):
    reader = reader or ArrayReader(FEATURES, LABELS, batch_size=4, shuffle=True)
    return [Device(), Counter(), Data(reader), TrainStep(step)]


def network():
    return pd.nn.Sequential(
        pd.nn.FC(5, act="tanh"),
        pd.nn.BatchNorm1d(),
        pd.nn.Dropout(0.5),
        pd.nn.FC(3),
        name="net",
    )


def cost_of(net, x, y):
    return pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))


OPTIMIZERS = {
    "sgd": lambda: pd.SGDOptimizer(0.1),
    "momentum": lambda: pd.MomentumOptimizer(0.1),
    "adam": lambda: pd.AdamOptimizer(0.01),
    "rmsprop": lambda: pd.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
    "accumulated": lambda: pd.NAdamOptimizer(
        0.01, groups=[{"params": lambda w: w.rank == 1, "learning_rate": 0.1}], accumulate=2
    ),
    "schedule": lambda: pd.AdamOptimizer(pd.schedules.ExponentialDecay(0.1, 0.5)),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_optimizers_of_a_guard_resume(optimizer, tmp_path):
    def build():
        net, optimized = network(), optimizer()

        def step(x, y):
            with pd.guard():
                cost = cost_of(net, x, y)
                optimized.minimize(cost)
                return cost

        return items(step)

    assert_resumes(build, tmp_path)


def test_backward_then_minimize_resumes(tmp_path):
    def build():
        net, optimizer = network(), pd.AdamOptimizer(0.01)

        def step(x, y):
            with pd.guard():
                net.clear_gradients()
                cost = cost_of(net, x, y)
                cost.backward()
                optimizer.minimize(cost)
                return {"cost": cost, "half": float(cost) / 2}

        return items(step)

    assert_resumes(build, tmp_path)


def test_rates_that_are_set_resume(tmp_path):
    """A rate that is set in each step is at first a constant of programs, and is fed later."""

    def build():
        net, optimizer = network(), pd.AdamOptimizer(0.01)

        class Rate(RunnerItem):
            def on_batch_begin(self, following):
                optimizer.learning_rate = 0.1 / (1 + self.context.batches)
                return following()

        def step(x, y):
            with pd.guard():
                cost = cost_of(net, x, y)
                optimizer.minimize(cost)
                return cost

        return [*items(step), Rate()]

    assert_resumes(build, tmp_path, passes=4)


def test_a_network_that_grows_resumes(tmp_path):
    """A layer that is first called in the second pass has no value before."""

    def build():
        layers = [pd.nn.FC(4, act="tanh", name=f"layer{k}") for k in range(3)]
        last, optimizer, counter = pd.nn.FC(3, name="last"), pd.AdamOptimizer(0.01), Counter()

        def step(x, y):
            with pd.guard():
                for layer in layers[: 1 + counter.context.pass_id]:
                    x = layer(x)
                cost = cost_of(last, x, y)
                optimizer.minimize(cost)
                return cost

        reader = ArrayReader(FEATURES, LABELS, batch_size=4)
        return [Device(), counter, Data(reader), TrainStep(step)]

    assert_resumes(build, tmp_path, passes=3)


def test_a_row_sparse_table_of_a_guard_resumes(tmp_path):
    words = np.random.default_rng(2).integers(0, 9, (12, 3))

    def build():
        initializer = pd.uniform_initializer(-1.0, 1.0)
        table = pd.Variable([9, 4], name="table", initializer=initializer, row_sparse=True)
        last, optimizer = pd.nn.FC(3, name="last"), pd.AdamOptimizer(0.01)

        def step(x, y):
            with pd.guard():
                cost = cost_of(last, pd.reduce_mean(pd.gather(table, x), 1), y)
                optimizer.minimize(cost)
                return cost

        return items(step, ArrayReader(words, LABELS, batch_size=4, shuffle=True))

    assert_resumes(build, tmp_path)


def test_a_gan_of_a_guard_resumes(tmp_path):
    rng = np.random.default_rng(0)
    real, noise = (rng.normal(size=(12, 3)).astype(np.float32) for _ in range(2))

    def build():
        g = pd.nn.Sequential(pd.nn.FC(4, act="tanh"), pd.nn.Dropout(0.2), pd.nn.FC(3), name="g")
        d = pd.nn.Sequential(pd.nn.FC(4, act="tanh"), pd.nn.FC(1), name="d")
        adam_d, adam_g = pd.AdamOptimizer(0.01, beta1=0.5), pd.AdamOptimizer(0.02, beta1=0.5)

        def step(x, z):
            with pd.guard():
                cost_d = pd.reduce_mean(pd.softplus(-d(x)) + pd.softplus(d(g(z).detach())))
                adam_d.minimize(cost_d)
                d_value = float(cost_d)
            with pd.guard():
                cost_g = pd.reduce_mean(pd.softplus(-d(g(z))))
                adam_g.minimize(cost_g, var_list=g.parameters())
                return {"cost": cost_g, "d": d_value}

        return items(step, ArrayReader(real, noise, batch_size=4, shuffle=True))

    assert_resumes(build, tmp_path)


def test_a_module_resumes(tmp_path):
    def build():
        class Step(pd.nn.Module):
            def __init__(self):
                super().__init__()
                self.net, self.optimizer = network(), pd.MomentumOptimizer(0.1)

            def forward(self, x, y):
                return cost_of(self.net, x, y)

            def train_one_batch(self, x, y):
                cost = self.forward(x, y)
                self.optimizer.backward_and_update(cost)
                return cost

        return items(Step())

    assert_resumes(build, tmp_path)
