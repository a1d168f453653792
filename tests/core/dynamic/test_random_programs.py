"""Random recorded programs beside the same in PyTorch.

`PD_RANDOM_PROGRAMS` is the number of programs, 12 by default.
"""

import os

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.session import default_session

torch = pytest.importorskip("torch")
f32 = np.float32
COUNT = int(os.environ.get("PD_RANDOM_PROGRAMS", "12"))
RATE = 0.05


class Program:
    """Parameters, and what a random program holds of them; a pair is (Variable, tensor)."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        values = [self.rng.standard_normal((4, 4)) * 0.5 for _ in range(3)]
        values += [np.array(0.7), self.rng.standard_normal(4)]
        self.own = [pd.Variable(f"p{k}", data=v.astype(f32)) for k, v in enumerate(values)]
        self.others = [torch.tensor(v, requires_grad=True) for v in values]
        self.frozen = [False] * len(values)
        self.kept = []  # (Variable, its value when it was recorded)
        self.rule = pd.SGDOptimizer(RATE)

    def chance(self, p):
        return self.rng.random() < p

    def check(self, value, want, what):
        want = want.detach().numpy() if isinstance(want, torch.Tensor) else want
        assert np.allclose(value, want, rtol=2e-3, atol=2e-4), what

    # ---- lines

    def read(self, k):
        """A parameter, and its value at this line."""
        copy = self.others[k].clone()
        return self.own[k], copy.detach() if self.frozen[k] else copy

    def line(self, pool):
        """A pair computed from earlier ones."""
        a, t = pool[-1 if self.chance(0.4) else self.rng.integers(len(pool))]
        kind, number = self.rng.integers(12), float(self.rng.normal())
        if kind <= 2:
            w, v = self.read(kind)
            return pd.matmul(a, w), t @ v
        if kind == 3:
            return pd.tanh(a), torch.tanh(t)
        if kind == 4:
            return pd.relu(a), torch.relu(t)
        if kind == 5:
            b, u = pool[self.rng.integers(len(pool))]
            return (pd.tanh(a * b), torch.tanh(t * u)) if t.shape == u.shape else (a, t)
        if kind == 6:
            return a * number + 0.5, t * number + 0.5
        if kind == 7:
            w, v = self.read(3)
            return a * w, t * v
        if kind == 8:
            w, v = self.read(4)
            return a + w, t + v
        if kind == 9:
            return a.detach() if self.chance(0.5) else pd.stop_gradient(a), t.detach()
        if kind == 10:
            with pd.no_grad():
                w, v = self.read(0)
                return pd.matmul(a, w) * 0.1, (t @ v * 0.1).detach()
        return pd.softmax(a), torch.softmax(t, -1)

    def expression(self, rows, pool):
        array = self.rng.standard_normal((rows, 4)).astype(f32)
        pool = [(pd.to_variable(array), torch.tensor(array, dtype=torch.float64)), *pool]
        for _ in range(self.rng.integers(2, 9)):
            pool.append(self.line(pool))
            if self.chance(0.15):
                self.look(*pool[-1])
            if self.chance(0.1):
                self.keep(pool[-1])
        return pool[-1]

    def keep(self, pair):
        self.kept.append((pair[0], pair[1].detach().numpy().copy()))

    def look(self, v, t):
        kind = self.rng.integers(4)
        if kind == 0:
            self.check(v.numpy(), t, "value")
        elif kind == 1:
            assert v.name in repr(v)
        elif kind == 2:
            assert v.shape == tuple(t.shape) and len(v) == len(t)
        else:
            for row, want in zip(v, t, strict=True):
                self.check(row.numpy(), want, "row")

    # ---- changes

    def flip(self):
        k = self.rng.integers(len(self.own))
        self.frozen[k] = not self.frozen[k]
        self.own[k].trainable = not self.frozen[k]

    def assign(self):
        k = self.rng.integers(len(self.own))
        value = (self.rng.standard_normal(self.own[k].shape) * 0.5 + np.zeros(())).astype(f32)
        if self.chance(0.5):
            pd.eval(pd.assign(self.own[k], value))
        else:
            default_session().set(self.own[k], value)
        self.others[k].data = torch.tensor(value, dtype=torch.float64)

    def clear(self):
        for v, t in zip(self.own, self.others, strict=True):
            v.clear_gradient()
            t.grad = None

    def step(self, chosen, rate):
        for k in chosen:
            if self.others[k].grad is not None and not self.frozen[k]:
                self.others[k].data -= rate * self.others[k].grad

    def fused(self, loss, cost):
        """`minimize` without `backward`, which leaves gradients as they are."""
        before = [t.grad for t in self.others]
        for t in self.others:
            t.grad = None
        cost.backward()
        every = range(len(self.own))
        chosen = [k for k in every if self.chance(0.5)] if self.chance(0.5) else list(every)
        used = [k for k in chosen if self.others[k].grad is not None and not self.frozen[k]]
        rate = self.rule.learning_rate = RATE if self.chance(0.5) else RATE * self.rng.integers(9)
        try:
            self.rule.minimize(loss, var_list=[self.own[k] for k in chosen])
        except pd.GraphError:
            assert not used
        self.step(used, rate)
        self.rule.learning_rate = RATE
        for t, gradient in zip(self.others, before, strict=True):
            t.grad = gradient

    def train(self, loss, cost):
        kind = self.rng.integers(4)
        if kind == 0:  # gradients accumulate
            loss.backward()
            cost.backward()
        elif kind == 1:
            loss.backward(retain_graph=True)
            cost.backward(retain_graph=True)
            if self.chance(0.5):
                self.assign()
            loss.backward()
            cost.backward()
        elif kind == 2:
            self.clear()
            loss.backward()
            cost.backward()
            used = [k for k, t in enumerate(self.others) if t.grad is not None]
            try:
                self.rule.minimize(loss)
            except pd.GraphError:
                assert all(self.frozen[k] for k in used)
            self.step(used, RATE)
        else:
            self.fused(loss, cost)

    # ---- the program

    def iteration(self):
        rows, pool = int(self.rng.integers(1, 5)), []
        if self.chance(0.4):
            self.flip()
        if self.chance(0.5):
            pool = [self.expression(rows, [])]
        if self.chance(0.25):
            self.assign()
        v, t = self.expression(rows, pool)
        if self.chance(0.2):
            self.flip()
            w, u = self.expression(rows, pool)
            v, t = v * w, t * u
        loss, cost = pd.reduce_mean(pd.square(v)), (t**2).mean()
        if self.chance(0.3):
            self.check(float(loss), cost, "cost")
        if cost.requires_grad:
            self.train(loss, cost)
        else:
            with pytest.raises(pd.GraphError):
                loss.backward()
        if self.chance(0.5):
            self.check_all()
        if pool and self.chance(0.5):
            self.keep(pool[0])

    def check_all(self):
        for k, (v, t) in enumerate(zip(self.own, self.others, strict=True)):
            self.check(v.numpy(), t, f"parameter {k}")
            gradient = 0 if v.gradient() is None else v.gradient()
            self.check(gradient, 0 * t if t.grad is None else t.grad, f"gradient {k}")
        for v, want in self.kept:
            self.check(v.numpy(), want, "an earlier line")
        self.kept = []


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_program(seed):
    with pd.guard(immediate=seed % 4 == 3):
        program = Program(seed)
        for _ in range(6):
            program.iteration()
        program.check_all()
