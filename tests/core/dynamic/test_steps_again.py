"""Steps that are like one before: loops whose structure, settings and holders change.

They go beside PyTorch.

`PD_RANDOM_LOOPS` is the number of random loops, 16 by default.
"""

import os

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic import recorder, update
from pd_core.dynamic.state import State
from pd_core.graph.errors import BackendError
from pd_core.run.session import default_session

f32 = np.float32
COUNT = int(os.environ.get("PD_RANDOM_LOOPS", "16"))


@pytest.fixture
def again(monkeypatch):
    """Numbers of the steps, passes with updates, and values that were like one before."""
    found = {"step": [], "backward": [], "value": []}
    for owner, name, what in (
        (update, "_taken_again", "step"),
        (update, "_fused_again", "backward"),
        (State, "_forced_again", "value"),
    ):
        monkeypatch.setattr(owner, name, _noted(getattr(owner, name), found[what]))
    return found


def _noted(function, results):
    def noted(*args):
        results.append(function(*args))
        return results[-1]

    return noted


class Loop:
    """Two networks and their optimizers, in pd and in PyTorch, and steps of a few kinds on them."""

    def __init__(self, seed):
        self.torch = pytest.importorskip("torch")
        self.rng = np.random.default_rng(seed)
        self.nets, self.rules, self.others, self.velocities = [], [], [], []
        for width in (3, 4):
            net = pd.nn.Sequential(pd.nn.FC(width, "tanh"), pd.nn.FC(2))
            net(pd.constant(np.zeros((1, 3), f32)))  # builds its parameters
            own = [self.tensor(v.val()) for v in net.parameters()]
            self.nets.append(net)
            self.others.append(own)
            self.rules.append(pd.MomentumOptimizer(0.1, 0.9))
            self.velocities.append([0.0 for _ in own])
        self.held = []  # (Variable, value)
        self.array = np.zeros((4, 3), f32)

    def tensor(self, value):
        return self.torch.tensor(value, dtype=self.torch.float64, requires_grad=True)

    def output(self, k, x, t, kind):
        w, b, v, c = self.others[k]
        y, u = self.nets[k](x), self.torch.tanh(t @ w + b) @ v + c
        if kind == 1:
            return pd.tanh(y) * 0.5, self.torch.tanh(u) * 0.5
        if kind == 2:  # both of the networks
            z, s = self.nets[1 - k](x), self.others[1 - k]
            return y + z, u + self.torch.tanh(t @ s[0] + s[1]) @ s[2] + s[3]
        return y, u

    def step(self, k, kind, how, hold, mutate):
        """One step of network k; what somebody holds of it stays as it is."""
        rows = 4 if self.rng.random() < 0.8 else 2
        array, target = self.array[:rows], self.rng.normal(size=(rows, 2)).astype(f32)
        array[...] = self.rng.normal(size=array.shape)
        t, goal = (self.torch.tensor(a.astype(np.float64)) for a in (array, target))
        y, u = self.output(k, array, t, kind)
        loss, cost = pd.reduce_mean(pd.square(y - target)), ((u - goal) ** 2).mean()
        if mutate:
            array[...] = target[...] = np.nan
        if hold == 1:
            self.held.append((y, u.detach().numpy()))
        del y
        if hold == 2:
            np.testing.assert_allclose(float(loss), cost.item(), rtol=1e-4)
        for v in self.others[k]:
            v.grad = None
        for v in self.others[1 - k]:
            v.grad = None
        cost.backward()
        if how:
            loss.backward()
            if how == 2:
                w, o = self.nets[k][0].W, self.others[k][0]
                np.testing.assert_allclose(w.gradient(), o.grad.numpy(), rtol=1e-3, atol=1e-5)
        if how or kind != 2:
            self.rules[k].minimize(loss)
        else:
            self.rules[k].minimize(loss, var_list=self.nets[k].parameters())
        if how and kind == 2:  # a step of one rule is for all that was reached
            self.held_out(k)
        if how == 3:
            w, o = self.nets[k][1].B, self.others[k][3]
            np.testing.assert_allclose(w.gradient(), o.grad.numpy(), rtol=1e-3, atol=1e-5)
        for net in self.nets:
            net.clear_gradients()
        for j, v in enumerate(self.others[k]):
            moved = 0.9 * self.velocities[k][j] - self.rules[k].learning_rate * v.grad
            v.data, self.velocities[k][j] = v.data + moved, moved
        np.testing.assert_allclose(float(loss), cost.item(), rtol=1e-4, atol=1e-6)

    def held_out(self, k):
        """The other network was trained by this rule: set it back to PyTorch's values."""
        for v, o in zip(self.nets[1 - k].parameters(), self.others[1 - k], strict=True):
            default_session().set(v, o.detach().numpy().astype(f32))

    def change(self):
        k, j = self.rng.integers(2), self.rng.integers(4)
        kind = self.rng.integers(3)
        if kind == 0:
            self.rules[k].learning_rate = 0.05 * float(self.rng.integers(1, 4))
        elif kind == 1:
            value = self.rng.normal(size=self.others[k][j].shape)
            default_session().set(self.nets[k].parameters()[j], value.astype(f32))
            self.others[k][j].data = self.torch.tensor(value)

    def check(self):
        for net, own in zip(self.nets, self.others, strict=True):
            for v, o in zip(net.parameters(), own, strict=True):
                np.testing.assert_allclose(v.numpy(), o.detach().numpy(), rtol=2e-3, atol=2e-4)
        for v, want in self.held:
            np.testing.assert_allclose(v.numpy(), want, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_loop(seed):
    loop = Loop(seed)
    rng = np.random.default_rng([seed, 1])
    kinds = [(*rng.integers((2, 3, 4)),) for _ in range(2)]
    with pd.guard():
        for _ in range(8):
            k, kind, how = kinds[rng.integers(2)]
            loop.step(k, kind, how, hold=rng.integers(6), mutate=rng.random() < 0.5)
            if rng.random() < 0.3:
                loop.change()
            if rng.random() < 0.3:
                loop.check()
        loop.check()


X, Y = np.linspace(-1, 1, 12, dtype=f32).reshape(4, 3), np.arange(4, dtype=f32).reshape(4, 1)


def loss_of(net, x=X, y=Y):
    return pd.reduce_mean(pd.square(net(x) - y))


def test_equal_steps_are_taken_again(again):
    net, rule = pd.nn.FC(1), pd.MomentumOptimizer(0.1)
    with pd.guard():
        for _ in range(4):
            rule.minimize(loss_of(net))
        for _ in range(4):
            loss = loss_of(net)
            loss.backward()
            rule.minimize(loss)
            net.clear_gradients()
        for _ in range(4):
            net(X).numpy()
    assert again["step"][2:4] == [True, True] and again["backward"][2:] == [True, True]
    assert again["value"][-2:] == [True, True]


def test_steps_again_write_to_the_same_two_buffers():
    net, rule = pd.nn.FC(1), pd.MomentumOptimizer(0.1)
    seen = set()
    with pd.guard():
        rule.minimize(loss_of(net))  # a step that is compiled, in a process that does not know it
        for _ in range(6):
            rule.minimize(loss_of(net))
            seen.add(default_session().store.current(net.W, copy=False).ctypes.data)
    assert len(seen) == 2


CHANGES = {
    "learning rate": lambda net, rule: setattr(rule, "learning_rate", 0.02),
    "factor": lambda net, rule: setattr(net.W, "learning_rate", 0.5),
    "penalty": lambda net, rule: setattr(net.W, "regularizer", pd.L2(0.1)),
    "frozen": lambda net, rule: setattr(net.W, "trainable", False),
    "a value": lambda net, rule: default_session().set(net.W, np.ones((3, 1), f32)),
}


def trained(change, backward, early):
    """The weights of a net after four steps; the third comes after a change, or has it within."""
    with pd.fresh():
        net, rule = pd.nn.FC(1, kernel_init=np.ones((3, 1), f32)), pd.MomentumOptimizer(0.1, 0.5)
        with pd.guard():
            for k in range(4):
                if k == 2 and early:
                    change(net, rule)
                loss = loss_of(net)
                if backward:
                    loss.backward()
                if k == 2 and not early:
                    change(net, rule)
                rule.minimize(loss)
                net.clear_gradients()
            return np.append(net.W.numpy(), net.B.numpy())


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_in_the_next_step(name, backward, again):
    none = trained(lambda net, rule: None, backward, True)
    assert any(again["backward" if backward else "step"])
    early = trained(CHANGES[name], backward, True)
    assert not np.allclose(early, none, rtol=1e-5)
    if name != "a value":  # the gradients are those of the line that recorded the loss
        np.testing.assert_allclose(trained(CHANGES[name], backward, False), early, rtol=1e-6)


def test_a_parameter_that_is_unfrozen_is_trained():
    net, rule = pd.nn.FC(1), pd.SGDOptimizer(0.1)
    net(pd.constant(X))
    moved = []
    with pd.guard():
        for k in range(6):
            before, loss = net.W.numpy(), loss_of(net)
            net.W.trainable = k % 3 != 1  # after the loss was recorded
            rule.minimize(loss)
            moved.append(bool((net.W.numpy() != before).any()))
            net.W.trainable = True
    assert moved == [True, False, True] * 2


def test_another_optimizer_has_its_own_state(again):
    nets = [pd.nn.FC(1, kernel_init=np.ones((3, 1), f32)) for _ in range(2)]
    with pd.guard():
        fast, slow = pd.MomentumOptimizer(0.1, 0.9), pd.SGDOptimizer(0.1)
        for k in range(6):
            (slow if k % 2 else fast).minimize(loss_of(nets[0]))
        other = pd.MomentumOptimizer(0.1, 0.9), pd.SGDOptimizer(0.1)
        for k in range(6):
            loss = loss_of(nets[1])
            float(loss)  # looked at before: another program
            other[k % 2].minimize(loss)
        np.testing.assert_allclose(nets[0].W.numpy(), nets[1].W.numpy(), rtol=1e-4)


@pytest.mark.parametrize("backward", [False, True])
def test_a_step_that_fails_leaves_the_next_one_right(backward):
    table, rule = pd.nn.Embedding(3, 2), pd.SGDOptimizer(0.1)

    def step(rows):
        loss = pd.reduce_mean(pd.square(table(rows) - 1.0))
        if backward:
            loss.backward()
        try:
            rule.minimize(loss)
        finally:
            table.clear_gradients()
        return float(loss)

    good, bad = np.array([0, 2]), np.array([0, 7])
    with pd.guard():
        first = [step(good) for _ in range(3)]
        before = table.parameters()[0].numpy()
        with pytest.raises((pd.OutOfRange, BackendError)):
            step(bad)
        np.testing.assert_array_equal(table.parameters()[0].numpy(), before)
        assert step(good) < first[-1]


@pytest.mark.parametrize("backward", [False, True])
def test_costs_of_values_before_a_step_train_their_own_net(backward):
    torch = pytest.importorskip("torch")
    x, y = torch.tensor(X), torch.tensor(Y)
    nets = [pd.nn.FC(1, kernel_init=np.full((3, 1), k, f32)) for k in range(3)]
    others = [
        [torch.full((3, 1), float(k), requires_grad=True), torch.zeros(1, requires_grad=True)]
        for k in range(3)
    ]
    for net in nets:
        net(pd.constant(X))  # builds its parameters
    rule = pd.SGDOptimizer(0.05)
    with pd.guard():
        for k in range(9):
            net, own = nets[k % 3], others[k % 3]
            first, second = loss_of(net), loss_of(net, y=2 * Y)  # both of the values at this line
            costs = [((x @ own[0] + own[1] - goal) ** 2).mean() for goal in (y, 2 * y)]
            for loss, gradients in zip(
                (first, second), [torch.autograd.grad(c, own) for c in costs], strict=True
            ):
                if backward:
                    loss.backward()
                rule.minimize(loss)
                net.clear_gradients()
                for v, g in zip(own, gradients, strict=True):
                    v.data -= 0.05 * g
            for each, values in zip(nets, others, strict=True):
                np.testing.assert_allclose(each.W.numpy(), values[0].detach(), rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(each.B.numpy(), values[1].detach(), rtol=1e-4, atol=1e-5)


def test_a_result_in_between_that_is_held_has_its_value(again):
    net, rule, held = pd.nn.Sequential(pd.nn.FC(2), pd.nn.FC(1)), pd.SGDOptimizer(0.1), []
    with pd.guard():
        for k in range(6):
            h = net[0](X)
            want = X @ net[0].W.numpy() + net[0].B.numpy() if k % 2 else None
            loss = pd.reduce_mean(pd.square(net[1](h) - Y))
            if want is not None:
                held.append((h, want))
            del h
            rule.minimize(loss)
        for h, want in held:
            np.testing.assert_allclose(h.numpy(), want, rtol=1e-5, atol=1e-6)


def test_arrays_that_change_after_a_call_do_not_matter():
    x, y = X.copy(), Y.copy()
    with pd.guard():
        for _ in range(4):
            x[...], y[...] = X, Y
            result = pd.to_variable(X) * x + y
            total = pd.reduce_sum(pd.square(result) * 2.0)
            x[...] = y[...] = np.nan
            np.testing.assert_allclose(float(total), (np.square(X * X + Y) * 2).sum(), rtol=1e-5)


def test_numbers_of_either_sign_of_zero_are_told_apart():
    with pd.guard():
        one = pd.relu(pd.to_variable([1.0]))
        for _ in range(2):
            results = [(one / zero).numpy()[0] for zero in (0.0, -0.0, 0.0, -0.0)]
            assert results == [np.inf, -np.inf] * 2
            assert (one * 1).numpy() == (one * 1.0).numpy() == 1.0


def test_equal_operands_are_told_from_others():
    with pd.guard():
        for _ in range(2):
            a, b = pd.relu(pd.to_variable(X)), pd.tanh(pd.to_variable(X))
            pairs = [(a - a, 0 * X), (a - b, np.maximum(X, 0) - np.tanh(X)), (b - b, 0 * X)]
            for got, want in pairs:
                np.testing.assert_allclose(got.numpy(), want, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "?", ">f4", ">f8"])
def test_arrays_of_any_dtype_are_leaves_beside_results(dtype):
    array = (np.arange(4) % 2).astype(dtype)
    with pd.guard():
        assert (pd.to_variable(array).numpy() == array).all()
        one = pd.relu(pd.to_variable([1.0, 1, 1, 1]))
        for _ in range(3):
            result = pd.where(pd.greater_than(one, array), one, 0.0)
            np.testing.assert_array_equal(result.numpy(), [1, 0, 1, 0])


# ---- random draws


def drawing_net(shared=False):
    drop = pd.nn.Dropout(0.4)
    other = drop if shared else pd.nn.Dropout(0.3)
    layers = pd.nn.FC(5, "tanh"), drop, pd.nn.FC(4, "tanh"), other, pd.nn.FC(1)
    return pd.nn.Sequential(*layers, name="drawing")


def weights(net):
    return np.concatenate([v.val().reshape(-1) for v in net.parameters()])


@pytest.mark.parametrize("backward", [False, True])
def test_steps_with_dropout_are_those_of_a_static_graph(backward, again):
    with pd.fresh():
        net = drawing_net()
        x, y = pd.Variable([None, 3]), pd.Variable([None, 1])
        loss = loss_of(net, x, y)
        update = pd.MomentumOptimizer(0.1).minimize(loss)
        want = [pd.eval([update, loss], {x: X, y: Y})[1] for _ in range(6)]
        trained = weights(net)
    with pd.fresh(), pd.guard():
        net, rule, got = drawing_net(), pd.MomentumOptimizer(0.1), []
        for _ in range(6):
            loss = loss_of(net)
            if backward:
                loss.backward()
            rule.minimize(loss)
            net.clear_gradients()
            got.append(float(loss))
        np.testing.assert_allclose(got, want, rtol=1e-4)
        np.testing.assert_allclose(weights(net), trained, rtol=1e-4, atol=1e-6)
    assert again["step"][-2:] == [True, True] if not backward else got


def test_a_layer_that_is_called_twice_draws_twice():
    net = drawing_net(shared=True)
    with pd.guard():
        seen = []
        for _ in range(4):
            a, b = net[1](np.ones(200, f32)), net[1](np.ones(200, f32))
            total = pd.reduce_sum(a * b)
            product = float(total)
            np.testing.assert_allclose((a.numpy() * b.numpy()).sum(), product, rtol=1e-5)
            seen += [a.numpy(), b.numpy()]
        for k, one in enumerate(seen):
            assert 60 < (one != 0).sum() < 180
            assert all((one != other).any() for other in seen[:k])


def test_what_was_drawn_stays_when_it_is_computed_again():
    net, rule = drawing_net(), pd.SGDOptimizer(0.1)
    with pd.guard():
        for k in range(5):
            h = pd.dropout(pd.tanh(net[0](X)), 0.5)
            loss = pd.reduce_mean(pd.square(net[2](h)))
            before = h.numpy() if k % 2 else None  # looked at before the step
            loss.backward(retain_graph=True)
            if before is not None:
                np.testing.assert_array_equal(h.numpy(), before)
            gradient = net[2].W.gradient()
            net.clear_gradients()
            loss.backward()
            np.testing.assert_allclose(net[2].W.gradient(), gradient, rtol=1e-5)
            rule.minimize(loss)
            net.clear_gradients()


def test_gradients_of_a_step_with_draws_can_be_read_after_it():
    net, rule = drawing_net(), pd.SGDOptimizer(0.1)
    with pd.guard():
        for _ in range(4):
            before = net[4].B.val() if net.parameters() else None
            loss = loss_of(net)
            loss.backward()
            rule.minimize(loss)
            if before is not None:
                moved = (before - net[4].B.val()) / 0.1
                np.testing.assert_allclose(net[4].B.gradient(), moved, rtol=1e-3, atol=1e-5)
            net.clear_gradients()


def test_a_seed_repeats_what_a_loop_draws():
    found = []
    for _ in range(2):
        pd.reset(seed=5)
        with pd.guard():
            net = pd.nn.Dropout(0.5)
            found.append([net(np.ones(50, f32)).numpy() for _ in range(4)])
    np.testing.assert_array_equal(*found)
    with pd.guard():
        same = []
        for _ in range(2):  # recorded before and after the draws begin again: one draw, twice
            default_session().draws.clear()
            same.append(pd.uniform_random([50]))
        np.testing.assert_array_equal((same[0] - same[1]).numpy(), np.zeros(50, f32))


OPS = {
    "uniform": lambda: pd.uniform_random([300]),
    "gaussian": lambda: pd.gaussian_random([300]),
    "of a Variable": lambda: pd.dropout(np.ones(300, f32), 0.5),
    "two": lambda: pd.uniform_random([300]) - pd.uniform_random([300]),
}


@pytest.mark.parametrize("name", OPS)
def test_ops_draw_anew_in_each_call(name):
    with pd.guard():
        drawn = [OPS[name]().numpy() for _ in range(4)]
        compiled = pd.stats()["compiled"]
        drawn += [OPS[name]().numpy() for _ in range(2)]
        assert pd.stats()["compiled"] == compiled
        for k, one in enumerate(drawn):
            assert one.std() > 0.1 and all((one != other).any() for other in drawn[:k])


# ---- everyday steps


class Mean(pd.nn.Layer):
    """The mean over the steps of what a layer returns, which is the first of several results."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y = self.layer(pd.reshape(x, [-1, 1, 3]))
        return pd.reduce_mean(y[0] if isinstance(y, tuple) else y, 1)


class Centred(pd.nn.Layer):
    """x without a moving mean."""

    def forward(self, x):
        mean = self.buffer("mean", [3])
        moved = mean * 0.5 + pd.reduce_mean(x, 0) * 0.5
        return pd.mode_switch(x - moved, x - mean, [(mean, moved)])


EVERYDAY = {
    "batch norm": lambda: pd.nn.BatchNorm1d(),
    "batch norm twice": lambda: pd.nn.Sequential(*[pd.nn.BatchNorm1d()] * 2),
    "spectral norm": lambda: pd.nn.SpectralNorm(pd.nn.FC(3)),
    "weight norm": lambda: pd.nn.WeightNorm(pd.nn.FC(3)),
    "state of one's own": Centred,
    "dropout": lambda: pd.nn.Sequential(pd.nn.FC(3), pd.nn.Dropout(0.5)),
    "lstm": lambda: Mean(pd.nn.LSTM(3)),
    "gru": lambda: Mean(pd.nn.GRU(3)),
    "attention": lambda: Mean(pd.nn.MultiHeadAttention(3, 1)),
}


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_steps_are_taken_again(name, again, monkeypatch):
    # other networks of this name had other numbers at these lines
    monkeypatch.setattr(recorder, "numbers", {})
    monkeypatch.setattr(recorder, "changing", set())
    net, rule = pd.nn.Sequential(EVERYDAY[name](), pd.nn.FC(1)), pd.AdamOptimizer(0.01)
    with pd.guard():
        for k in range(9):
            rows = 4 if k < 4 else 2 + k % 3  # other sizes are the same step
            loss = loss_of(net, X[:rows], Y[:rows])
            if k % 2:
                float(loss)  # looked at before
            rule.minimize(loss)
        assert again["step"][-4:] == [True] * 4
        for _ in range(5):
            loss = loss_of(net)
            loss.backward()
            rule.minimize(loss)
            net.clear_gradients()
        # those with draws fetch their gradients, another program
        assert again["backward"][-2:] == [name != "dropout"] * 2
