"""glibc's rand_r and 2017's initial values: numbers of a C program, and a scalar model."""

import math

import numpy as np
import pytest

from pd_v2 import rand_r
from pd_v2.rand_r import RAND_MAX, RandR

CHUNK = 1 << 13


def scalar_rand_r(state):
    """One value of rand_r and the state after it."""
    parts = []
    for modulus in (2048, 1024, 1024):
        state = (state * 1103515245 + 12345) % 2**32
        parts.append(state // 65536 % modulus)
    return (parts[0] << 20) ^ (parts[1] << 10) ^ parts[2], state


def scalar_draws(state, count):
    values = []
    for _ in range(count):
        value, state = scalar_rand_r(state)
        values.append(value)
    return values, state


def digits(values):
    return [f"{value:.9g}" for value in values.tolist()]


@pytest.mark.parametrize(
    ("state", "values"),
    [
        (0, [1012484, 1716955679, 1792309082, 229610924]),
        (41, [204446503, 1459223657, 595499623, 1179775455]),
    ],
)
def test_draws_of_the_c_library(state, values):
    assert RandR(state).draw(4).tolist() == values


@pytest.mark.parametrize(
    ("seed", "rows"),
    [
        (
            1,
            [
                ("normal", 1, "1.19825101 -3.72605467 0.470652074 -0.487358242", 3866696494),
                ("normal", 0.01, "0.0130304955 -1.89783805e-05 -0.00450452138", 2518522002),
                ("uniform", 1, "-0.498005569 0.118030362 -0.51297015", 2539649755),
            ],
        ),
        (
            42,
            [
                ("normal", 1, "-0.92952162 -1.9594593 -1.525195 0.824261487", 3183782975),
                ("normal", 0.01, "-0.00964316912 -0.0182626657 0.00164685457", 623545555),
                ("uniform", 1, "-0.944690585 -0.7426489 0.21275039", 4090638632),
            ],
        ),
    ],
)
def test_initial_values_on_one_stream(seed, rows):
    stream = RandR(seed - 1)
    for method, std, printed, state in rows:
        values = getattr(stream, method)(0, std, len(printed.split()))
        assert values.dtype == np.float32
        assert digits(values) == printed.split()
        assert stream.state == state


@pytest.mark.parametrize(
    ("method", "mean", "std", "state", "printed"),
    [
        ("normal", 0.1, 0.3, 0, "0.459475309 -1.01781642 0.241195619 0.212277994 -0.0462074764"),
        (
            *("uniform", 0.0, 0.1, 3866696494),
            "-0.0144289955 0.099953644 0.0344266184 -0.0331370793 -0.0498005562",
        ),
        (
            *("uniform", 0.125, 0.7, 88489753),
            "0.207621247 -0.234079078 -0.105419315 0.186321482",
        ),
        ("normal", -0.7, 1 / math.sqrt(3), 2985199757, "-0.496450603"),
    ],
)
def test_means_and_deviations_that_float32_rounds(method, mean, std, state, printed):
    """The numbers are of a C program: the bounds are rounded before the range is taken."""
    values = getattr(RandR(state), method)(mean, std, len(printed.split()))
    assert digits(values) == printed.split()


@pytest.mark.parametrize("sizes", [[CHUNK - 1, 1, 2], [CHUNK + 3, 0, CHUNK]])
def test_the_stream_goes_on_over_calls_and_chunks(sizes):
    stream = RandR(2**32 - 1)
    drawn = np.concatenate([stream.draw(size) for size in sizes])
    values, state = scalar_draws(2**32 - 1, sum(sizes))
    assert drawn.tolist() == values
    assert stream.state == state
    assert drawn.min() >= 0 and drawn.max() <= RAND_MAX


def scalar_normal(state, mean, std, size):
    """The loop of 2017, a value at a time; `mean` and `std` are exact in float32."""
    out = [None] * size

    def pair():
        nonlocal state
        (first, second), state = scalar_draws(state, 2)
        u1, u2 = np.float32((1 + first) * 2.0**-31), np.float32((1 + second) * 2.0**-31)
        radius = np.float32(std) * np.sqrt(np.float32(-2) * np.float32(math.log(u1)))
        return float(radius), 2 * math.pi * float(u2)

    for i in range(0, size - 1, 2):
        radius, angle = pair()
        out[i] = np.float32(mean + radius * math.cos(angle))
        out[i + 1] = np.float32(mean + radius * math.sin(angle))
    radius, angle = pair()
    out[-1] = np.float32(mean + radius * math.cos(angle))
    return out, state


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65])
def test_normal_against_the_loop(size):
    stream = RandR(7)
    expected, state = scalar_normal(7, 0.5, 0.25, size)
    assert stream.normal(0.5, 0.25, size).tolist() == [float(value) for value in expected]
    assert stream.state == state


@pytest.mark.parametrize("size", [CHUNK, CHUNK + 1, CHUNK + 2, 2 * CHUNK + 1])
def test_normal_over_a_chunk_draws_one_pair_too_many(size):
    stream, counter = RandR(3), RandR(3)
    values = stream.normal(0, 1, size)
    draws = counter.draw(2 * (size // 2 + 1))
    assert stream.state == counter.state
    first, second = (1 + draws[-2:]) / 2**31
    last = math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)
    assert values[-1] == pytest.approx(last, abs=1e-5)
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 0.02 and abs(values.std() - 1) < 0.02


def test_uniform_over_a_chunk():
    stream = RandR(11)
    values = stream.uniform(0.125, 0.375, CHUNK + 5)
    draws, state = scalar_draws(11, CHUNK + 5)
    assert values.tolist() == (np.array(draws) / 2**31 * 0.75 - 0.25).astype(np.float32).tolist()
    assert stream.state == state


def test_a_constant_still_uses_the_stream():
    stream, counter = RandR(0), RandR(0)
    assert stream.normal(0.5, 0.0, 3).tolist() == [0.5] * 3
    counter.draw(4)
    assert stream.state == counter.state


def test_nothing_drawn_for_no_values():
    stream = RandR(5)
    assert stream.normal(0, 1, 0).size == stream.uniform(0, 1, 0).size == 0
    assert stream.state == 5


def test_the_state_has_32_bits():
    assert RandR(-1).state == 2**32 - 1
    assert RandR(2**32 + 3).state == 3


@pytest.mark.parametrize(
    "bound", [rand_r._ERROR_BOUND, 2.0**-26], ids=["as it is", "for many values"]
)
@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.02), (-0.7, 0.3)])
def test_the_fast_cosine_rounds_as_the_exact_one(mean, std, bound, monkeypatch):
    monkeypatch.setattr(rand_r, "_ERROR_BOUND", bound)
    stream, counter = RandR(11), RandR(11)
    values = stream.normal(mean, std, 300_000).reshape(-1, 2)
    draws = counter.draw(300_000).reshape(-1, 2)
    first, second = ((1 + draws.T) * 2.0**-31).astype(np.float32)
    log = np.log(first.astype(np.float64)).astype(np.float32)
    radius, angle = np.float32(std) * np.sqrt(-2 * log), 2 * np.pi * second.astype(np.float64)
    for k, axis in enumerate((np.cos, np.sin)):
        expected = (np.float32(mean) + radius * axis(angle)).astype(np.float32)
        assert np.array_equal(values[:-1, k], expected[:-1])  # the last one is drawn again


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("shape", [(7, 4), (1, 2), (2, 6), (9000, 16)])
def test_rows_of_a_matrix_are_drawn_alone(shape, ranks):
    for kind in ("normal", "uniform"):
        whole = RandR(77)
        expected = getattr(whole, kind)(0.5, 2.0, math.prod(shape)).reshape(shape)
        for rank in range(ranks):
            own = RandR(77)
            rows = getattr(own, f"{kind}_rows")(0.5, 2.0, shape, rank, ranks)
            assert rows.tobytes() == expected[rank::ranks].tobytes()
            assert own.state == whole.state


@pytest.mark.parametrize("size", [1, 5, 8, 9])
def test_values_are_drawn_in_parts(size):
    for kind in ("normal", "uniform"):
        whole, parts = RandR(3), RandR(3)
        expected = getattr(whole, kind)(0.5, 2.0, size)
        found = list(getattr(parts, f"{kind}_parts")(0.5, 2.0, size, 4))
        assert np.concatenate(found).tobytes() == expected.tobytes()
        assert parts.state == whole.state
