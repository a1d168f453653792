"""State that forward passes change, in steps of every shape: the same with patterns and without.

`PD_RANDOM_LOOPS` is the number of loops, 5 by default.
"""

import os

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic import learning, recorder
from pd_core.dynamic.pattern import Pattern
from pd_core.graph.errors import BackendError

f32 = np.float32
COUNT = int(os.environ.get("PD_RANDOM_LOOPS", "5"))


class Centred(pd.nn.Layer):
    """x without a moving mean, which a training step moves: an op of the user's own layer."""

    def forward(self, x):
        mean = self.buffer("mean", [1])
        moved = mean * 0.5 + pd.reshape(pd.reduce_mean(x), [1]) * 0.5
        return pd.mode_switch(x - moved, x - mean, [(mean, moved)])


class Pictures(pd.nn.Layer):
    """Rows of 4 as pictures of 2 channels."""

    def forward(self, x):
        return pd.reshape(x, [-1, 2, 2, 1])


class Recurrent(pd.nn.Layer):
    """The last output of an LSTM over two steps."""

    def __init__(self):
        super().__init__()
        self.lstm = pd.nn.LSTM(4)

    def forward(self, x):
        y, _ = self.lstm(pd.reshape(x, [-1, 2, 2]))
        return pd.reduce_mean(y, 1)


class Own(pd.nn.Layer):
    """A user's layer, whose ops and layers are recorded one by one."""

    def __init__(self, *layers):
        super().__init__()
        self.first, self.second, self.last = layers

    def forward(self, x):
        return self.last(pd.tanh(self.second(self.first(x))))


def nets(kind):
    """Two networks; the second shares a layer that keeps state with the first."""
    norm = pd.nn.BatchNorm1d(momentum=0.5)
    head = pd.nn.FC(2)
    if kind == 0:
        first = pd.nn.Sequential(pd.nn.FC(4), norm, pd.nn.ReLU(), pd.nn.BatchNorm1d(), head)
        return first, pd.nn.Sequential(norm, pd.nn.FC(2))
    if kind == 1:
        return Own(pd.nn.FC(4), norm, head), pd.nn.Sequential(norm, norm, pd.nn.FC(2))
    if kind == 2:
        normed = pd.nn.SpectralNorm(pd.nn.FC(4, "tanh"))
        return pd.nn.Sequential(normed, head), Own(normed, Centred(), pd.nn.FC(2))
    if kind == 3:
        return Own(Recurrent(), norm, head), pd.nn.Sequential(pd.nn.Dropout(0.5), norm, head)
    images = Pictures(), pd.nn.BatchNorm2d(), pd.nn.Flatten(), norm
    return pd.nn.Sequential(*images, head), Own(Centred(), norm, pd.nn.Dropout(0.5))


class Loop:
    """Random steps, and all that is seen of them."""

    def __init__(self, seed):
        self.rng, self.seen, self.kept = np.random.default_rng(seed), [], []
        self.nets = nets(seed % 5)
        self.rules = pd.MomentumOptimizer(0.1, 0.9), pd.AdamOptimizer(0.05)
        for net in self.nets:
            net(pd.constant(np.zeros((2, 4), f32)))  # builds its parameters
        self.table = pd.nn.Embedding(3, 4)
        kinds = self.rng.integers(len(self.STEPS), size=2)
        self.kinds = [list(self.STEPS)[k] for k in kinds]

    def chance(self, p):
        return self.rng.random() < p

    def batch(self):
        return self.rng.standard_normal((int(self.rng.integers(3, 5)), 4)).astype(f32)

    def loss(self, net, x):
        return pd.reduce_mean(pd.square(net(x)))

    def plain(self, net, rule):
        rule.minimize(self.loss(net, self.batch()))

    def backward(self, net, rule):
        loss = self.loss(net, self.batch())
        loss.backward()
        if self.chance(0.3):
            self.disturb(net)
        rule.minimize(loss)
        net.clear_gradients()

    def twice(self, net, rule):
        """Two forward passes before a step, as on true and made pictures."""
        first, second = net(self.batch()), net(self.batch())
        rule.minimize(pd.reduce_mean(pd.square(first)) - pd.reduce_mean(pd.square(second)))

    def accumulated(self, net, rule):
        for _ in range(2):
            loss = self.loss(net, self.batch())
            loss.backward()
        rule.minimize(loss)
        net.clear_gradients()

    def apart(self, net, rule):
        """Losses of several passes, which are computed in another order."""
        losses = [self.loss(net, self.batch()) for _ in range(2)]
        net.eval()
        rest = net(self.batch())
        net.train()
        if self.chance(0.5):
            self.seen.append(float(losses[1]))
        for loss in losses:
            rule.minimize(loss)
        self.seen.append(rest.numpy())

    def looked_at(self, net, rule):
        x = self.batch()
        y = net(x)
        loss = pd.reduce_mean(pd.square(y))
        self.seen.append(float(loss))
        if self.chance(0.5):
            self.kept.append(y)
        rule.minimize(loss)

    def failing(self, net, rule):
        """A step that raises behind the layers that keep state."""
        y = net(self.table(np.array([0, 1, 2 if self.chance(0.5) else 7])))
        try:
            rule.minimize(pd.reduce_mean(pd.square(y)))
        except (pd.OutOfRange, BackendError):
            self.seen.append("failed")

    STEPS = {
        f.__name__: f for f in (plain, backward, twice, accumulated, apart, looked_at, failing)
    }

    def disturb(self, net):
        """Something between steps, or between the passes of one."""
        kind, buffers = self.rng.integers(7), net.buffers()
        if kind == 0:
            self.seen += [v.numpy() for v in buffers]
        elif kind == 1:
            pd.default_session().set(buffers[0], self.rng.random(buffers[0].shape).astype(f32))
        elif kind == 2:
            net.load_dict({k: v * f32(0.5) for k, v in net.state_dict().items()})
        elif kind == 3:
            net.eval()
            self.seen.append(net(self.batch()).numpy())
            net.train()
        elif kind == 4:
            with pd.no_grad():
                self.kept.append(net(self.batch()))  # moves the statistics
        elif kind == 5:
            v = net.parameters()[0]
            v.trainable = not v.trainable
        else:
            node = net(self.batch()).node  # somebody walks through the graph
            self.seen.append(node.op_type)

    def run(self, steps):
        for _ in range(steps):
            k = int(self.rng.integers(2))
            self.STEPS[self.kinds[k]](self, self.nets[k], self.rules[k])
            if self.chance(0.25):
                self.disturb(self.nets[k])
            if self.chance(0.2):
                self.seen += [y.numpy() for y in self.kept]
                self.kept = []
        self.seen += [v for net in self.nets for v in net.state_dict().values()]
        return self.seen


@pytest.fixture
def slow(monkeypatch):
    """A context without patterns and templates."""

    def begin():
        monkeypatch.setattr(Pattern, "fits", lambda trace: False)
        monkeypatch.setattr(learning, "keep", lambda *_: None)
        monkeypatch.setattr(learning, "make", lambda *_: None)
        monkeypatch.setattr(recorder, "find", lambda key: None)
        monkeypatch.setattr(recorder, "known", lambda key: None)

    yield begin
    monkeypatch.undo()


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_loop_with_state(seed, slow):
    found = []
    for fast in (True, False):
        if not fast:
            slow()
        with pd.fresh(seed=seed), pd.guard():
            loop = Loop(seed)
            found.append(loop.run(8))
    assert len(found[0]) == len(found[1])
    # a program that fetches gradients may round others than one that does not
    rounds = not {"backward", "accumulated"}.isdisjoint(loop.kinds)
    for k, (a, b) in enumerate(zip(*found, strict=True)):
        if rounds and not isinstance(a, str):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6, err_msg=f"number {k}")
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"number {k}")
