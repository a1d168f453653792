"""Sums of many numbers of one sign, against float64."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU, long_sums
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors, apply
from tests.thinned import thinned

from .long_sums import TOLERANCE, Case, error, gradients, numbers, others, reductions

FEW, MANY = 1 << 20, 1 << 24
LAYOUTS = list(reductions(FEW))


@pytest.mark.parametrize("part", thinned(range(4), 2))
def test_reductions(part, rng):
    for case in LAYOUTS[part::24]:
        for a in numbers(rng, case.shape):
            assert error(case, a) < TOLERANCE, case.name


def test_normalizations_and_cumulative_sums(rng):
    for case in list(others(FEW))[rng.integers(2) :: 2]:
        for a in numbers(rng, case.shape, is_spread=True):
            assert error(case, a) < TOLERANCE, case.name


def test_gradients_of_what_is_broadcast(rng):
    for case in list(gradients(FEW))[rng.integers(3) :: 3]:
        for a in numbers(rng, case.shape):
            assert error(case, a) < TOLERANCE, case.name


@pytest.mark.parametrize("cases", [reductions, others, gradients])
def test_values_at_hand(cases, rng):
    found = [case for case in cases(FEW) if "unknown" not in case.name and case.has_free_sizes]
    for case in thinned(found[rng.integers(4) :: 4], 2):
        for a in numbers(rng, case.shape, is_spread=cases is others):
            assert error(case, a, is_dynamic=True) < TOLERANCE, case.name


@pytest.mark.parametrize(
    "dims, size", thinned(itertools.product(["known", "unknown"], [MANY, MANY - 3]), 4)
)
def test_sixteen_million(size, dims):
    a = np.full(size, 0.1, np.float32)
    dims = [size] if dims == "known" else [None]
    for name, function, truth in (
        ("mean", pd.reduce_mean, np.mean),
        ("norm", lambda x: pd.sqrt(pd.reduce_sum(pd.square(x))), np.linalg.norm),
        ("cumulative sum", pd.cum_sum, np.cumsum),
    ):
        assert error(Case(name, a.shape, dims, function, truth), a) < TOLERANCE


def test_a_program_for_short_feeds_is_not_taken_for_long_ones():
    x = pd.Variable("x", shape=[None, 8])
    targets = [pd.reduce_mean(x), pd.reduce_sum(x, 0)]
    for size in (10, 1 << 20, 7, 1 << 21, 1):
        a = np.full((size, 8), 0.1, np.float32)
        for _ in range(2):  # the second time as a repeated call
            mean, total = pd.eval(targets, {x: a})
            np.testing.assert_allclose(mean, a.mean(dtype=float), TOLERANCE)
            np.testing.assert_allclose(total, a.sum(0, dtype=float), TOLERANCE)


def test_two_sizes_that_are_long_in_turn():
    x, y = (pd.Variable(name, shape=[None]) for name in "xy")
    targets = [pd.reduce_mean(x), pd.reduce_mean(y)]
    for long in (x, y, x, y):
        feeds = {v: np.full(1 << 20 if v is long else 3, 0.1, np.float32) for v in (x, y)}
        np.testing.assert_allclose(pd.eval(targets, feeds), np.float32([0.1, 0.1]), TOLERANCE)


def test_several_steps_in_one_call():
    x = pd.Variable("x", shape=[None])
    mean = pd.reduce_mean(x)
    for size in (10, 1 << 20, 10):
        found = pd.run_steps(mean, {x: np.full((2, size), 0.1, np.float32)})
        np.testing.assert_allclose(found, np.float32([0.1, 0.1]), TOLERANCE)


def test_graphs_of_growing_arrays():
    with pd.guard():
        for size in (10, 11, 12, 1 << 20, 13):
            x = pd.to_variable(np.full(size, 0.1, np.float32))
            np.testing.assert_allclose(pd.reduce_mean(x * 1.0).numpy(), 0.1, TOLERANCE)


def test_sizes_that_are_computed(rng):
    x = pd.Variable("x", shape=[None])
    y = pd.gather(x, pd.reshape(pd.nonzero(x > 0.0), [-1]))
    for size in (10, 1 << 20):
        a = np.where(np.arange(size) % 2 == 0, np.float32(0.1), np.float32(-0.1))
        np.testing.assert_allclose(pd.eval(pd.reduce_mean(y), {x: a}), 0.1, TOLERANCE)


def test_axes_that_are_known_at_run_time(rng):
    x, axes = pd.Variable("x", shape=[None, None]), pd.Variable("axes", shape=[None], dtype="int64")
    y = apply("ReduceSum", x, axes, keepdims=1, noop_with_empty_axes=1)
    a = np.full((1 << 10, 1 << 10), 0.1, np.float32)
    for found in ([0], [1], [0, 1], []):
        whole = a.sum(tuple(found), dtype=float, keepdims=True) if found else a
        feeds = {x: a, axes: np.array(found, np.int64)}
        np.testing.assert_allclose(pd.eval(y, feeds), whole, TOLERANCE)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_few_and_none(size):
    x = pd.Variable("x", shape=[None, 3])
    targets = [pd.reduce_sum(x), pd.reduce_sum(x, 0), pd.cum_sum(x), pd.reduce_sum(x, [0, 1])]
    pd.eval(targets, {x: np.ones((1 << 14, 3), np.float32)})  # the program for many
    a = np.ones((size, 3), np.float32)
    for y, expected in zip(
        pd.eval(targets, {x: a}), [a.sum(), a.sum(0), a.cumsum(0), a.sum()], strict=True
    ):
        np.testing.assert_array_equal(y, expected)


def test_what_is_not_finite():
    x = pd.Variable("x", shape=[1 << 16])
    lse = apply("ReduceLogSumExp", x, keepdims=0)
    for value in (np.inf, -np.inf, np.nan):
        a = np.zeros(1 << 16, np.float32)
        a[5] = value
        np.testing.assert_array_equal(pd.eval(pd.reduce_sum(x), {x: a}), a.sum())
        expected = np.log(2**16 - 1) if value == -np.inf else value
        np.testing.assert_allclose(pd.eval(lse, {x: a}), expected, 1e-6)
    low = np.full(1 << 16, -np.inf, np.float32)
    assert np.isneginf(pd.eval(lse, {x: low}))


def test_half_precision():
    x = pd.Variable("x", shape=[1 << 20], dtype="float16")
    found = pd.eval(pd.reduce_mean(x), {x: np.full(1 << 20, 0.1, np.float16)})
    assert found == np.float16(0.1)


def operators(y, x, sizes):
    graph = program.build([y], [], [x], False, sizes)
    return [node.op_type for node in ancestors(for_device(graph, CPU).outputs)]


def test_few_numbers_are_left_to_the_kernel():
    x = pd.Variable("x", shape=[None, 64])
    (size, _) = x.dims
    mean, rows = pd.reduce_mean(x), pd.reduce_sum(x, 0)
    assert operators(mean, x, {size: 32}) == ["ReduceMean"]
    assert "If" not in operators(rows, x, {size: 128})
    assert "If" in operators(rows, x, {})
    known = pd.Variable("known", shape=[2, long_sums.ROW])
    assert operators(pd.reduce_sum(known, 1), known, {}) == ["ReduceSum"]


def test_known_sizes_need_no_branches():
    x = pd.Variable("x", shape=[32, 1, 512, 512])
    found = operators(pd.reduce_mean(x, [0, 2, 3]), x, {})
    assert not {"If", "Loop", "ReduceMean"} & {*found}


@pytest.mark.parametrize("columns", [0, 1, 3, 17])
def test_computed_lengths_around_the_limits(columns, rng):
    """The length of what a mask selects is known at run time only."""
    x, mask = pd.Variable([None, columns] if columns else [None]), pd.Variable([None], dtype="bool")
    total = pd.reduce_sum(x[mask], 0)
    block = (1 << 16) // max(columns, 1)
    for limit in (long_sums.ROW, 1 << 10, 1 << 8, block):
        for size in (limit - 1, limit, limit + 1):
            a = rng.uniform(0.5, 1, (size, columns) if columns else size).astype(np.float32)
            y = pd.eval(total, {x: a, mask: np.ones(size, bool)})
            np.testing.assert_allclose(y, a.sum(0, dtype=float), 1e-6)


@pytest.mark.parametrize("size", [65521, 65537])  # primes: no stages of equal length
def test_one_block_needs_no_loop(size):
    x = pd.Variable([size])
    assert ("Loop" in operators(pd.reduce_sum(x), x, {})) == (size > 1 << 16)
    a = np.full(size, 0.1, np.float32)
    np.testing.assert_allclose(pd.eval(pd.reduce_sum(x), {x: a}), a.sum(dtype=float), 1e-6)
