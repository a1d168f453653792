"""Functions whose digits, quadrants or corners the rows of the tables do not reach."""

import numpy as np
import pytest

import pd_core as pd

SMALL = np.array([1e-30, -1e-12, 3e-8, -1e-4, 1e-2, 0.7, -0.5, 0.0], "float32")


def test_log1p_and_expm1_keep_all_digits_near_zero():
    x = pd.Variable([None])
    values = [pd.log1p(x), pd.expm1(x)]
    slopes = [pd.gradients(y, [x])[0] for y in values]
    got = pd.eval([*values, *slopes], feeds={x: SMALL})
    wide = SMALL.astype("float64")
    wanted = [np.log1p(wide), np.expm1(wide), 1 / (1 + wide), np.exp(wide)]
    for value, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(value, want, rtol=5e-7)


def test_log1p_and_expm1_far_out():
    x = np.array([-1.0, np.inf, 1e30, -0.9999], "float32")
    np.testing.assert_allclose(
        pd.eval(pd.log1p(x)), [-np.inf, np.inf, np.log(1e30), np.log1p(np.float64(x[3]))], rtol=1e-6
    )
    y = np.array([-200.0, 200.0, -np.inf, -20.0, 20.0], "float32")
    want = [-1.0, np.inf, -1.0, np.expm1(-20.0), np.expm1(20.0)]
    np.testing.assert_allclose(pd.eval(pd.expm1(y)), want, rtol=1e-6)


def test_gradient_of_atan2_on_axes_and_diagonals():
    y, x = pd.Variable([None]), pd.Variable([None])
    points = np.array([[0, 0, 2, -2, 1, -1, 1, -1], [2, -2, 0, 0, 1, 1, -1, -1]], "float32")
    gradients = pd.gradients(pd.atan2(y, x), [y, x])
    dy, dx = pd.eval(gradients, feeds={y: points[0], x: points[1]})
    squares = (points**2).sum(0)
    np.testing.assert_allclose(dy, points[1] / squares, rtol=1e-6)
    np.testing.assert_allclose(dx, -points[0] / squares, rtol=1e-6)
    origin = {y: np.zeros(1, "float32"), x: np.zeros(1, "float32")}
    assert pd.eval([pd.atan2(y, x), *gradients], feeds=origin) == [0, 0, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_atan2_of_infinities(dtype):
    y, x = (pd.Variable([None], dtype=dtype) for _ in range(2))
    numbers = np.array([np.inf, -np.inf, 2.0, -1.0, np.nan], dtype)
    a, b = (v.ravel() for v in np.meshgrid(numbers, numbers))
    got, *slopes = pd.eval([pd.atan2(y, x), *pd.gradients(pd.atan2(y, x), [y, x])], {y: a, x: b})
    np.testing.assert_allclose(got, np.arctan2(a, b), rtol=2e-3 if dtype == "float16" else 1e-6)
    finite = np.isfinite(a) & np.isfinite(b)
    assert all(np.isfinite(s[finite]).all() for s in slopes)


def test_ctc_in_float16():
    steps = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.7, 0.2], [0.5, 0.2, 0.3]]))
    found = []
    for dtype in ("float32", "float16"):
        x = pd.Variable([4, 3], dtype=dtype)
        loss = pd.ctc_loss(x, np.array([1, 2, 1]), pd.Segments([3, 1]), pd.Segments([2, 1]))
        found.append(pd.eval([loss, *pd.gradients(loss, [x])], {x: steps}))
        assert found[-1][0].dtype == dtype
    for wide, half in zip(*found, strict=True):
        np.testing.assert_allclose(half, wide, rtol=5e-3, atol=1e-3)


def test_atan2_and_log_softmax_of_nan():
    y, x = pd.Variable([None]), pd.Variable([None])
    nan = np.nan
    got = pd.eval(pd.atan2(y, x), {y: [nan, nan, nan, 0, 1], x: [0, 1, nan, nan, nan]})
    assert np.isnan(got).all()
    for dtype in ("float32", "float64"):
        z = pd.Variable([None, 3], dtype=dtype)
        logits = np.array([[nan, 1, 2], [0, 1, 2]], dtype)
        cost = pd.softmax_cross_entropy(z, np.array([1, 1]))
        for value in pd.eval([pd.log_softmax(z), cost], {z: logits}):
            assert np.isnan(value[0]).all() and np.isfinite(value[1]).all()


@pytest.mark.parametrize("check_numerics", [False, True])
def test_binary_cross_entropy_of_certain_probabilities(check_numerics):
    """0 ln 0 is 0: what is certain and right costs nothing, and still has a gradient."""
    p = pd.Variable.of(("N",), np.float32, "p")
    t = pd.constant(np.float32([1.0, 0.0, 1.0, 0.25]))
    y = pd.binary_cross_entropy(p, t)
    targets = [y, *pd.gradients(y, [p])]
    session = pd.Session(check_numerics=check_numerics)
    value, slope = session.eval(targets, {p: np.float32([1.0, 0.0, 0.5, 0.5])})
    np.testing.assert_allclose(value, [0.0, 0.0, np.log(2), np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(slope, [-1.0, 1.0, -2.0, 1.0], rtol=1e-6)
