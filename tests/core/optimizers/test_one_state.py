"""An optimizer has one state for updates of static graphs, steps in a guard, and `fit`."""

import gc
from itertools import permutations

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 3)).astype("float32"), RNG.normal(size=(6, 2)).astype("float32")
W, B = RNG.normal(size=(3, 2)).astype("float32"), np.array([0.5, -0.5], "float32")
MIXED = [list(order) for order in permutations(("static", "dynamic", "fit"))]
MIXED += [["static", "dynamic"] * 2, ["fit", "runner", "dynamic"], ["dynamic", "runner", "fit"]]


class Net(nn.Module):
    def __init__(self):
        super().__init__("net")
        self.fc = nn.FC(2, kernel_init=W, bias_init=B)

    def forward(self, x):
        return self.fc(x)


class Training:
    """Steps of each kind, of one module and one optimizer."""

    def __init__(self, optimizer):
        pd.reset()
        self.net, self.optimizer = Net(), optimizer
        self.net.compile([(None, 3)])
        self.x, self.y = pd.Variable([None, 3], name="x"), pd.Variable([None, 2], name="y")
        self.update = None

    def cost(self, x, y):
        return pd.reduce_mean(pd.square(self.net(x) - y))

    def static(self):
        if self.update is None:
            self.update = self.optimizer.minimize(self.cost(self.x, self.y))
        pd.eval(self.update, {self.x: X, self.y: Y})

    def dynamic(self):
        self.net.eval()
        with pd.guard():
            self.optimizer.minimize(self.cost(pd.to_variable(X), pd.to_variable(Y)))

    def fit(self):
        self.net.fit(X, Y, optimizer=self.optimizer, loss="mse", batch_size=6, verbose=False)

    def runner(self):
        """With a rate that is scaled, as ReduceRate does."""
        items = [pd.training.Device(), pd.training.Counter()]
        items += [pd.training.Data([{self.x: X, self.y: Y}]), pd.training.ReduceRate(patience=9)]
        cost = self.cost(self.x, self.y)
        items += [pd.training.ForwardBackward(cost), pd.training.Update(self.optimizer)]
        with pd.training.runner_of(items) as runner:
            runner.run(1)

    def steps(self, kinds):
        for kind in kinds:
            getattr(self, kind)()
            getattr(self, kind)()
        return self

    def values(self):
        return {name: v.val() for name, v in self.net.get_params().items()}


def trained_by_torch(make, steps):
    net = torch.nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(W.T)), net.bias.copy_(torch.from_numpy(B))
    optimizer = make(net.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(torch.from_numpy(X)), torch.from_numpy(Y)).backward()
        optimizer.step()
    return {"fc.W": net.weight.detach().numpy().T, "fc.B": net.bias.detach().numpy()}


OPTIMIZERS = {
    "adam": (lambda: pd.AdamOptimizer(0.1), lambda ps: torch.optim.Adam(ps, 0.1)),
    "adamw": (
        lambda: pd.AdamWOptimizer(0.1, weight_decay=0.2),
        lambda ps: torch.optim.AdamW(ps, 0.1, weight_decay=0.2),
    ),
    "momentum": (
        lambda: pd.MomentumOptimizer(0.1, 0.9),
        lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9),
    ),
    "adagrad": (
        lambda: pd.AdaGradOptimizer(0.1, epsilon=1e-20),
        lambda ps: torch.optim.Adagrad(ps, 0.1),
    ),
}


@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
def test_a_training_of_several_kinds_is_one(kinds):
    make, make_torch = OPTIMIZERS["adam"]
    found = Training(make()).steps(kinds)
    for name, value in trained_by_torch(make_torch, 2 * len(kinds)).items():
        np.testing.assert_allclose(found.values()[name], value, rtol=2e-5, atol=1e-6)
    state = found.optimizer.state()
    slots = {f"net/fc/{p}/{slot}" for p in "WB" for slot in "mv"}
    assert {*state} == {*slots, "weight1", "weight2"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_several_kinds(name):
    make, make_torch = OPTIMIZERS[name]
    found = Training(make()).steps(["static", "fit", "dynamic", "static"])
    for name, value in trained_by_torch(make_torch, 8).items():
        np.testing.assert_allclose(found.values()[name], value, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.Lookahead(pd.AdamOptimizer(0.1), k=3),
        lambda: pd.AdamOptimizer(pd.schedules.ExponentialDecay(0.1, 2, every=0.5)),
        lambda: pd.AdamOptimizer(0.1, accumulate=3),
        lambda: pd.MomentumOptimizer(0.1, groups=[{"params": "B", "learning_rate": 0.01}]),
    ],
    ids=["lookahead", "schedule", "accumulate", "groups"],
)
def test_what_counts_steps_goes_on(make):
    mixed = Training(make()).steps(["dynamic", "static", "fit"]).values()
    alone = Training(make()).steps(["static"] * 3).values()
    for name, value in alone.items():
        np.testing.assert_allclose(mixed[name], value, rtol=2e-6, atol=1e-7)


def test_a_state_that_is_loaded_is_that_of_all_kinds():
    first = Training(pd.AdamOptimizer(0.1)).steps(["static", "dynamic"])
    values, state = first.values(), first.optimizer.state()
    after = first.steps(["fit"]).values()
    again = Training(pd.AdamOptimizer(0.1))
    for name, v in again.net.get_params().items():
        pd.default_session().set(v, values[name])
    again.optimizer.load_state(state)
    for name, value in again.steps(["static"]).values().items():
        np.testing.assert_allclose(value, after[name], rtol=2e-6)


def test_an_update_that_is_dropped_takes_its_state_along():
    run = Training(pd.AdamOptimizer(0.1)).steps(["static"])
    run.update = None
    gc.collect()
    run.steps(["dynamic"])
    assert run.optimizer.state()["weight1"] == pytest.approx(1 - 0.9**2)


def test_sessions_have_states_of_their_own():
    run = Training(pd.AdamOptimizer(0.1)).steps(["dynamic"])
    with pd.Session():
        run.steps(["dynamic", "static"])
        assert run.optimizer.state()["weight1"] == pytest.approx(1 - 0.9**4)
    assert run.optimizer.state()["weight1"] == pytest.approx(1 - 0.9**2)
