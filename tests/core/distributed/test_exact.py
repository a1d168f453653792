"""Exact sums over the ranks: those of fractions, rounded once, for every number of ranks."""

import math
from fractions import Fraction

import numpy as np
import pytest

import pd_core as pd
from pd_core.distributed.exact import ExactSum, exact_rows
from tests.core.distributed.in_process import run

f32 = np.float32
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def nearest(exact, dtype):
    """The number of a dtype that is nearest to a fraction; of two the even one."""
    first = dtype(float(exact))
    with np.errstate(over="ignore"):
        near = [np.nextafter(first, dtype(-np.inf)), first, np.nextafter(first, dtype(np.inf))]
    near = [x for x in near if np.isfinite(x)]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - exact), x.view(BITS[x.itemsize]) & 1))


def drawn(dtype, shape, decades, seed):
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        numbers = rng.standard_normal(shape) * 10.0 ** rng.uniform(-decades, decades - 1, shape)
        return numbers.astype(dtype)


@pytest.mark.parametrize(
    "dtype, decades", [(np.float16, 4), (f32, 2), (f32, 37), (np.float64, 3), (np.float64, 300)]
)
def test_sums_are_those_of_fractions(dtype, decades):
    for seed in range(6):
        arrays = drawn(dtype, (seed + 1, 20), decades, seed)
        if seed % 2:
            arrays[-1] = -arrays[0]  # all digits cancel
            arrays[0, ::3] = 0
        total = ExactSum((20,))
        for array in arrays:
            total.add(array)
        for k, found in enumerate(total.rounded(dtype)):
            exact = sum(Fraction(float(a)) for a in arrays[:, k])
            assert found == nearest(exact, dtype)
            if dtype is np.float64:
                assert found == math.fsum(arrays[:, k])


def test_halves_are_rounded_to_even_and_large_sums_overflow():
    total = ExactSum((4,))
    for numbers in ([1.0, 1.0, 3e38, 2.0**-149], [2.0**-24, 2.0**-24, 3e38, 2.0**-149]):
        total.add(np.array(numbers, f32))
    total.add(np.array([0.0, 2.0**-80, 0.0, 0.0], f32))
    assert total.rounded(f32).tolist() == [1.0, 1.0 + 2.0**-23, np.inf, 2.0**-148]


def test_infinity_and_nan_are_those_of_a_sum():
    total = ExactSum((4,))
    total.add(np.array([np.inf, np.inf, np.nan, 1.0], f32))
    total.add(np.array([1.0, -np.inf, 1.0, 2.0], f32))
    found = total.scaled(3).rounded(f32)
    assert found[0] == np.inf and np.isnan(found[1:3]).all() and found[3] == 9.0
    assert total.scaled(0).rounded(f32).tolist() == [0.0] * 4  # not even NaN counts


def test_whole_factors_and_merged_sums():
    first, second = drawn(f32, (5, 7), 20, 1), drawn(f32, (3, 7), 5, 2)
    parts = []
    for arrays, factor in ((first, 3), (second, (1 << 22) - 1)):
        part = ExactSum((7,))
        for array in arrays:
            part.add(array)
        parts.append(part.scaled(factor))
    parts[0].merge(parts[1])
    for k, found in enumerate(parts[0].rounded(f32)):
        exact = 3 * sum(Fraction(float(a)) for a in first[:, k])
        exact += ((1 << 22) - 1) * sum(Fraction(float(a)) for a in second[:, k])
        assert found == nearest(exact, f32)


def test_rows_that_come_several_times():
    parts = [
        (np.array([4, 1, 4]), np.array([[1e8], [1.0], [1.0]], f32)),
        (np.array([4]), np.array([[-1e8]], f32)),
    ]
    rows, values = exact_rows(parts, [1, 1])
    assert rows.tolist() == [1, 4] and values.ravel().tolist() == [1.0, 1.0]
    _, values = exact_rows(parts, [2, 0], 4.0)
    assert values.ravel().tolist() == [0.5, f32((2e8 + 2) / 4)]


PARTS = 12  # of a batch, each of which some rank computes the gradients of


@pytest.fixture(scope="module")
def trained():
    """The parameters after steps on 12 parts of a batch, of which each rank has some."""
    pd.reset(seed=3)
    ids, x, y = (
        pd.Variable([None, 2], dtype="int64"),
        pd.Variable([None, 5]),
        pd.Variable([None, 1]),
    )
    table = pd.Variable("table", data=np.linspace(-1, 1, 18).reshape(9, 2), row_sparse=True)
    hidden = pd.concat([pd.tanh(pd.fc(x, 6)), pd.reduce_sum(pd.gather(table, ids), 1)], 1)
    cost = pd.reduce_mean(pd.square(pd.fc(hidden, 1) - y)) / PARTS
    step = pd.MomentumOptimizer(0.5).minimize(cost)
    rng = np.random.default_rng(0)
    feeds = [
        {
            ids: rng.integers(0, 9, (3, 2)),
            x: rng.standard_normal((3, 5)).astype(f32) * 10.0 ** rng.integers(-3, 3),
            y: rng.standard_normal((3, 1)).astype(f32),
        }
        for _ in range(3 * PARTS)
    ]
    kept = pd.trainable_variables()

    def of(size, **options):
        def program(rank, session, exchange):
            for batch in range(3):
                own = list(range(rank, PARTS, size))
                for part in own[:-1]:
                    with exchange.no_sync():
                        session.eval(step, feeds[batch * PARTS + part])
                session.eval(step, feeds[batch * PARTS + own[-1]])
            return {v.name: session.get(v).tobytes() for v in kept}

        return run(size, program, reduce="sum", **options)

    return of


def test_bits_do_not_depend_on_the_number_of_ranks(trained):
    (alone,) = trained(1, reproducible=True)
    for size in (2, 3, 4, 6, 12):
        assert all(own == alone for own in trained(size, reproducible=True))
    assert trained(2)[0] != trained(3)[0]  # which they do otherwise


def test_means_with_weights():
    """Weights are whole numbers; the sum is exact, and divided once."""
    pd.reset(seed=3)
    x, w = pd.Variable([3]), pd.Variable("w", data=np.zeros(3))
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(x * w))
    numbers = drawn(f32, (3, 3), 6, 4)
    samples = [5, 0, 1021]

    def program(rank, session, exchange):
        exchange.samples = float(samples[rank])
        session.eval(step, {x: numbers[rank]})
        return session.get(w)

    for found in run(3, program, reproducible=True, check_every=None):
        for k in range(3):
            exact = sum(n * Fraction(float(a[k])) for n, a in zip(samples, numbers, strict=True))
            assert found[k] == -f32(float(exact) / 1026)
