"""Random draws: bits of the seed, of the count of evaluations and of their place."""

import numpy as np
import pytest

import pd_core as pd

from ..ops.random import stream


def test_draws_repeat_with_the_seed():
    u = pd.uniform_random([100])
    first, again, other = pd.Session(seed=1), pd.Session(seed=1), pd.Session(seed=2)
    a = [first.eval(u) for _ in range(3)]
    b = [again.eval(u) for _ in range(3)]
    np.testing.assert_array_equal(a, b)
    assert not np.intersect1d(a, [other.eval(u) for _ in range(3)]).size


def test_every_evaluation_draws_anew():
    u = pd.uniform_random([1000])
    draws = np.array([pd.eval(u) for _ in range(5)])
    assert len(np.unique(draws)) > 4990
    assert np.abs(np.corrcoef(draws) - np.eye(5)).max() < 0.12


def test_two_draws_of_one_evaluation_differ():
    u, v = pd.uniform_random([1000]), pd.uniform_random([1000])
    a, b = pd.eval([u, v])
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.12
    a, b = pd.eval([u, u * 1.0])
    np.testing.assert_array_equal(a, b)


def test_draws_do_not_shift_when_unrelated_parts_are_added():
    with pd.namespace("net"):
        u = pd.uniform_random([10])
    alone = [pd.eval(u) for _ in range(3)]
    pd.reset(seed=0)
    with pd.namespace("other"):
        noise = pd.dropout(pd.uniform_random([7]), 0.5)
    with pd.namespace("net"):
        u = pd.uniform_random([10])
    beside = [pd.eval([noise, u], training=True)[1] for _ in range(3)]
    np.testing.assert_array_equal(alone, beside)


@pytest.mark.parametrize("seed, times", [(0, 1), (7, 3), (2**31 + 5, 2)])
def test_draws_are_the_hash_of_seed_count_and_place(seed, times, device):
    u = pd.uniform_random([4, 5])
    session = pd.Session(device, seed=seed)
    for count in range(times):
        wanted = stream("uniform_random_0", (4, 5), seed % 2**32, count)
        np.testing.assert_array_equal(session.eval(u), wanted)


def test_every_runtime_draws_the_same_bits():
    u = pd.uniform_random([64, 65])
    cpu, reference = (pd.Session(device, seed=3).eval(u) for device in ("cpu", "reference"))
    assert cpu.tobytes() == reference.tobytes()


def test_moments_of_uniform_draws():
    """Tolerances are four to five standard errors."""
    u = pd.eval(pd.uniform_random([200, 1000])).astype("float64")
    assert 0 <= u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert abs(u.mean() - 1 / 2) < 0.003
    assert abs(u.var() - 1 / 12) < 0.001
    counts, _ = np.histogram(u, 256, (0, 1))
    assert ((counts - u.size / 256) ** 2).sum() / (u.size / 256) < 365
    for distance in (1, 2, 16, 256, 1000):
        neighbours = np.corrcoef(u.ravel()[:-distance], u.ravel()[distance:])[0, 1]
        assert abs(neighbours) < 0.011


def test_moments_of_normal_draws():
    z = pd.eval(pd.gaussian_random([200_000], 2.0, 3.0)).astype("float64")
    assert np.isfinite(z).all()
    assert abs(z.mean() - 2) < 0.03
    assert abs(z.std() - 3) < 0.03
    standard = (z - 2) / 3
    assert abs((standard**3).mean()) < 0.03
    assert abs((standard**4).mean() - 3) < 0.06


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_share_of_ones_of_bernoulli(probability):
    ones = pd.eval(pd.bernoulli(np.zeros((200, 200), "float32"), probability))
    assert set(np.unique(ones)) <= {0.0, 1.0}
    assert abs(ones.mean() - probability) < 0.011


@pytest.mark.parametrize("shape", [[0], [2, 0], [0, 3]])
def test_draws_of_nothing(shape, device):
    assert pd.Session(device).eval(pd.uniform_random(shape)).shape == tuple(shape)
