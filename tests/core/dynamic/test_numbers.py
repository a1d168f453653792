"""Numbers that change from line to line: never stale, and no program for each."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32
X = np.arange(1, 5, dtype=f32)
# name: (with Variables, with NumPy)
LINES = {
    "an int": (lambda x, k: x * k, lambda x, k: x * k),
    "a float64": (lambda x, k: x / np.sqrt(k + 1), lambda x, k: x / np.sqrt(k + 1)),
    "a float32": (lambda x, k: f32(k) - x, lambda x, k: k - x),
    "an exponent": (lambda x, k: x ** (k * 0.1), lambda x, k: x ** (k * 0.1)),
    "a base": (lambda x, k: (1 + k * 0.1) ** x, lambda x, k: (1 + k * 0.1) ** x),
    "a limit": (lambda x, k: pd.clip(x, -k * 0.1, k * 0.2), lambda x, k: x.clip(-k * 0.1, k * 0.2)),
    "a bound": (lambda x, k: x > k * 0.3, lambda x, k: x > f32(k * 0.3)),
    "a choice": (
        lambda x, k: pd.where(x > 2.0, x, k * 0.1),
        lambda x, k: np.where(x > 2, x, f32(k * 0.1)),
    ),
    "a maximum": (lambda x, k: pd.maximum(x, k * 0.1), lambda x, k: np.maximum(x, k * 0.1)),
    "two": (lambda x, k: x * (k * 0.1) + k * 0.2, lambda x, k: x * (k * 0.1) + k * 0.2),
    "one of two": (lambda x, k: (x * 0.55) * (k * 0.37), lambda x, k: x * 0.55 * (k * 0.37)),
}


@pytest.mark.parametrize("line", LINES)
def test_a_number_that_changes(line, no_programs):
    recorded, want = LINES[line]
    with pd.guard():
        x = pd.to_variable(X)
        for k in range(16):
            if k == 8:
                compiled = pd.stats()["compiled"]
            assert np.allclose(recorded(x, k).numpy(), want(X, k), rtol=1e-5), k
        assert pd.stats()["compiled"] == compiled


def test_an_int_is_no_float_where_it_stands_for_an_integer():
    with pd.guard():
        n = pd.to_variable(np.array([1, 2]))
        for k in range(8):
            y = n * k
            assert y.dtype == np.int64 and y.numpy().tolist() == [k, 2 * k]


def test_signs_of_zero_and_kinds_of_one_are_kept():
    with pd.guard():
        x = pd.to_variable(np.ones(1, f32))
        for zero in (0.0, -0.0, 0, 0.0, -0.0):
            assert np.signbit((x * zero).numpy()[0]) == np.signbit(zero)


def test_arrays_beside_float64_have_all_of_their_digits(rng):
    with pd.guard():
        v = pd.Variable(data=rng.normal(size=(3, 3)), dtype="float64")
        w = np.asarray(v)
        for _ in range(3):
            c = rng.normal(size=(3, 3))
            for f in (np.add, np.multiply, np.divide, np.matmul, np.maximum):
                np.testing.assert_allclose(f(v, c), f(w, c), rtol=1e-14, atol=1e-15)
                np.testing.assert_allclose(f(c, v), f(c, w), rtol=1e-14, atol=1e-15)
            (g,) = pd.gradients(pd.reduce_sum(v * c), [v])
            np.testing.assert_array_equal(g, c)
