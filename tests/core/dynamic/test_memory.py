"""What is recorded is freed by reference counts, whatever is held of it."""

import gc
from weakref import ref

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic.state import current_state

f32 = np.float32


class Iteration:
    """One iteration of a kind; `held` is what a program holds from one to the next."""

    def __init__(self):
        layers = [pd.nn.FC(6), pd.nn.BatchNorm1d(), pd.nn.ReLU(), pd.nn.Dropout(0.3), pd.nn.FC(1)]
        self.net, self.rule = pd.nn.Sequential(*layers), pd.AdamOptimizer(0.01)
        self.held, self.total, self.losses = None, 0.0, []
        self.samples = np.ones((4, 3), f32)

    def loss(self):
        self.held = self.net(self.samples)
        return pd.reduce_mean(pd.square(self.held - 1.0))

    def trained(self):
        loss = self.loss()
        loss.backward()
        self.rule.minimize(loss)
        self.net.clear_gradients()

    def fused(self):
        self.rule.minimize(self.loss())

    def forward(self):
        self.loss().numpy()

    def failed(self):
        try:
            loss = self.loss()
            loss.numpy()
            raise ValueError
        except ValueError:
            pass

    def summed(self):
        loss = self.loss()
        loss.backward()
        self.total = self.total + loss.detach()
        float(self.total)

    def appended(self):
        loss = self.loss()
        loss.backward()
        self.losses = [*self.losses[-3:], loss]

    def second_order(self):
        x = pd.to_variable(self.samples)
        x.stop_gradient = False
        (g,) = pd.gradients(pd.reduce_sum(self.net(x)), [x])
        pd.reduce_sum(g * g).backward()


KINDS = ["trained", "fused", "forward", "failed", "summed", "appended", "second_order"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_iteration_leaves_nothing(kind):
    with pd.guard():
        iteration = Iteration()
        run = getattr(iteration, kind)
        for _ in range(20):
            run()
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            for _ in range(100):
                run()
            assert len(gc.get_objects()) - before < 100
            assert gc.collect() < 50
        finally:
            gc.enable()
        state = current_state()
        assert len(state.pending) <= 2 and len(state.gradients) <= 12


def test_intermediates_and_arrays_are_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        with pd.guard():
            w = pd.Variable(data=np.ones(3, f32))
            arrays = []
            for _ in range(3):  # the first compiles
                x = pd.to_variable(np.ones(3, f32))
                h = x * w
                loss = pd.reduce_sum(h)
                loss.backward()
                assert loss.numpy() == 3
                references = [ref(x), ref(h), ref(loss), ref(loss.eager_value)]
                arrays.append(ref(x.eager_value))
                del x, h, loss
            assert [r() for r in references] == [None] * 4
            assert arrays[1]() is None  # the runtime keeps what it was given last
    finally:
        gc.enable()


def test_a_running_sum_that_nobody_looks_at_does_not_grow(no_programs):
    with pd.guard():
        iteration = Iteration()
        iteration.net.eval()
        with pd.no_grad():
            total, waiting = 0.0, []
            for _ in range(300):
                loss = iteration.loss()
                waiting = [r for r in waiting if r() is not None] + [ref(loss)]
                total = total + loss
                assert len(waiting) < 200
            compiled = pd.stats()["compiled"]
            assert compiled < 5
            expected = 300 * float(iteration.loss())
        assert np.isclose(float(total), expected, rtol=1e-4)


def test_long_chains_are_computed_in_parts():
    with pd.guard(), pd.no_grad():
        x, before = pd.to_variable(f32(0)), pd.stats()["evaluations"]
        for _ in range(3000):
            x = x + 1.0
        assert float(x) == 3000
        assert pd.stats()["evaluations"] - before < 6
