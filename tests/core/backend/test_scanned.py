"""Steps in one program: Session.run_steps takes the steps of a loop in NumPy."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def test_momentum_of_a_regression():
    """The velocity and the weight go from step to step, fetches are those before each of them."""
    rng = np.random.default_rng(0)
    x, y = pd.Variable([None, 3]), pd.Variable([None])
    w = pd.Variable("w", data=np.zeros(3, f32))
    error = pd.reduce_sum(x * w, [1]) - y
    cost = pd.reduce_mean(pd.square(error))
    update = pd.MomentumOptimizer(0.1, 0.9).minimize(cost)
    held, velocity = np.zeros(3), np.zeros(3)
    for steps in (1, 4, 7):
        a, b = rng.standard_normal((steps, 5, 3)), rng.standard_normal((steps, 5))
        costs, before, _ = pd.run_steps([cost, w, update], {x: a.astype(f32), y: b.astype(f32)})
        for k in range(steps):
            np.testing.assert_allclose(before[k], held, rtol=1e-4, atol=1e-6)
            d = a[k] @ held - b[k]
            np.testing.assert_allclose(costs[k], (d**2).mean(), rtol=1e-4)
            velocity = 0.9 * velocity + 2 * a[k].T @ d / 5
            held = held - 0.1 * velocity
        np.testing.assert_allclose(w.val(), held, rtol=1e-4, atol=1e-6)


def test_a_variable_without_a_value_is_carried():
    """Its first value is written in the first step, and the later ones may read it."""
    x = pd.Variable([])
    last, total = pd.Variable("last", shape=[2]), pd.Variable("total", data=f32(1.0))
    new = total * 2.0 + x
    found = pd.run_steps(
        [new, pd.assign(total, new), pd.assign(last, new + np.array([0, 1], f32))], {x: [1, 2, 3]}
    )
    assert found[0].tolist() == [3.0, 8.0, 19.0]
    assert total.val() == 19.0 and last.val().tolist() == [19.0, 20.0]


def test_swapped_variables():
    """All that a step writes is computed from the values before it."""
    x = pd.Variable([])
    a, b = pd.Variable("a", data=f32(1.0)), pd.Variable("b", data=f32(10.0))
    seen = pd.run_steps([a, b, pd.assign(a, b + x), pd.assign(b, a)], {x: [1, 2, 3, 4]})
    first, second, pairs = 1.0, 10.0, []
    for k in (1, 2, 3, 4):
        pairs.append((first, second))
        first, second = second + k, first
    assert [*zip(seen[0].tolist(), seen[1].tolist(), strict=True)] == pairs
    assert (a.val(), b.val()) == (first, second)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_loop_inside_the_steps(device):
    """The body of a body reads a carried variable and a feed of the step."""
    with pd.fresh(device=device):
        xs = pd.Variable([3])
        w = pd.Variable("w", data=f32(0.5))
        last, _ = pd.scan(lambda s, v: (s * w + v, None), pd.constant(f32(0.0)), xs)
        a = np.array([[1, 2, 3], [0, -1, 4]], f32)
        found, _ = pd.run_steps([last, pd.assign(w, w + last)], {xs: a})
        held, want = 0.5, []
        for row in a:
            s = 0.0
            for v in row:
                s = s * held + v
            want.append(s)
            held += s
        np.testing.assert_allclose(found, want, rtol=1e-6)
        np.testing.assert_allclose(w.val(), held, rtol=1e-6)
