"""Sums over the ranks: their order is that of a tree, and their bits are those of it."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from pd_core.distributed import buffers, world
from pd_core.distributed.tree import merges
from pd_core.distributed.wires import Int8Wire
from tests.core.distributed.in_process import sums, worlds

f32 = np.float32
SIZES = range(1, 10)
WAYS = {"doubling": (1 << 30, 0), "straight": (0, 99), "halving": (0, 0)}


def take(monkeypatch, way):
    """Let all sums be made in one of the ways."""
    for name, value in zip(("_LONG", "FEW"), WAYS[way], strict=True):
        monkeypatch.setattr(buffers, name, value)


def in_the_order_of_the_tree(numbers, function=np.add):
    """The sum over a list of ranks' arrays: of its first half, plus of its second."""
    if len(numbers) == 1:
        return numbers[0]
    middle = (len(numbers) + 1) // 2
    return function(
        in_the_order_of_the_tree(numbers[:middle], function),
        in_the_order_of_the_tree(numbers[middle:], function),
    )


def drawn(size, shape=(37,), dtype=f32, seed=0):
    """Numbers of each rank whose sum depends on the order."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-6, 7, (size, *shape))
    return list((rng.standard_normal((size, *shape)) * scale).astype(dtype))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_numbers_are_added_in_the_order_of_the_tree(monkeypatch, size, way):
    take(monkeypatch, way)
    for dtype, count in itertools.product((f32, np.float64, np.float16, np.int32), (1, 5, 100)):
        if dtype is np.int32:
            own = list(np.random.default_rng(1).integers(-9, 9, (size, count)).astype(dtype))
        else:
            with np.errstate(over="ignore"):
                own = drawn(size, (count,), dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            expected = in_the_order_of_the_tree(own)
            found, _ = sums([[a] for a in own])
        for (one,) in found:
            assert one.tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_neither_buckets_nor_timing_change_bits(size):
    arrays = [[a[:60_000], a[60_000:], a[:3]] for a in drawn(size, (70_000,))]
    first, _ = sums(arrays)
    expected = [in_the_order_of_the_tree([a[k] for a in arrays]) for k in range(3)]
    for seed, length in enumerate((64, 1 << 12, 1 << 17, 1 << 20), 1):
        again, _ = sums(
            arrays if length > 64 else [[a[2]] for a in arrays], np.add, length, seed=seed
        )
        for one in again:
            wanted = expected if length > 64 else expected[2:]
            assert [a.tobytes() for a in one] == [a.tobytes() for a in wanted]
    assert [a.tobytes() for a in first[-1]] == [a.tobytes() for a in expected]


@pytest.mark.parametrize("size", SIZES)
def test_sums_are_near_the_exact_ones(size):
    """Each of ceil(log2 N) additions rounds by 2^-24 of the numbers' sizes at most."""
    own = drawn(size, (50,))
    found, _ = sums([[a] for a in own])
    for k, value in enumerate(found[0][0]):
        exact = sum(Fraction(float(a[k])) for a in own)
        assert float(exact) == math.fsum(float(a[k]) for a in own)
        bound = math.ceil(math.log2(size)) * 2.0**-23 * sum(abs(float(a[k])) for a in own)
        assert abs(Fraction(float(value)) - exact) <= bound


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_maxima(size):
    own = drawn(size)
    found, _ = sums([[a] for a in own], np.maximum)
    assert all((one == np.max(own, 0)).all() for (one,) in found)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 13, 32, 64])
def test_rounds_and_bytes(monkeypatch, size):
    """ceil(log2 N) rounds; a long array is sent about 2 times by each rank."""
    depth = math.ceil(math.log2(size))
    assert max(len(merges(r, size)) for r in range(size)) == depth
    count = 1 << 14
    arrays = [[np.ones(count, f32)] for _ in range(size)]
    for way in WAYS:
        take(monkeypatch, way)
        found, every = sums(arrays)
        assert (found[0][0] == size).all()
        if way == "doubling":
            assert all(world.comm.messages <= 2 * depth for world in every)
            continue
        sent = np.array([world.comm.sent for world in every]) / (4 * count)
        assert sent.max() < 2.1 and abs(sent.mean() - 2 * (size - 1) / size) < 1e-6
        most = 4 * depth if way == "halving" else 2 * (size - 1)
        assert all(world.comm.messages <= most for world in every)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_short_floats_have_the_same_bits_in_all_ways(monkeypatch, size):
    own = [a / 1e6 for a in drawn(size, (100,))]
    results = []
    for way in WAYS:
        take(monkeypatch, way)
        found, _ = sums([[a] for a in own], wires=[np.dtype(np.float16)] * size)
        assert len({one.tobytes() for (one,) in found}) == 1
        results.append(found[0][0])
    assert len({result.tobytes() for result in results}) == 1

    def rounded_sum(a, b):
        return a.astype(np.float16).astype(f32) + b.astype(np.float16).astype(f32)

    expected = in_the_order_of_the_tree(own, rounded_sum).astype(np.float16)
    assert (results[0] == expected.astype(f32)).all()


@pytest.mark.parametrize("size", SIZES)
def test_what_8_bit_integers_lose_is_kept(size):
    """The sum that comes out and all errors are the sum of the numbers."""
    own = [a / 1e6 for a in drawn(size, (900,))]
    found, _, buffers_of = sums([[a] for a in own], wires=[Int8Wire] * size, more=True)
    errors = [buffer.wire.errors for buffer in buffers_of]
    assert len({one.tobytes() for (one,) in found}) == 1
    exact, lost = np.sum(own, 0, np.float64), np.sum(errors, 0, np.float64)[:900]
    np.testing.assert_allclose(found[0][0] + lost, exact, rtol=1e-5, atol=1e-6)
    assert np.abs(found[0][0] - exact).max() > 0


@pytest.mark.parametrize("size", [2, 5, 17, 20])
def test_ranks_meet(size):
    """All get the headers of all, whoever comes first."""
    every = worlds(size)

    def meet(rank):
        return every[rank].barrier(
            world.BARRIER, world.Description(["here"]), float(rank), 1 << rank, rank
        )

    with ThreadPoolExecutor(size) as pool:
        for found in pool.map(meet, reversed(range(size))):
            assert found.weights == {r: float(r) for r in range(size)}
            assert found.flags == (1 << size) - 1 and not found.agree
    most = size - 1 if size <= world.FEW else math.ceil(math.log2(size))
    assert all(each.comm.messages == most for each in every)
