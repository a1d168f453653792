"""Rows of batches, stacked by a loop in C, are those that NumPy makes of them."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.fused.build import available
from pd_core.training import stacking
from pd_v2 import data_type
from pd_v2.data_feeder import DataFeeder

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")


@pytest.fixture
def stack(monkeypatch):
    found = stacking.stack_of(pd.Session(fused=True))
    if found is None:
        pytest.skip("there are no headers of Python here")
    monkeypatch.setattr(stacking, "_MANY", 1)
    found([[1.0]], 1)  # arrays use what lists have compiled
    return found


def bits(array):
    return array.shape, array.dtype, array.tobytes()


VALUES = [0.1, -0.0, 1e-45, 3.4e38, float("inf"), float("-inf"), 1 + 2**-24, 7, -3, 2**70, 16777217]


@pytest.mark.parametrize("kind", [list, tuple, lambda row: np.array(row, np.float32)])
@pytest.mark.parametrize("size", [1, len(VALUES), 300])
def test_rows_are_rounded_as_numpy_does(kind, size, stack, rng):
    rows = [rng.permutation(np.resize(np.array(VALUES, object), size)).tolist() for _ in range(40)]
    expected = np.array([[float(x) for x in row] for row in rows]).astype(np.float32)
    assert bits(stack([kind(row) for row in rows], size)) == bits(expected)
    assert bits(stack(tuple(map(kind, rows)), size)) == bits(expected)


def test_nan_stays_nan(stack):
    assert np.isnan(stack([[float("nan"), 1.0]], 2)).tolist() == [[True, False]]


def test_rows_of_several_kinds(stack):
    rows = [[1.5, 2], (3, 4.5), np.array([5, 6], np.float32)]
    assert stack(rows, 2).tolist() == [[1.5, 2.0], [3.0, 4.5], [5.0, 6.0]]


class Number(float):
    """Another type."""


@pytest.mark.parametrize(
    "row",
    [
        *([1.0], [1.0, 2.0, 3.0], [1.0, "2"], [1.0, None], [1.0, True], [1.0, Number(2)]),
        *([1.0, 1e39], [1.0, 2**2000], "ab", 5.0, None, {1.0: 2, 3.0: 4}),
        *(np.ones(2), np.ones(3, np.float32), np.ones((1, 2), np.float32)),
        *(np.ones(4, np.float32)[::2], np.ma.ones(2, np.float32), np.float32(1)),
    ],
)
def test_anything_else_is_left_to_python(row, stack):
    assert stack([[1.0, 2.0], row], 2) is None
    assert stack([np.ones(2, np.float32), row], 2) is None


@pytest.mark.parametrize("size", [63, 64, 65, 200])
@pytest.mark.parametrize(
    "last", [[], [1.0] * 5, (1.0,) * 500, np.ones(64, np.float32), None, "text"]
)
def test_the_row_after_one_may_be_anything(size, last, stack):
    """Its first numbers are fetched before it is looked at."""
    assert stack([[1.0] * size, [2.0] * size, last], size) is None or len(last) == size
    assert stack([[1.0] * size, (2.0,) * size], size).tolist() == [[1.0] * size, [2.0] * size]


def test_no_session_without_kernels_has_it():
    assert stacking.stack_of(pd.Session()) is None


def test_without_headers_python_converts(monkeypatch):
    monkeypatch.setattr(stacking.sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    assert stacking._stack.__wrapped__() is None


def test_many_numbers_of_lists_have_it_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("PD_FUSED_HOME", str(tmp_path))
    monkeypatch.setattr(stacking, "_MANY", 12)
    fresh = stacking._stack.__wrapped__()
    if fresh is None:
        pytest.skip("there are no headers of Python here")
    rows = [np.ones(2, np.float32)]
    for _ in range(20):
        assert fresh(rows, 2) is None and not list(tmp_path.iterdir())
    lists = [[1.0, 2.0], [3.0, 4.0]]
    assert [fresh(lists, 2) for _ in range(2)] == [None, None] and not list(tmp_path.iterdir())
    assert fresh(lists, 2).tolist() == lists
    assert fresh(rows, 2).tolist() == [[1.0, 1.0]]
    assert stacking._stack.__wrapped__()(rows, 2).tolist() == [[1.0, 1.0]]  # it is there


ROWS = {
    "lists": [[0.1, 2, 3.5]] * 4,
    "arrays": [np.array([0.1, 2, 3], np.float32)] * 4,
    "broadcast": [[0.1], [2], [3], [4]],
    "images": [np.ones((1, 3))] * 4,
    "mixed": [[0.1, 2, 3], np.ones(3), (1, 2, 3), [True, False, True]],
    "no rows": [],
}


@pytest.mark.parametrize("name", ROWS)
def test_a_feeder_gives_the_same_with_it(name, stack):
    rows = [(row,) for row in ROWS[name]]
    feeders = [DataFeeder([("x", data_type.dense_vector(3))]) for _ in range(2)]
    plain, stacked = feeders[0](rows)["x"], feeders[1].with_stack(stack)(rows)["x"]
    assert bits(plain.value) == bits(stacked.value)
    assert plain.image_size == stacked.image_size


def test_a_feeder_raises_the_same_with_it(stack):
    feeder = DataFeeder([("x", data_type.dense_vector_sequence(3))]).with_stack(stack)
    with pytest.raises(ValueError, match="sample 1, step 0: expected 3 numbers, got 2"):
        feeder([([[1.0, 2.0, 3.0]],), ([[1.0, 2.0]],)])
