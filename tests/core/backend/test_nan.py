"""NaN in maxima, minima and orders: as in NumPy wherever it stands, with PyTorch's gradients."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.gradients import gradients
from pd_core.graph.node import apply
from pd_core.ops import Segments
from tests.thinned import thinned

LENGTHS = [*range(1, 20), 31, 32, 33, 63, 64, 65, 100]
DTYPES = ("float32", "float64", "float16")
INF = np.inf


def rows(n, dtype, beside=None, places=None):
    """Rows of n numbers: one for each place of a NaN, and one without; `beside` is next to it."""
    places = range(n) if places is None else places
    x = np.random.default_rng(n).permutation(n * (len(places) + 1)) - n
    x = x.reshape(len(places) + 1, n).astype(dtype)
    for row, place in zip(x, places, strict=False):
        if beside is not None:
            row[place - 1] = beside
        row[place] = np.nan
    return x


def samples(dtype, lengths=LENGTHS):
    """Rows of many lengths, with infinities of both signs or two NaN too."""
    for n in lengths:
        for beside in (None, INF, -INF, np.nan):
            yield rows(n, dtype, beside, range(0, n, 1 if beside is None else 3))
        yield np.array([[INF, -INF] * n, [INF, -INF] * (n - 1) + [INF, np.nan]], dtype)


def same(found, wanted):
    np.testing.assert_array_equal(found, np.asarray(wanted, found.dtype))


# ---- reductions

REDUCTIONS = {
    "reduce_max": (pd.reduce_max, np.max),
    "reduce_min": (pd.reduce_min, np.min),
    "norm": (lambda x, *a: pd.norm(x, INF, *a), lambda x, *a: np.abs(x).max(*a)),
    "least norm": (lambda x, *a: pd.norm(x, -INF, *a), lambda x, *a: np.abs(x).min(*a)),
}


@pytest.mark.parametrize("name, dtype", thinned(itertools.product(REDUCTIONS, DTYPES), 2))
def test_reductions_keep_nan(name, dtype):
    ours, numpys = REDUCTIONS[name]
    x = pd.Variable([None, None], dtype=dtype)
    results = [ours(x, 1), ours(x, 0), ours(x)]
    cube = pd.Variable([None, None, 3], dtype=dtype)
    cubes = [ours(cube, axis) for axis in (1, (0, 2), (1, 2))]
    for array in samples(dtype):
        for y, axis in zip(pd.eval(results, {x: array}), (1, 0, None), strict=True):
            same(y, numpys(array, axis))
        stack = np.zeros((*array.shape, 3), dtype)
        stack[..., 1] = array
        for y, axis in zip(pd.eval(cubes, {cube: stack}), (1, (0, 2), (1, 2)), strict=True):
            same(y, numpys(stack, axis))


@pytest.mark.parametrize("elements", [4095, 4097, 300_000])
def test_one_nan_in_many_elements(elements):
    x = pd.Variable([None])
    y = pd.reduce_max(x), pd.max_pool(ops.reshape(x, [1, 1, -1]), 1)
    for place in (0, 1, elements // 2, elements - 1):
        array = np.ones(elements, np.float32)
        array[place] = np.nan
        largest, pooled = pd.eval(y, {x: array})
        assert np.isnan(largest)
        same(pooled[0, 0], array)


def test_sums_that_overflow_are_no_nan():
    x = pd.Variable([None])
    array = np.array([3e38, 3e38, -3e38, -3e38, -3e38] * 4, np.float32)
    same(pd.eval(pd.reduce_max(x), {x: array}), np.float32(3e38))
    same(pd.eval(pd.reduce_max(x), {x: np.array([INF, -INF, 1.0])}), INF)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient_of_a_reduction_is_nan_with_it(dtype):
    """The gradient of torch.amax in PyTorch 2.13; equal numbers share it."""
    x = pd.Variable([None, None], dtype=dtype)
    slope = pd.gradients(pd.reduce_sum(pd.reduce_max(x, 1)), [x])[0]
    for array in samples(dtype, [1, 2, 7, 33]):
        largest = array.max(1, keepdims=True)
        hits = array == largest
        with np.errstate(invalid="ignore"):
            wanted = np.where(np.isnan(largest), np.nan, hits / hits.sum(1, keepdims=True))
        same(pd.eval(slope, {x: array}), wanted)


def test_static_sizes_loops_and_guards():
    array = rows(5, "float32")
    x = pd.Variable(array.shape)
    same(pd.eval(pd.reduce_max(x, 1), {x: array}), array.max(1))
    _, largest = pd.scan(lambda s, row: (s, pd.reduce_max(row * 1.0)), np.float32(0), x)
    same(pd.eval(largest, {x: array}), array.max(1))
    with pd.guard():
        w = pd.Variable(data=array)
        y = pd.reduce_max(w, 1)
        same(y.eval(), array.max(1))


def test_empty_axes_stay_as_they_are():
    x = pd.Variable([None, 3])
    assert pd.eval(pd.reduce_max(x, 1), {x: np.zeros((0, 3))}).shape == (0,)
    assert pd.eval(pd.max_pool(ops.unsqueeze(x, 1), 1), {x: np.zeros((0, 3))}).shape == (0, 1, 3)


# ---- poolings

WINDOWS = [(1, 1, 0), (2, 2, 0), (2, 1, 0), (3, 2, 1), (3, 3, 0), (3, 1, 1), (5, 1, 2), (7, 3, 2)]
AXES = {1: (-1,), 2: (1, -1), 3: (1, 1, -1)}  # which axis is long, for 1 to 3 spatial ones


def pooled(x, window, stride, pad, dy=None, ties="first"):
    """The maxima along the last axis; with dy its gradient in x, to the last NaN or the first."""
    width = [(0, 0)] * (x.ndim - 1) + [(pad, pad)]
    padded = np.pad(x, width, constant_values=-INF)
    count = (padded.shape[-1] - window) // stride + 1
    dx, y = np.zeros(padded.shape), np.empty((*x.shape[:-1], count), x.dtype)
    for at in np.ndindex(y.shape):
        cells = at[:-1], slice(at[-1] * stride, at[-1] * stride + window)
        cells = padded[cells[0]][cells[1]]
        y[at] = cells.max()
        if dy is None:
            continue
        wins = np.isnan(cells) if np.isnan(y[at]) else cells == y[at]
        inside = np.arange(window) + at[-1] * stride - pad
        places = np.flatnonzero(wins & (inside >= 0) & (inside < x.shape[-1]))
        if ties == "first":
            places = places[-1:] if np.isnan(y[at]) else places[:1]
        dx[(*at[:-1], at[-1] * stride + places)] += dy[at]
    return y if dy is None else dx[..., pad : pad + x.shape[-1]]


@pytest.mark.parametrize("rank, dtype", thinned(itertools.product(AXES, DTYPES), 2))
def test_poolings_keep_nan(rank, dtype):
    shape = [None if k < 0 else k for k in AXES[rank]]
    x = pd.Variable([None, 1, *shape], dtype=dtype)
    options = [[*(1,) * (rank - 1), k] for k in range(8)]
    pools = [
        pd.max_pool(x, options[k], s, [0] * (rank - 1) + [p] + [0] * (rank - 1) + [p])
        for k, s, p in WINDOWS
    ]
    for array in samples(dtype, [7, 8, 9, 16, 33]):
        image = array.reshape(len(array), 1, *(1,) * (rank - 1), -1)
        for y, window in zip(pd.eval(pools, {x: image}), WINDOWS, strict=True):
            same(y.reshape(len(array), -1), pooled(array, *window))


@pytest.mark.parametrize("ties", ["first", "all"])
@pytest.mark.parametrize("known", [True, False], ids=["known sizes", "unknown sizes"])
def test_gradient_of_a_pooling_goes_to_the_last_nan(ties, known):
    """As in PyTorch 2.13; with ties="all" to each of them."""
    if ties == "all" and not known:
        pytest.skip("ties='all' needs known sizes")
    for n, (k, s, p) in itertools.product((7, 12), WINDOWS):
        arrays = [a[:, None] for a in samples("float32", [n]) if a.shape[1] == n]
        x = pd.Variable([None, 1, n if known else None])
        y = pd.max_pool(x, k, s, p, ties=ties)
        size = (n + 2 * p - k) // s + 1
        dy = np.arange(1, size + 1, dtype=np.float32)
        slope = pd.gradients(pd.reduce_sum(y * dy), [x])[0]
        for array in arrays:
            shares = np.broadcast_to(dy, (*array.shape[:-1], size))
            same(pd.eval(slope, {x: array}), pooled(array, k, s, p, shares, ties))


# The windows of PyTorch 2.13's F.max_pool2d(x, 2, 1), and F.max_pool2d(relu(x), 2), of
# x = [[1, nan, 3, nan], [7, 2, nan, 0], [nan, 0, 5, 1], [4, 4, nan, 6]], times 1, 2, ...
IMAGE = [[1, np.nan, 3, np.nan], [7, 2, np.nan, 0], [np.nan, 0, 5, 1], [4, 4, np.nan, 6]]
OVERLAPPING = [[0, 1, 0, 0], [0, 0, 2 + 3 + 5 + 6, 0], [4 + 7, 0, 0, 0], [0, 0, 8 + 9, 0]]
TILED = [[0, 1, 0, 0], [0, 0, 2, 0], [3, 0, 0, 0], [0, 0, 4, 0]]


def test_gradients_of_images_as_recorded():
    x = pd.Variable([None, 1, 4, 4])
    image = np.array(IMAGE, np.float32)[None, None]
    for y, wanted in (
        (pd.max_pool(x, 2, 1), OVERLAPPING),
        (pd.max_pool(x, 2, 2), TILED),
        (pd.max_pool(pd.relu(x), 2, 2), TILED),
        (pd.relu(pd.max_pool(x, 2, 2)), TILED),
    ):
        dy = np.arange(1, y.dims[2] ** 2 + 1, dtype=np.float32).reshape(y.dims[2:])
        same(pd.eval(pd.gradients(pd.reduce_sum(y * dy), [x])[0], {x: image})[0, 0], wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_global_and_adaptive_poolings_keep_nan(dtype):
    x = pd.Variable([None, 1, None], dtype=dtype)
    results = [pd.global_max_pool(x)]
    if dtype == "float32":
        results.append(apply("GlobalMaxPool", x))
    for array in samples(dtype, [1, 2, 7, 8, 31, 33]):
        for y in pd.eval(results, {x: array[:, None]}):
            same(y[:, 0, 0], array.max(1))
    x = pd.Variable([None, 1, 7], dtype=dtype)
    y = pd.adaptive_max_pool(x, 3)  # of elements 0 to 2, 2 to 4, and 4 to 6
    for array in samples(dtype, [7]):
        if array.shape[1] == 7:
            wanted = np.stack([array[:, a : a + 3].max(1) for a in (0, 2, 4)], 1)
            same(pd.eval(y, {x: array[:, None]})[:, 0], wanted)


def test_indices_of_a_pooling_are_those_of_the_last_nan():
    x = pd.Variable([None, 1, None])
    index = apply("MaxPool", x, outputs=2, kernel_shape=[3], strides=[3])[1]
    array = np.array([[[1, np.nan, 2, np.nan, np.nan, 5]], [[1, 3, 2, 5, 5, 0]]], np.float32)
    same(pd.eval(index, {x: array})[:, 0], [[1, 4], [7, 9]])


# ---- sequences


def test_maximum_of_a_sequence_keeps_nan():
    lengths = pd.Variable([None], dtype="int64")
    x = pd.Variable([None, None])
    segments = Segments(lengths)
    y = segments.max(x)
    slope = pd.gradients(pd.reduce_sum(y), [x])[0]
    for n in (1, 2, 5, 17, 40):
        array = rows(n, "float32").T.copy()  # a NaN in another step of each column
        split = [n - n // 3, 0, n // 3]
        found, dx = pd.eval([y, slope], {x: array, lengths: np.array(split)})
        wanted, first = np.zeros((3, n + 1)), np.zeros(array.shape)
        for k, (a, b) in enumerate(((0, n - n // 3), (0, 0), (n - n // 3, n))):
            if b > a:
                wanted[k] = array[a:b].max(0)
                first[a + array[a:b].argmax(0), np.arange(n + 1)] = 1  # of NaN too
        same(found, wanted)
        same(dx, first)


# ---- order


def order(x, largest):
    """Indices that sort rows, NaN as the largest; equal elements keep their order."""
    key = np.where(np.isnan(x), INF, x)
    by_number = np.argsort(-key if largest else key, 1, kind="stable")
    is_nan = np.take_along_axis(np.isnan(x), by_number, 1)
    last = np.argsort(~is_nan if largest else is_nan, 1, kind="stable")
    return np.take_along_axis(by_number, last, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_have_nan_as_the_largest(dtype):
    x = pd.Variable([None, None], dtype=dtype)
    counts = pd.Variable([1], dtype="int64")
    results = [
        *(pd.sort(x), pd.argsort(x), pd.sort(x, descending=True), pd.argsort(x, descending=True)),
        *pd.top_k(x, counts),
        *pd.top_k(x, counts, largest=False),
        *(pd.arg_max(x), pd.arg_min(x), pd.sort(x, 0)),
    ]
    for array in samples(dtype, [1, 2, 3, 8, 17, 33, 100]):
        up, down = order(array, False), order(array, True)
        for k in {1, array.shape[1] // 2, array.shape[1]} - {0}:
            found = pd.eval(results, {x: array, counts: [k]})
            wanted = []
            for index in (up, down, down[:, :k], up[:, :k]):
                wanted += [np.take_along_axis(array, index, 1), index]
            wanted += [array.argmax(1), array.argmin(1), np.sort(array, 0)]
            for a, b in zip(found, wanted, strict=True):
                same(a, b)


def test_gradient_of_top_k_goes_to_the_nan_chosen():
    x = pd.Variable([None, None])
    values, _ = pd.top_k(x, 2)
    slope = pd.gradients(pd.reduce_sum(values * np.array([1, 2], np.float32)), [x])[0]
    array = np.array([[1, np.nan, 3, np.nan], [1, 5, 5, 0]], np.float32)
    same(pd.eval(slope, {x: array}), [[0, 1, 0, 2], [0, 1, 2, 0]])


# ---- elementwise


ELEMENTWISE = {
    "maximum": (pd.maximum, np.maximum),
    "minimum": (pd.minimum, np.minimum),
    "clip": (lambda x, y: pd.clip(x, -1.0, 5.0), lambda x, y: np.clip(x, -1.0, 5.0)),
    "relu": (lambda x, y: pd.relu(x), lambda x, y: np.maximum(x, 0)),
    "leaky_relu": (lambda x, y: pd.leaky_relu(x, 0.5), lambda x, y: np.where(x > 0, x, x / 2)),
    "hinge": (lambda x, y: pd.relu(1.0 - x * y), lambda x, y: np.maximum(1 - x * y, 0)),
    "sign": (lambda x, y: ops.sign(x), lambda x, y: np.sign(x)),
    "less": (lambda x, y: x < y, np.less),
    "greater_equal": (lambda x, y: x >= y, np.greater_equal),
    "equal": (pd.equal, np.equal),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operators_keep_nan(name, dtype):
    ours, numpys = ELEMENTWISE[name]
    x, y = pd.Variable([None, None], dtype=dtype), pd.Variable([None, None], dtype=dtype)
    results = [ours(x, y), ours(y, x)]
    for array in samples(dtype, [1, 2, 3, 8, 17, 33, 64, 100]):
        other = np.ones_like(array)
        other[0] = np.nan
        with np.errstate(invalid="ignore"):
            wanted = numpys(array, other), numpys(other, array)
        for a, b in zip(pd.eval(results, {x: array, y: other}), wanted, strict=True):
            same(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_and_logsumexp_of_a_row_with_nan_are_nan(dtype):
    x = pd.Variable([None, None], dtype=dtype)
    results = [pd.softmax(x), pd.log_softmax(x), pd.logsumexp(x, 1, True)]
    results.append(apply("ReduceLogSumExp", x, np.array([1]), keepdims=1))
    for array in samples(dtype, [1, 2, 7, 8, 33, 100]):
        has_nan = np.isnan(array).any(1)
        finite = np.isfinite(array).all(1)
        for y in pd.eval(results, {x: array}):
            assert np.isnan(y[has_nan]).all() and np.isfinite(y[finite]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatters_by_extremes_keep_nan(dtype, rng):
    ids = np.array([0, 1, 0, 2, 1, 0])
    x, old = pd.Variable([6, 3], dtype=dtype), pd.Variable([4, 3], dtype=dtype)
    results = [pd.segment_max(x, ids, 3), pd.segment_min(x, ids, 3)]
    results += [pd.scatter(old, np.repeat(ids, 3).reshape(6, 3), x, 0, r) for r in ("max", "min")]
    results += [apply("ScatterND", old, ids[:, None], x, reduction=r) for r in ("max", "min")]
    for _ in range(5):
        values, before = (
            rng.normal(size=(6, 3)).astype(dtype),
            rng.normal(size=(4, 3)).astype(dtype),
        )
        values[rng.random((6, 3)) < 0.2] = np.nan
        before[rng.random((4, 3)) < 0.2] = np.nan
        wanted = []
        for compared in (np.maximum, np.minimum):
            rows = [compared.reduce(values[ids == k]) for k in range(3)]
            whole = before.copy()
            compared.at(whole, ids, values)
            wanted.append((np.array(rows), whole))
        (most, whole_most), (least, whole_least) = wanted
        expected = [most, least, *[whole_most, whole_least] * 2]
        for y, value in zip(pd.eval(results, {x: values, old: before}), expected, strict=True):
            same(y, value)


def test_clip_to_a_bound_that_is_nan_is_nan():
    x, low, high = pd.Variable([None]), pd.Variable([]), pd.Variable([])
    array = np.array([-2, 0, 2, np.nan], np.float32)
    results = [pd.clip(x, low, high), pd.clip(x, low), pd.clip(x, None, high)]
    for a, b in ((np.nan, 1), (-1, np.nan), (np.nan, np.nan), (-1, 1), (1, -1)):
        found = pd.eval(results, {x: array, low: a, high: b})
        wanted = np.clip(array, a, b), np.maximum(array, a), np.minimum(array, b)
        for y, z in zip(found, wanted, strict=True):
            same(y, z)
    assert np.isnan(pd.eval(pd.clip(x, np.nan, 1.0), {x: array})).all()


def test_gradients_of_elementwise_operators_at_nan():
    """As of torch.maximum, minimum, relu, leaky_relu and clamp in PyTorch 2.13."""
    nan = np.nan
    x, y = pd.Variable([None]), pd.Variable([None])
    a = np.array([nan, 1, nan, 2, 3, 0, -1], np.float32)
    b = np.array([1, nan, nan, 2, 1, 5, -2], np.float32)
    for result, dx, dy in (
        (pd.maximum(x, y), [1, 1, 1, 0.5, 1, 0, 1], [1, 1, 1, 0.5, 0, 1, 0]),
        (pd.minimum(x, y), [1, 1, 1, 0.5, 0, 1, 0], [1, 1, 1, 0.5, 1, 0, 1]),
        (pd.relu(x) + 0.0 * y, [1, 1, 1, 1, 1, 0, 0], None),
        (pd.leaky_relu(x, 0.5) + 0.0 * y, [0.5, 1, 0.5, 1, 1, 0.5, 0.5], None),
        (pd.clip(x, -1.0, 2.0) + 0.0 * y, [0, 1, 0, 1, 0, 1, 1], None),
        (pd.clip(x, -0.5) + 0.0 * y, [0, 1, 0, 1, 1, 1, 0], None),
        (pd.clip(x, None, 2.5) + 0.0 * y, [0, 1, 0, 1, 0, 1, 1], None),
    ):
        found = pd.eval(gradients(pd.reduce_sum(result), [x, y]), {x: a, y: b})
        same(found[0], dx)
        if dy is not None:
            same(found[1], dy)


@pytest.mark.parametrize("act", [pd.relu, pd.tanh, pd.identity], ids=["relu", "tanh", "none"])
def test_trained_pooling_behind_a_convolution_keeps_nan(act):
    """Without it the kernel stays that may lose one, as `max_pool` says."""
    x, w = pd.Variable([None, 2, 8, 8]), pd.Variable([3, 2, 1, 1])
    y = act(pd.conv(x, w))
    z = pd.max_pool(y, 2, 2)
    slope = pd.gradients(pd.reduce_sum(z), [w])[0]
    rng = np.random.default_rng(0)
    image, filters = rng.normal(size=(4, 2, 8, 8)), rng.normal(size=(3, 2, 1, 1))
    image[rng.random(image.shape) < 0.05] = np.nan
    pixels, pooled, _ = pd.eval([y, z, slope], {x: image, w: filters})
    same(pooled, pixels.reshape(4, 3, 4, 2, 4, 2).max((3, 5)))
