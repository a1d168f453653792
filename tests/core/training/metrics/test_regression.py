"""Errors of real predictions and R², by formulas and by scikit-learn."""

import numpy as np
import pytest

from pd_core.training import metrics as m

ROWS = 80
MEANS = {
    "mae": (m.MeanAbsoluteError, lambda d, w: np.average(abs(d), weights=w)),
    "mse": (m.MeanSquaredError, lambda d, w: np.average(d**2, weights=w)),
    "rmse": (m.RootMeanSquaredError, lambda d, w: np.sqrt(np.average(d**2, weights=w))),
}
ERRORS = pytest.mark.parametrize(("kind", "formula"), MEANS.values(), ids=MEANS)


def value(metric, *batch):
    metric.update(*batch)
    return metric.result()


@pytest.fixture
def data(rng):
    return rng.normal(3, 2, ROWS), rng.normal(3, 2, ROWS), rng.random(ROWS)


@ERRORS
def test_errors_by_formula(data, kind, formula):
    y, t, weight = data
    for p, label in (
        (y, t),
        (y[:, None], t),
        (y, t[:, None]),
        (y.reshape(8, 10), t.reshape(8, 10)),
    ):
        assert value(kind(), p, label) == pytest.approx(formula(y - t, None), rel=1e-12)
    assert value(kind(), y, t, weight) == pytest.approx(formula(y - t, weight), rel=1e-12)
    w = np.repeat(weight[:8], 10)  # of the rows
    result = value(kind(), y.reshape(8, 10), t.reshape(8, 10), weight[:8])
    assert result == pytest.approx(formula(y - t, w), rel=1e-12)
    assert value(kind(), 3, 5.0) == formula(np.array([2.0]), None)


@ERRORS
def test_errors_are_summed_in_float64(kind, formula):
    y = np.array([60000.0, 60000.0], np.float16)
    assert value(kind(), y, -y) == formula(2 * y.astype(np.float64), None)
    assert value(kind(), np.array([3], np.uint8), np.array([5], np.uint8)) == formula(
        np.array([2.0]), None
    )


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_errors_as_scikit_learn(rng, outputs, is_weighted):
    sklearn = pytest.importorskip("sklearn.metrics")
    y, t = rng.normal(size=(2, ROWS, outputs))
    t += 1e6  # where sums of squares would lose all digits
    y += 1e6
    weight = rng.random(ROWS) if is_weighted else None
    for metric, function in (
        (m.MeanAbsoluteError(), sklearn.mean_absolute_error),
        (m.MeanSquaredError(), sklearn.mean_squared_error),
        (m.R2(), sklearn.r2_score),
    ):
        for rows in np.split(np.arange(ROWS), [10, 11, 50]):
            metric.update(y[rows], t[rows], None if weight is None else weight[rows])
        expected = function(t, y, sample_weight=weight)
        assert metric.result() == pytest.approx(expected, rel=1e-9)


def test_r2_by_formula(data):
    y, t, _ = data
    expected = 1 - np.sum((t - y) ** 2) / np.sum((t - t.mean()) ** 2)
    assert value(m.R2(), y, t) == pytest.approx(expected, rel=1e-12)
    assert value(m.R2(), y[:, None], t) == pytest.approx(expected, rel=1e-12)
    assert value(m.R2(), t, t) == 1.0
    assert value(m.R2(), np.full(ROWS, t.mean()), t) == pytest.approx(0, abs=1e-12)


def test_r2_of_equal_labels_is_nan():
    metric = m.R2()
    for rows in (1, 3, 7):
        assert np.isnan(value(metric, np.zeros(rows), np.full(rows, 0.1)))
    assert np.isnan(value(m.R2(), np.zeros((3, 2)), [[1, 2], [2, 2], [3, 2]]))


@pytest.mark.parametrize(
    "kind", [m.MeanAbsoluteError, m.MeanSquaredError, m.RootMeanSquaredError, m.R2]
)
def test_nan_is_a_nan_until_the_reset(data, kind):
    y, t, _ = data
    metric = kind()
    expected = value(metric, y, t)
    assert np.isnan(value(metric, [np.nan], [1.0]))
    assert np.isnan(value(metric, y, t))
    metric.reset()
    assert value(metric, y, t) == expected
    assert np.isnan(value(metric, [1.0], [np.nan]))


@pytest.mark.parametrize(
    "kind", [m.MeanAbsoluteError, m.MeanSquaredError, m.RootMeanSquaredError, m.R2]
)
def test_sizes_that_disagree(kind):
    metric = kind()
    for y, t in (((3,), (2,)), ((3, 2), (3,)), ((2, 3), (3, 2)), ((1,), (3,))):
        with pytest.raises(ValueError, match=f"{metric.name}: prediction .*, label has shape"):
            metric.update(np.zeros(y), np.zeros(t))
    with pytest.raises(ValueError, match=r"weight has shape \(2,\), the samples have shape \(3,\)"):
        metric.update(np.zeros(3), np.zeros(3), np.ones(2))
    assert np.isnan(metric.result())


def test_outputs_of_r2_do_not_change():
    metric = m.R2()
    metric.update(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"r2: weight of shape \(2,\), .* shape \(3,\)"):
        metric.update(np.zeros((2, 2)), np.zeros((2, 2)))
