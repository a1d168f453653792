"""Equal operators of a program are computed once, and the results stay those of NumPy."""

from collections import Counter

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.lowering import lower
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import apply

SEEDS = range(40)


def written(targets, feeds, updates=(), exported=False):
    """The operators of a program, by type."""
    sizes = {d: 3 for v in feeds for d in v.dims if isinstance(d, str)}
    graph = program.build(targets, updates, feeds, False, sizes)
    model = lower(graph if exported else for_device(graph, CPU)).model
    return Counter(node.op_type for node in model.graph.node)


class Pairs:
    """Values in float64 beside Variables that compute them, by steps drawn at random.

    Steps are drawn with repetition, so that many of them compute the same again.
    """

    def __init__(self, rng):
        self.rng = rng
        rows = int(rng.integers(0, 4))
        self.array = rng.normal(size=(rows, 2, 3)).astype(np.float32)
        self.feed = pd.Variable([None, 2, 3])
        self.made = [(self.feed, self.array.astype(np.float64))]

    def grow(self):
        steps = [self.scaled, self.viewed, self.by_size, self.broadcast, self.summed]
        x, a = self.made[self.rng.integers(len(self.made))]
        self.made.append(steps[self.rng.integers(len(steps))](x, a))

    def scaled(self, x, a):
        k = int(self.rng.integers(2))
        return x * [0.5, -1.0][k] + 1.0, a * [0.5, -1.0][k] + 1.0

    def viewed(self, x, a):
        shape = [[-1, 2, 3], [-1, 3, 2], [-1, 1, 6], [-1, 6, 1]][self.rng.integers(4)]
        middle = apply("Unsqueeze", x, np.array([1])) if self.rng.integers(2) else x
        rows = self.array.shape[0]
        return pd.reshape(middle, shape), a.reshape(rows, *shape[1:])

    def by_size(self, x, a):
        start = int(self.rng.integers(2))
        size = pd.cast(pd.reduce_sum(apply("Shape", x, start=start)), "float32")
        return x / (size + 1.0), a / (sum(a.shape[start:]) + 1.0)

    def broadcast(self, x, a):
        zeros = apply("Expand", np.zeros((1, 1, 1), np.float32), apply("Shape", x))
        return x + zeros, a

    def summed(self, x, a):
        other = [(y, b) for y, b in self.made if b.shape == a.shape and y.dims == x.dims]
        y, b = other[self.rng.integers(len(other))]
        return (x + y) * 0.5, (a + b) * 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_compute_what_numpy_does(seed):
    pairs = Pairs(np.random.default_rng(seed))
    for _ in range(25):
        pairs.grow()
    targets = [x for x, _ in pairs.made[-8:]]
    found = pd.eval(targets, {pairs.feed: pairs.array})
    for value, (_, want) in zip(found, pairs.made[-8:], strict=True):
        assert value.shape == want.shape
        np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-6)


def test_equal_operators_are_one():
    x = pd.Variable([None, 4])
    total = sum(pd.exp(x * 2.0) * k for k in (3.0, 5.0, 7.0))
    assert written([total], [x])["Exp"] == 1
    assert written([total], [x], exported=True)["Exp"] == 3  # a file is as it was written


def test_sizes_are_asked_once():
    x = pd.Variable([None, 4])
    targets = [apply("Expand", np.float32(k), apply("Shape", pd.exp(x * k))) for k in (1.0, 2.0)]
    found = written(targets, [x])
    assert found["Shape"] == 1 == found["Exp"]  # sizes are those of the first
    wide = pd.Variable([None, 5])
    both = [apply("Shape", x + 1.0), apply("Shape", wide + 1.0)]
    assert written(both, [x, wide])["Shape"] == 2


def test_rows_that_are_picked_have_sizes_of_their_own():
    """A recorded graph gives the sizes of two results of one type one name."""
    x = np.arange(24, dtype="float32").reshape(6, 4)
    with pd.guard():
        for count in (1, 4, 2):
            mask = pd.to_variable(np.arange(6) < count)
            rows = [apply("Compress", pd.to_variable(x), m, axis=0) for m in (mask, ~mask)]
            sizes = [apply("Shape", r) for r in rows]
            assert [int(s[0]) for s in sizes] == [r.numpy().shape[0] for r in rows]


def test_known_sizes_are_constants():
    x = pd.Variable([None, 4])
    scale = pd.cast(apply("Shape", x, start=1), "float32") * 2.0
    assert written([x / scale], [x]) == {"Div": 1}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_folded_constants_keep_their_dtype(dtype):
    x = pd.Variable([3], dtype=dtype)
    size = pd.cast(apply("Shape", x), dtype)
    y = x * size + size
    (value,) = pd.eval([y], {x: np.array([1, 2, 3], dtype)})
    assert value.dtype == dtype and (value == [6, 9, 12]).all()


def test_a_view_of_a_view_is_one():
    x = pd.Variable([None, 6])
    y = pd.reshape(pd.reshape(x * 2.0, [-1, 2, 3]), [-1, 3, 2])
    assert written([y], [x])["Reshape"] == 1
    back = pd.reshape(pd.reshape(x * 2.0, [-1, 2, 3]), [-1, 6])
    assert written([pd.exp(back)], [x]) == {"Mul": 1, "Exp": 1}


def test_a_view_that_may_fail_stays():
    x = pd.Variable([None])
    y = pd.reshape(pd.reshape(x, [-1, 2, 3]), [-1, 3])
    assert written([y], [x])["Reshape"] == 2
    with pytest.raises(pd.BackendError, match=r"\[3\] do not fit \[\?, 2, 3\]"):
        pd.eval([y], {x: np.zeros(3, np.float32)})


SHAPES = ([-1], [-1, 2], [-1, 3], [-1, 4], [6], [2, 6], [2, -1, 3])


@pytest.mark.parametrize("dims", [[None], [None, 2], [None, 6]], ids=str)
@pytest.mark.parametrize("inner", SHAPES, ids=str)
@pytest.mark.parametrize("outer", SHAPES, ids=str)
def test_a_view_refuses_what_numpy_refuses_below_another_view(dims, inner, outer):
    x = pd.Variable(dims)
    try:
        y = pd.reshape(pd.reshape(x, inner), outer)
    except pd.ShapeError:  # at once
        y = None
    for rows in (1, 2, 4, 6):
        array = np.arange(rows * np.prod([d or 1 for d in dims]), dtype=np.float32)
        array = array.reshape([d or rows for d in dims])
        try:
            want = array.reshape(inner).reshape(outer)
        except ValueError:
            if y is not None:
                with pytest.raises(pd.BackendError, match="do not fit"):
                    pd.eval(y, {x: array})
        else:
            np.testing.assert_array_equal(pd.eval(y, {x: array}), want)


def test_a_zero_in_a_shape_means_the_size_of_the_view():
    x = pd.Variable([2, 6])
    y = apply("Reshape", pd.reshape(x, [4, 3]), np.array([0, -1]))
    (value,) = pd.eval([y], {x: np.arange(12.0).reshape(2, 6)})
    assert value.shape == (4, 3)


def test_draws_are_not_merged():
    x = pd.Variable([None, 4])
    a, b = (apply("RandomNormalLike", x) for _ in range(2))
    first, second = pd.eval([a, b], {x: np.zeros((8, 4), np.float32)})
    assert (first != second).any()


def test_equal_results_have_names_of_their_own():
    x = pd.Variable([None, 4])
    a, b, same = pd.exp(x), pd.exp(x), pd.reshape(x, [-1, 4])
    w, v = pd.Variable(name="w", data=np.zeros(4)), pd.Variable(name="v", data=np.ones(4))
    mean = [pd.reduce_mean(y, [0]) for y in (a, b)]
    updates = [pd.assign(w, mean[0]), pd.assign(v, mean[1])]
    array = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = pd.eval([a, b, same, *updates], {x: array})
    np.testing.assert_allclose(found[0], np.exp(array), rtol=1e-5)
    assert (found[0] == found[1]).all() and (found[2] == array).all()
    found[0][:] = 0
    assert found[1].all()  # not the same memory
    for value in pd.eval([w, v]):
        np.testing.assert_allclose(value, np.exp(array).mean(0), rtol=1e-5)


def test_bodies_are_merged_by_themselves():
    xs = pd.Variable([None, 2, 3])

    def step(state, x):
        twice = pd.tanh(state + x) + pd.tanh(state + x) * pd.exp(np.float32(0.5))
        return twice, twice

    _, ys = pd.scan(step, np.zeros((2, 3), np.float32), xs)
    array = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    (found,) = pd.eval([ys + pd.exp(np.float32(0.5))], {xs: array})
    state = np.zeros((2, 3))
    for x, got in zip(array, found, strict=True):
        state = np.tanh(state + x) * (1 + np.exp(0.5))
        np.testing.assert_allclose(got, state + np.exp(0.5), rtol=1e-5)


def test_large_fillings_are_not_kept_for_later():
    x = pd.Variable([1024, 1024])
    a, b = (apply("Expand", np.float32(1.0), np.array([1024, 1024])) * x for _ in range(2))
    assert written([a, b], [x])["Mul"] == 2
    small = pd.Variable([4, 4])
    c, d = (apply("Expand", np.float32(1.0), np.array([4, 4])) * small for _ in range(2))
    assert written([c, d], [small])["Mul"] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e20, 3e9])
def test_floats_that_no_integer_holds_are_cast_by_the_runtime(value):
    """A constant gives what a feed gives; NumPy may give another integer, and warns."""
    array = np.array([value, 1.5], np.float32)
    x = pd.Variable([2])
    fed, folded = pd.cast(x, "int32"), pd.cast(pd.constant(array), "int32")
    both = pd.eval([fed, folded + pd.cast(x * 0.0 == 1.0, "int32")], {x: array})
    np.testing.assert_array_equal(*both)
