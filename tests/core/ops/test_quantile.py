"""Order statistics and histograms: NumPy's and PyTorch's numbers, ties, NaN, sizes known or not."""

import numpy as np
import pytest

import pd_core as pd

NAN, INF = np.nan, np.inf
LEVELS = [0.0, 0.1, 0.25, 0.5, 0.77, 1.0]


def open_slot(array):
    """A feed slot of which no size is known, and its feed."""
    x = pd.Variable([None] * array.ndim, dtype=array.dtype)
    return x, {x: array}


AXES = [(None, True), (0, False), (-1, True), ([0, 2], True), ([2, 1], False), ([0, 1, 2], True)]
KINDS = [("float32", AXES), ("float16", AXES[2:4]), ("float64", AXES[:2]), ("uint8", AXES[2:3])]


def test_quantiles_are_those_of_numpy(rng):
    rows, targets, feeds = [], [], {}
    for dtype, axes in KINDS:
        array = rng.integers(0, 20, (3, 4, 5)).astype(dtype)
        x, feed = open_slot(array)
        feeds |= feed
        for axis, keep_dim in axes:
            numpys = tuple(axis) if isinstance(axis, list) else axis
            rows += [(dtype, np.quantile(array, LEVELS, numpys, keepdims=keep_dim))] * 2
            known = pd.constant(array, dtype)
            targets += [pd.quantile(v, LEVELS, axis, keep_dim) for v in (x, known)]
            rows.append((dtype, np.median(array, numpys, keepdims=keep_dim)))
            targets.append(pd.median(x, axis, keep_dim))
    for found, (dtype, wanted) in zip(pd.eval(targets, feeds), rows, strict=True):
        assert found.dtype == (dtype if dtype[0] == "f" else "float32")
        np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "float16" else 1e-6)


def test_quantiles_with_nan_infinities_and_without_elements():
    x = [[1.0, NAN, 2.0], [INF, 1.0, -INF], [INF, INF, 0.0]]
    halves, ends = pd.eval([pd.median(x, 1), pd.quantile(x, [0.0, 1.0, 0.75], 1)])
    np.testing.assert_array_equal(halves, [NAN, 1.0, INF])
    np.testing.assert_array_equal(ends, [[NAN, -INF, 0.0], [NAN, INF, INF], [NAN, INF, INF]])
    slot = pd.Variable([None, 3])
    assert pd.eval(pd.median(slot, 1), {slot: np.ones((0, 3))}).shape == (0,)
    assert pd.eval(pd.median(pd.ones([2, 0, 3]), [0, 2])).shape == (0,)
    assert pd.eval(pd.quantile(pd.constant(3.0), 0.3)) == 3.0
    assert pd.eval(pd.quantile([[1.0, 2.0]], 0.3, axis=[])).tolist() == [[1.0, 2.0]]


def test_gradients_of_quantiles_are_those_of_pytorch():
    """At ties, too, and between elements."""
    torch = pytest.importorskip("torch")
    array = np.array([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, -1.0, 5.0, 5.0, 5.0]], "float32")
    x, t = pd.Variable(data=array), torch.tensor(array, requires_grad=True)
    weights = np.cos(np.arange(12.0)).reshape(6, 2).astype("float32")
    cost = pd.reduce_sum(pd.quantile(x, LEVELS, 1) * weights)
    (torch.quantile(t, torch.tensor(LEVELS), 1) * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(pd.eval(pd.gradients(cost, [x])[0]), t.grad, rtol=1e-5, atol=1e-6)


def test_places_in_sorted_numbers_are_those_of_numpy(rng):
    targets, want, feeds = [], [], {}
    kinds = ["float32", "int64", "float64", "int32"] * 2
    for n, kind in zip((0, 1, 2, 3, 4, 7, 8, 9), kinds, strict=True):
        edges = np.sort(rng.integers(-4, 4, n)).astype(kind)
        slot, feed = open_slot(edges)
        feeds |= feed
        points = rng.integers(-6, 6, (2, 9)).astype(kind)
        for side in ("left", "right"):
            want += [np.searchsorted(edges, points, side)] * 2
            x = pd.constant(points, kind)
            targets += [pd.searchsorted(e, x, side) for e in (slot, pd.constant(edges, kind))]
    for found, wanted in zip(pd.eval(targets, feeds), want, strict=True):
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, wanted)


def test_places_of_nan_and_rows():
    edges, points = [-INF, 0.0, 1.0, INF, NAN, NAN], [NAN, INF, -INF, 0.5, 1.0]
    for side in ("left", "right"):
        found = pd.searchsorted(edges, points, side).eval()
        np.testing.assert_array_equal(found, np.searchsorted(edges, points, side))
    torch = pytest.importorskip("torch")
    rows, wanted = np.sort(np.random.default_rng(3).normal(size=(2, 3, 6))), np.zeros((2, 3, 4))
    slot, feeds = open_slot(rows.astype("float32"))
    want = torch.searchsorted(torch.tensor(rows), torch.tensor(wanted)).numpy()
    targets = [pd.searchsorted(r, pd.zeros([2, 3, 4])) for r in (slot, pd.constant(rows))]
    for found in pd.eval(targets, feeds):
        np.testing.assert_array_equal(found, want)


def test_histograms_are_those_of_numpy(rng):
    array = rng.normal(size=(4, 25)).astype("float32")
    cases = [
        (array, {"bins": 7}, {"bins": 7}),
        (array, {"low": -1.0, "high": 1.0}, {"range": (-1.0, 1.0)}),
        (array, {"bins": [-2.0, 0.0, 0.1, 3.0]}, {"bins": [-2.0, 0.0, 0.1, 3.0]}),
        (np.full((3, 2), 5.0, "float32"), {"bins": 4}, {"bins": 4}),
        (rng.integers(0, 9, (30,)), {"bins": 3}, {"bins": 3}),
        (np.zeros((0, 2), "float32"), {"bins": 4}, {"bins": 4}),
        (array, {"weights": np.abs(array), "bins": 4}, {"weights": np.abs(array), "bins": 4}),
    ]
    targets, feeds = [], {}
    for x, ours, _ in cases:
        slot, feed = open_slot(x)
        feeds |= feed
        targets += [*pd.histogram(slot, **ours), *pd.histogram(pd.constant(x), **ours)]
    found = iter(pd.eval(targets, feeds))
    for x, ours, theirs in cases:
        counts, edges = np.histogram(x, **theirs)
        for _ in range(2):
            got = next(found)
            np.testing.assert_allclose(got, counts, rtol=1e-5)
            assert got.dtype == (np.float32 if "weights" in ours else np.int64)
            np.testing.assert_allclose(next(found), edges, rtol=1e-6, atol=1e-6)
    counts, _ = pd.histogram([NAN, 0.5, INF, -INF, 1.0], 2, 0.0, 1.0)
    assert counts.eval().tolist() == [0, 2]


def test_a_histogram_of_computed_float16_counts_the_edges(rng):
    for _ in range(4):
        array = rng.standard_normal(20).astype("float16")
        x, feeds = open_slot(array)
        counts, edges = pd.eval(list(pd.histogram(x * 1.7, 4)), feeds)
        assert counts.sum() == 20 and edges.dtype == np.float16


def test_gradient_of_weights_of_a_histogram():
    """That of each element is what its bin gets; NaN and what is outside gets none."""
    w = pd.Variable(data=np.ones(4, np.float32))
    counts, _ = pd.histogram([0.1, NAN, 0.9, 7.0], 2, 0.0, 1.0, weights=w)
    slope = pd.gradients(pd.reduce_sum(counts * [2.0, 3.0]), [w])[0]
    assert pd.eval(slope).tolist() == [2.0, 0.0, 3.0, 0.0]
