"""Initial value problems, beside closed forms, SciPy's solver and finite differences."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd

TIMES = np.linspace(0, 10, 7)


def van_der_pol(stiffness):
    def slope(t, y):
        return pd.stack([y[1], stiffness * (1.0 - y[0] * y[0]) * y[1] - y[0]], 0)

    return slope


def test_adaptive_steps_and_their_gradients_beside_scipy():
    solve_ivp = pytest.importorskip("scipy.integrate").solve_ivp
    start, stiffness = np.array([2.0, 0.1]), 1.3

    def solved(start, stiffness):
        def slope(t, y):
            return [y[1], stiffness * (1 - y[0] ** 2) * y[1] - y[0]]

        return solve_ivp(slope, (0, 10), start, t_eval=TIMES, rtol=1e-10, atol=1e-10).y.T

    y0, a = pd.Variable([2], dtype="float64"), pd.Variable([], dtype="float64")
    y = pd.odeint(van_der_pol(a), y0, pd.constant(TIMES, "float64"), 1e-8, 1e-8)
    slopes = pd.gradients(pd.reduce_sum(y[-1]), [y0, a])
    values, dy0, da = pd.eval([y, *slopes], {y0: start, a: stiffness})
    np.testing.assert_allclose(values, solved(start, stiffness), atol=1e-6)

    def change(ds, da, h=1e-4):
        ends = [solved(start + k * h * ds, stiffness + k * h * da)[-1].sum() for k in (1, -1)]
        return (ends[0] - ends[1]) / (2 * h)

    np.testing.assert_allclose(dy0, [change(d, 0) for d in np.eye(2)], rtol=1e-5)
    np.testing.assert_allclose(da, change(np.zeros(2), 1), rtol=1e-5)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4)])
def test_errors_of_fixed_steps_fall_with_their_order(method, order):
    times = pd.constant([0.0, 0.5, 1.0], "float64")
    errors = []
    for steps in (8, 16):
        y = pd.odeint(
            lambda t, y: t * y, pd.constant(1.0, "float64"), times, method=method, steps=steps
        )
        errors.append(abs(pd.eval(y)[-1] - np.exp(0.5)))
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.25


@pytest.mark.parametrize("method", ["dopri5", "rk4"])
def test_backwards_in_time(method):
    y = pd.odeint(lambda t, y: -y, np.exp(-1.0), [1.0, 0.5, 0.0], method=method, steps=20)
    np.testing.assert_allclose(pd.eval(y), np.exp([-1, -0.5, 0]), rtol=1e-4)


def test_the_gradient_in_the_times_is_the_slope():
    times = pd.Variable([None])
    y = pd.odeint(lambda t, y: -y, 1.0, times)
    g = pd.gradients(y[-1], [times])[0]
    np.testing.assert_allclose(
        pd.eval(g, {times: np.float32([0, 0.5, 1])}), [np.exp(-1), 0, -np.exp(-1)], atol=1e-4
    )


def test_too_few_steps_give_nan():
    y = pd.eval(pd.odeint(lambda t, y: -1000.0 * y, 1.0, [0.0, 1e-4, 100.0, 200.0], max_steps=20))
    assert np.isfinite(y).tolist() == [True, True, False, False]


def test_a_network_learns_a_spiral(tmp_path):
    """A neural ODE (Chen et al. 2018), exported and run by plain ONNX Runtime."""
    pd.reset(seed=0)
    times = np.linspace(0, 1, 5).astype(np.float32)
    turn = np.array([[-0.3, 2.0], [-2.0, -0.3]])
    start = np.float32([[1, 0], [0, 1], [-1, 1]])
    w, v = np.linalg.eig(turn)
    truth = np.stack(
        [(start @ (v @ np.diag(np.exp(w * t)) @ np.linalg.inv(v)).real) for t in times]
    )
    net = pd.nn.Sequential(pd.nn.FC(16, act="tanh"), pd.nn.FC(2))
    y0 = pd.Variable("start", shape=[3, 2])
    y = pd.odeint(lambda t, y: net(y), y0, times, 1e-3, 1e-4)
    cost = pd.reduce_mean(pd.square(y - truth.astype(np.float32)))
    step = pd.AdamOptimizer(0.03).minimize(cost)
    costs = [float(pd.eval([step, cost], {y0: start})[1]) for _ in range(60)]
    assert costs[-1] < 0.05 * costs[0]
    pd.export_onnx(str(tmp_path / "ode.onnx"), [y], inputs=[y0])
    plain = onnxruntime.InferenceSession(tmp_path / "ode.onnx", providers=["CPUExecutionProvider"])
    found = plain.run(None, {"start": start})[0]
    np.testing.assert_allclose(found, pd.eval(y, {y0: start}), rtol=1e-5, atol=1e-6)


def test_values_at_hand():
    with pd.guard():
        rate = pd.to_variable(np.float32(-1))
        rate.stop_gradient = False
        y = pd.odeint(lambda t, y: rate * y, 1.0, [0.0, 1.0])
        y[-1].backward()
        np.testing.assert_allclose(y.numpy()[-1], np.exp(-1), rtol=1e-4)
        np.testing.assert_allclose(rate.gradient(), np.exp(-1), rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((np.int64([1]), [0.0, 1.0]), {}, pd.DTypeError, "odeint: takes floats"),
        ((1.0, [0.0]), {}, pd.ShapeError, "odeint: takes two times or more"),
        ((1.0, [[0.0, 1.0]]), {}, pd.ShapeError, "odeint: takes two times or more"),
        (([1.0, 2.0], [0.0, 1.0]), {"f": lambda t, y: y[0]}, pd.ShapeError, "gave .* for y"),
        ((1.0, [0.0, 1.0]), {"method": "rk45"}, ValueError, "the method is dopri5, euler or rk4"),
        ((1.0, [0.0, 1.0]), {"max_steps": 0}, ValueError, "takes a step or more, not 0"),
    ],
)
def test_misuse(arguments, options, error, message):
    options = {"f": lambda t, y: y} | options
    with pytest.raises(error, match=message):
        pd.odeint(options.pop("f"), *arguments, **options)
