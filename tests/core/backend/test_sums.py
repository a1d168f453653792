"""Sums over the first axes as products with ones."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU, sums
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors

SUMS, MEANS = pd.reduce_sum, pd.reduce_mean
# name: (dims of x, shape of x, axes, whether the pass takes it)
REDUCED = {
    "a matrix": ([64, 96], [64, 96], [0], True),
    "unknown rows": ([None, 96], [64, 96], [0], True),
    "unknown columns": ([64, None], [64, 96], [0], True),
    "an unknown matrix": ([None, None], [64, 96], [0], True),
    "an axis from the last": ([None, 96], [64, 96], [-2], True),
    "two axes": ([None, 16, 32], [8, 16, 32], [0, 1], True),
    "two axes the other way": ([None, 16, 32], [8, 16, 32], [1, 0], True),
    "rows of matrices": ([64, None, 16], [64, 4, 16], [0], True),
    "two unknown sizes": ([None, None, 16], [64, 4, 16], [0], False),
    "two axes of unknown size": ([None, None, 16], [64, 4, 16], [0, 1], True),
    "few numbers": ([63, 65], [63, 65], [0], False),
    "the last axis": ([64, 96], [64, 96], [1], False),
    "around an axis": ([8, 16, 32], [8, 16, 32], [0, 2], False),
    "all axes": ([64, 96], [64, 96], [0, 1], False),
    "an empty matrix": ([0, 96], [0, 96], [0], False),
}


def is_taken(y, x, shape=()):
    sizes = {d: n for d, n in zip(x.dims, shape, strict=False) if isinstance(d, str)}
    graph = program.build([y], [], [x], False, sizes)
    found = [node.op_type for node in ancestors(for_device(graph, CPU).outputs)]
    return "MatMul" in found


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("reduce", [SUMS, MEANS], ids=["sum", "mean"])
@pytest.mark.parametrize("name", REDUCED)
def test_first_axes_are_summed_by_a_product(name, reduce, keepdims, rng):
    dims, shape, axes, taken = REDUCED[name]
    x = pd.Variable("x", shape=dims)
    y = reduce(x, axes, keep_dim=keepdims)
    assert is_taken(y, x, shape) == taken
    expected = getattr(np, "sum" if reduce is SUMS else "mean")
    for size in (*shape[:1], 1):
        if dims[0] is not None and size != dims[0]:
            continue
        numbers = rng.normal(size=[size, *shape[1:]]).astype("float32")
        if numbers.size or reduce is SUMS:
            whole = expected(numbers.astype(float), tuple(axes), keepdims=keepdims)
            np.testing.assert_allclose(pd.eval(y, {x: numbers}), whole, 1e-5, 1e-5)


@pytest.mark.parametrize("dims", [[None, 96], [64, None], [None, 4, 24], [64, None, 24]], ids=str)
def test_no_rows_and_no_columns(dims):
    x = pd.Variable("x", shape=dims)
    total = pd.reduce_sum(x, 0)
    for size in (64, 0):  # compiled for many, then run with none
        ones = np.ones([size if d is None else d for d in dims], "float32")
        np.testing.assert_array_equal(pd.eval(total, {x: ones}), ones.sum(0))


def test_what_is_not_finite_stays_in_its_column(rng):
    x = pd.Variable("x", shape=[64, 96])
    numbers = rng.normal(size=[64, 96]).astype("float32")
    numbers[3, 1], numbers[5, 2] = np.nan, np.inf
    found = pd.eval(pd.reduce_sum(x, 0), {x: numbers})
    assert np.isnan(found[1]) and np.isposinf(found[2])
    assert np.isfinite(np.delete(found, [1, 2])).all()


def test_another_type_is_not_taken():
    x = pd.Variable("x", shape=[64, 96], dtype="float64")
    assert not is_taken(pd.reduce_sum(x, 0), x)


def test_known_elements_decide(monkeypatch):
    monkeypatch.setattr(sums, "_FEWEST", 64 * 96 + 1)
    x = pd.Variable("x", shape=[64, 96])
    assert not is_taken(pd.reduce_sum(x, 0), x)
    assert not is_taken(pd.reduce_sum(pd.reshape(x, [-1, 32]), 0), x)
