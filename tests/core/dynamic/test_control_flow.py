"""Loops and branches inside a guard: bodies that read values and parameters of outside."""

import numpy as np
import pytest

import pd_core as pd

from .compare import differences

torch = pytest.importorskip("torch")
f32 = np.float32
U = (np.random.default_rng(0).standard_normal((4, 4)) * 0.4).astype(f32)
SHAPES = [(3, 2, 4), (5, 2, 4), (2, 3, 4), (4, 1, 4), (1, 2, 4), (6, 5, 4), (3, 2, 4)]


def scan(x, u):
    mean, size = pd.reduce_mean(x, 0), 0.3 * x.shape[0]

    def step(h, s):
        h = pd.tanh(pd.matmul(h, u) + s * mean) * size
        return h, h

    return pd.scan(step, mean * 0.1, x)[1]


def scan_wanted(x, u):
    h, every = x.mean(0) * 0.1, []
    for s in x:
        h = torch.tanh(h @ u + s * x.mean(0)) * (0.3 * x.shape[0])
        every.append(h)
    return torch.stack(every)


def while_loop(x, u):
    def body(i, h):
        return i + 1, pd.tanh(pd.matmul(h, u)) + x

    return pd.while_loop(lambda i, h: i < 3, body, [np.int64(0), x])[1]


def while_wanted(x, u):
    h = x
    for _ in range(3):
        h = torch.tanh(h @ u) + x
    return h


def for_loop(x, u):
    return pd.for_loop(4, lambda i, h: (pd.tanh(pd.matmul(h, u)) + x, h), x * 1.0)[0]


def for_wanted(x, u):
    h = x * 1.0
    for _ in range(4):
        h = torch.tanh(h @ u) + x
    return h


def cond(x, u):
    return pd.cond(pd.reduce_sum(x) > 0.0, lambda: pd.matmul(x, u), lambda: x * 2.0)


def cond_wanted(x, u):
    return x @ u if x.sum() > 0 else x * 2


def ifelse(x, u):
    x = pd.reshape(x, [-1, 4])
    rows = pd.ifelse(pd.reduce_sum(x, 1) > 0.0)
    with rows.true_block():
        rows.output(pd.matmul(rows.input(x), u))
    with rows.false_block():
        rows.output(rows.input(x) * 2.0)
    return rows()[0]


def ifelse_wanted(x, u):
    x = x.reshape(-1, 4)
    return torch.where(x.sum(1, keepdim=True) > 0, x @ u, x * 2)


CASES = {
    "scan": (scan, scan_wanted),
    "while_loop": (while_loop, while_wanted),
    "for_loop": (for_loop, for_wanted),
    "cond": (cond, cond_wanted),
    "ifelse": (ifelse, ifelse_wanted),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    assert differences(*CASES[case], SHAPES, (U,))[0] < 1e-4


def test_numbers_in_a_body_are_of_their_line(no_programs):
    with pd.guard():
        x = pd.to_variable(np.ones((3, 2), f32))
        for k in range(14):
            if k == 9:
                compiled = pd.stats()["compiled"]
            rate = 0.1 * k

            def step(h, s, rate=rate):
                return h * rate + s, h

            last, _ = pd.scan(step, pd.to_variable(np.zeros(2, f32)), x)
            assert np.allclose(last.numpy(), rate * rate + rate + 1)
        assert pd.stats()["compiled"] == compiled


def test_parameters_in_a_body_are_of_their_line():
    w, rule = pd.Variable("w", data=f32(2)), pd.SGDOptimizer(0.1)
    with pd.guard():
        kept = []
        for _ in range(3):
            x = pd.to_variable(np.ones(3, f32))
            last, _ = pd.scan(lambda h, s: (h * w + s, h), pd.to_variable(f32(0)), x)
            value = w.numpy()
            kept.append((last, value * value + value + 1))
            loss = last * 1.0
            loss.backward()
            assert np.isclose(w.gradient(), 2 * value + 1)
            rule.minimize(loss)
            w.clear_gradient()
        assert all(np.isclose(last.numpy(), want) for last, want in kept)


def test_python_decides_by_values():
    w = pd.Variable("w", data=f32(3))
    with pd.guard():
        h, steps = w * 1.0, 0
        while h > 0.5:
            h, steps = h * 0.5, steps + 1
        h.backward()
        assert steps == 3 and w.gradient() == 0.125
