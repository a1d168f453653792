"""Rows of segments, against loops in NumPy, finite differences and PyTorch's scatter."""

import numpy as np
import pytest

import pd_core as pd

from .segment import COUNT, IDS, REFERENCES

SHAPES = [(), (3,), (2, 2)]
FUNCTIONS = {name: (getattr(pd, name), reference) for name, reference in REFERENCES.items()}


@pytest.mark.parametrize("count", ["number", "variable"])
@pytest.mark.parametrize("dims", ["known", "unknown"])
@pytest.mark.parametrize("rest", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, rest, dims, count, rng):
    function, reference = FUNCTIONS[name]
    a = rng.permutation(60)[: 6 * int(np.prod(rest))].reshape(6, *rest) / 7 - 4
    weight = rng.normal(size=reference(a).shape)
    x = pd.Variable([6, *rest] if dims == "known" else [None] * a.ndim, dtype="float64")
    ids = pd.Variable([None], dtype="int64")
    size = pd.Variable([], dtype="int64") if count == "variable" else COUNT
    y = function(x, ids, size)
    assert y.rank == a.ndim
    g = pd.gradients(pd.reduce_sum(y * weight), [x])[0]
    feeds = {x: a, ids: IDS} | ({size: COUNT} if count == "variable" else {})
    value, slope = pd.eval([y, g], feeds)
    np.testing.assert_allclose(value, reference(a), rtol=1e-12, atol=1e-12)
    direction, step = rng.normal(size=a.shape), 1e-6
    change = reference(a + step * direction) - reference(a - step * direction)
    expected = (change * weight).sum() / (2 * step)
    np.testing.assert_allclose((slope * direction).sum(), expected, rtol=1e-6)


def test_no_rows():
    x, ids = pd.Variable([None, 2]), pd.Variable([None], dtype="int64")
    feeds = {x: np.zeros((0, 2), np.float32), ids: np.zeros(0, np.int64)}
    for name, (function, _) in FUNCTIONS.items():
        expected = np.zeros((0 if name == "segment_softmax" else 3, 2))
        np.testing.assert_array_equal(pd.eval(function(x, ids, 3), feeds), expected)


def test_sums_of_integers_are_exact():
    x = np.int64([2**53, 1, 5])
    np.testing.assert_array_equal(pd.eval(pd.segment_sum(x, [0, 0, 1], 2)), [2**53 + 1, 5])


def test_values_at_hand(rng):
    a = rng.normal(size=(6, 3)).astype(np.float32)
    with pd.guard():
        for function, reference in FUNCTIONS.values():
            np.testing.assert_allclose(function(a, IDS, COUNT).numpy(), reference(a), rtol=1e-5)


@pytest.mark.parametrize("bad", [-1, COUNT])
def test_an_id_out_of_range(bad):
    x, ids = pd.Variable([None]), pd.Variable([None], dtype="int64")
    with pytest.raises(pd.OutOfRange, match=str(bad)):
        pd.eval(pd.segment_sum(x, ids, COUNT), {x: np.float32([1, 2]), ids: np.int64([0, bad])})


@pytest.mark.parametrize(
    ("x", "ids", "error", "message"),
    [
        (np.ones(3, "f"), [0, 1], pd.ShapeError, "rows and an id for each"),
        (np.ones(3, "f"), [[0], [1], [2]], pd.ShapeError, "rows and an id for each"),
        (np.float32(1), [0], pd.ShapeError, "rows and an id for each"),
        (np.ones(2, "f"), [0.0, 1.0], pd.DTypeError, "ids are integers, not float"),
    ],
    ids=["count", "rank", "scalar", "floats"],
)
def test_misuse(x, ids, error, message):
    for name, (function, _) in FUNCTIONS.items():
        with pytest.raises(error, match=f"{name}: .*{message}"):
            function(x, ids, 3)


def test_extremes_are_of_floats():
    for name in ("segment_mean", "segment_max", "segment_min", "segment_softmax"):
        with pytest.raises(pd.DTypeError, match=f"{name}: takes floats, not int64"):
            FUNCTIONS[name][0](np.int64([1, 2]), [0, 1], 2)
