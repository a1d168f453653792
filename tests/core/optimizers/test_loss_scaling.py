"""Scaled losses: steps that are skipped, and how the scale changes."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from pd_core.optimizers.base import Optimizer


def scaled(growth_interval=3, initial_scale=8.0, optimizer=None):
    """A cost with one weight whose gradient is the sum of x, and its scaled update."""
    x = pd.Variable([None], name="x")
    w = pd.get_variable("w", data=np.array([1.0], "float32"))
    cost = pd.reduce_sum(w * x)
    optimizer = optimizer or pd.MomentumOptimizer(0.5, 0.9, name="optimizer")
    scaler = pd.LossScaler(optimizer, initial_scale, growth_interval=growth_interval, name="scaler")
    return x, w, cost, scaler


INPUTS = [1.0, 2.0, np.inf, 1.0, np.nan, 1.0, 1.0, 1.0, 1.0]


def expected():
    """(weight, scale, good steps) after each of the inputs, by the rules of GradScaler."""
    w, v, scale, good, rows = 1.0, 0.0, 8.0, 0, []
    for g in INPUTS:
        if np.isfinite(g):
            v = 0.9 * v - 0.5 * g
            w, good = w + v, good + 1
            if good == 3:
                scale, good = 2 * scale, 0
        else:
            scale, good = scale / 2, 0
        rows.append((w, scale, good))
    return rows


def test_an_overflow_skips_the_step_and_halves_the_scale():
    x, w, cost, scaler = scaled()
    step = scaler.minimize(cost)
    rows = []
    for value in INPUTS:
        pd.eval(step, {x: [value]})
        rows.append((w.val()[0], scaler.scale.val(), scaler.good_steps.val()))
    np.testing.assert_allclose(rows, expected(), rtol=1e-6)
    names = {"optimizer/w/velocity", "scaler/scale", "scaler/good_steps"}
    assert {v.name for v in step.variables()} == names


def test_values_at_hand_follow_the_same_rules():
    _, w, _, scaler = scaled()
    rows = []
    with pd.guard():
        for value in INPUTS:
            scaler.minimize(pd.reduce_sum(w * pd.to_variable(np.array([value], "float32"))))
            rows.append((w.val()[0], scaler.scale.val(), scaler.good_steps.val()))
    np.testing.assert_allclose(rows, expected(), rtol=1e-6)


def test_exported_steps_have_the_scale_as_state(tmp_path):
    _, _, cost, scaler = scaled()
    model = pd.export_step(tmp_path / "step.onnx", scaler.minimize(cost), [cost])
    run = onnxruntime.InferenceSession(model.SerializeToString())
    names, state, rows = [o.name for o in run.get_outputs()], {}, []
    for value in INPUTS:
        out = dict(zip(names, run.run(None, {"x": np.array([value], "f"), **state}), strict=True))
        state = {k.removesuffix("_next"): v for k, v in out.items() if k.endswith("_next")}
        rows.append((state["w"][0], state["scaler/scale"], state["scaler/good_steps"]))
    np.testing.assert_allclose(rows, expected(), rtol=1e-6)


def test_checkpoints_have_the_scale():
    """A session that is restored goes on with the same scale and count."""
    x, _, cost, scaler = scaled()
    step = scaler.minimize(cost)
    first, second = pd.Session(), pd.Session()
    for value in INPUTS[:5]:
        first.eval(step, {x: [value]})
    second.restore(first.state())
    for value in INPUTS[5:]:
        second.eval(step, {x: [value]})
    row = [second.get(v) for v in (scaler.scale, scaler.good_steps)]
    np.testing.assert_allclose(row, expected()[-1][1:])


def test_float16_overflows_at_a_large_scale():
    """In the reference evaluator, which computes in float16: 2^17 exceeds its largest number."""
    x = pd.Variable([2, 3], name="x")
    w = pd.get_variable("w", data=np.ones((3, 1), "float32"))
    scaler = pd.LossScaler(pd.SGDOptimizer(0.1), 2.0**17)
    step = scaler.minimize(pd.autocast(pd.reduce_sum(pd.matmul(x, w))))
    session = pd.Session(device="reference")
    weights = []
    for _ in range(4):
        with np.errstate(over="ignore", invalid="ignore"):
            session.eval(step, {x: np.full((2, 3), 0.25, "float32")})
        weights.append(session.get(w)[0, 0])
    # 2^17 and 2^16 are infinite, 2^15 is not
    np.testing.assert_allclose(weights, [1.0, 1.0, 0.95, 0.9], rtol=1e-5)
    assert session.get(scaler.scale) == 2.0**15


def test_rows_of_tables_are_kept_in_a_skipped_step():
    table = pd.get_variable("t", data=np.ones((4, 2), "float32"), row_sparse=True)
    ids, x = pd.Variable([None], dtype="int64", name="ids"), pd.Variable([None, 2], name="x")
    scaler = pd.LossScaler(pd.AdamOptimizer(0.1), 8.0)
    step = scaler.minimize(pd.reduce_sum(pd.gather(table, ids) * x))
    pd.eval(step, {ids: [1, 3], x: [[np.inf, 1], [1, 1]]})
    np.testing.assert_array_equal(table.val(), np.ones((4, 2)))
    pd.eval(step, {ids: [1, 3], x: np.ones((2, 2))})
    np.testing.assert_allclose(table.val()[:, 0], [1, 0.9, 1, 0.9], rtol=1e-5)


OPTIMIZERS = [
    getattr(pd, name)
    for name in pd.__all__
    if name.endswith("Optimizer") and issubclass(getattr(pd, name), Optimizer)
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_parameters_in_float16_are_refused(optimizer):
    w = pd.get_variable("w", data=np.ones(3, "float16"), dtype="float16")
    with pytest.raises(pd.DTypeError, match=r"the parameter w: float16\[3\].* do not update"):
        optimizer(0.1).minimize(pd.reduce_sum(w * w))
    with pd.guard(), pytest.raises(pd.DTypeError, match="do not update"):
        optimizer(0.1).minimize(pd.reduce_sum(w * w))


def test_arguments_are_checked():
    with pytest.raises(TypeError, match=r"LossScaler: takes an optimizer, not 0\.1"):
        pd.LossScaler(0.1)
    for arguments in ({"initial_scale": 0.0}, {"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(ValueError, match="LossScaler: a scale is positive"):
            pd.LossScaler(pd.SGDOptimizer(0.1), **arguments)
    with pytest.raises(ValueError, match="growth_interval is at least 1, not 0"):
        pd.LossScaler(pd.SGDOptimizer(0.1), growth_interval=0)
