"""Normalisations: their expressions against ONNX's evaluator, their gradients against slopes."""

import numpy as np
import pytest

import pd_core as pd

from ..ops.case import between, fixed, normal
from .operator import all_of_the_first, by_expression, by_runtime, gradients, row, slopes

IMAGE = normal(2, 4, 3, 2)


def batch_norm(kept=(0,), **attributes):
    samples = [IMAGE, normal(4), normal(4), normal(4), between(0.5, 2, 4)]
    return row("BatchNormalization", samples, kept=kept, **attributes)


ROWS = [
    row("LayerNormalization", [normal(3, 4), normal(4)]),
    row("LayerNormalization", [IMAGE, normal(3, 2), normal(3, 2)], kept=(0, 1, 2), axis=2),
    row("LayerNormalization", [IMAGE, normal(2, 4, 3, 2)], axis=-4, epsilon=0.1, kept=(0, 2)),
    row("RMSNormalization", [normal(3, 4), normal(4)], opset=23),
    row("RMSNormalization", [IMAGE, normal(4, 3, 2)], axis=1, epsilon=0.1, opset=23),
    row("GroupNormalization", [IMAGE, normal(4), normal(4)], num_groups=2),
    row("GroupNormalization", [normal(3, 4), normal(4), normal(4)], num_groups=1, epsilon=0.1),
    row("InstanceNormalization", [IMAGE, normal(4), normal(4)]),
    row("InstanceNormalization", [normal(2, 3, 5), normal(3), normal(3)], epsilon=0.1),
    batch_norm(),
    batch_norm(epsilon=0.1),
    batch_norm((0, 1, 2), training_mode=1),
    batch_norm((0, 1, 2), training_mode=1, epsilon=0.1, momentum=0.4),
    row("MeanVarianceNormalization", [IMAGE]),
    row("MeanVarianceNormalization", [normal(3, 4)], axes=[-1]),
    row("LpNormalization", [normal(3, 4)]),
    row("LpNormalization", [normal(3, 4, 2)], axis=1, p=2),
    row("LpNormalization", [between(0.1, 2, 3, 4)], axis=0, p=1),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("unknown", [None, all_of_the_first], ids=["static", "unknown"])
def test_the_expression_is_the_operator(row, unknown):
    arrays = row.arrays()
    announced, found = by_expression(row, arrays, unknown)
    wanted = by_runtime(row, arrays, reference=True)
    for y, got, value in zip(announced, found, wanted, strict=True):
        assert len(y.dims) == value.ndim
        assert all(d in (None, n) for d, n in zip(y.shape, value.shape, strict=True))
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradients_are_slopes(row):
    for numeric, analytic in slopes(row):
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradients_on_cpu_with_unknown_sizes(row):
    exact = gradients(row, "float64", pd.Session("reference"))
    found = gradients(row, "float32", pd.Session(), all_of_the_first)
    for got, wanted in zip(found, exact, strict=True):
        scale = max(1.0, np.abs(wanted).max(initial=0.0))
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * scale)


def test_the_sum_of_sizes_takes_both_signs():
    """ONNX's evaluator adds up x itself; ONNX Runtime, the size of x."""
    signs = row("LpNormalization", [normal(3, 4)], axis=1, p=1)
    arrays = signs.arrays()
    _, (got,) = by_expression(signs, arrays)
    np.testing.assert_allclose(got, by_runtime(signs, arrays)[0], rtol=1e-5)
    for numeric, analytic in slopes(signs):
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_rows_of_zeros_have_a_gradient(p):
    x = pd.Variable(data=[[0.0, 0.0], [3.0, 4.0]])
    y = pd.apply("LpNormalization", x, p=p)
    (g,) = pd.gradients(pd.reduce_sum(y), [x])
    assert np.isfinite(pd.eval(g)).all()


def test_half_precision_is_normalised_in_single():
    rows = row("LayerNormalization", [between(200, 300, 2, 64), fixed(np.ones(64))])
    arrays = rows.arrays("float16")
    _, (got,) = by_expression(rows, arrays)
    (wanted,) = by_runtime(rows, rows.arrays(), reference=True)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, wanted, atol=5e-3)


def test_a_batch_of_unknown_size(rng):
    """In ONNX Runtime, against the same with every size known."""
    x = rng.standard_normal((3, 4, 5)).astype("float32")
    scale, shift = (rng.standard_normal(5).astype("float32") for _ in range(2))
    found = []
    for shape in ([3, 4, 5], [None, None, 5]):
        feed, w, b = pd.Variable(shape), pd.Variable(data=scale), pd.Variable(data=shift)
        y = pd.apply("LayerNormalization", feed, w, b)
        cost = pd.reduce_sum(pd.square(y) * 0.5 + y)
        found.append(pd.eval(pd.gradients(cost, [feed, w, b]), {feed: x}))
    for known, unknown in zip(*found, strict=True):
        np.testing.assert_allclose(unknown, known, rtol=1e-5, atol=1e-5)
