"""Counts, shifts and bounds that only runs know, beside NumPy and PyTorch."""

import numpy as np
import pytest

import pd_core as pd

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def x():
    return pd.Variable("x", shape=[None, None])


@pytest.fixture
def n():
    return pd.Variable("n", shape=[], dtype="int64")


# name: what is built of x [?, ?] and an integer n, and what NumPy gives
CASES = {
    "arange": (lambda x, n: pd.arange(n), lambda x, n: np.arange(n)),
    "arange from": (lambda x, n: pd.arange(n, 9), lambda x, n: np.arange(n, 9)),
    "arange up to": (lambda x, n: pd.arange(-1, n), lambda x, n: np.arange(-1, n)),
    "arange by": (lambda x, n: pd.arange(7, -3, -n - 1), lambda x, n: np.arange(7, -3, -n - 1)),
    "linspace": (lambda x, n: pd.linspace(-1, 2, n), lambda x, n: np.linspace(-1, 2, n)),
    "linspace of Variables": (
        lambda x, n: pd.linspace(pd.reduce_min(x), pd.reduce_max(x), n),
        lambda x, n: np.linspace(x.min(), x.max(), n),
    ),
    "repeat": (lambda x, n: pd.repeat(x, n), lambda x, n: np.repeat(x, n, 0)),
    "repeat of columns": (lambda x, n: pd.repeat(x, n, 1), lambda x, n: np.repeat(x, n, 1)),
    "repeat by row": (
        lambda x, n: pd.repeat(x, n + pd.arange(pd.size_of(x, 0))),
        lambda x, n: np.repeat(x, n + np.arange(len(x)), 0),
    ),
    "roll": (lambda x, n: pd.roll(x, n, 1), lambda x, n: np.roll(x, n, 1)),
    "roll back": (
        lambda x, n: pd.roll(x, [-n, 1], [0, 1]),
        lambda x, n: np.roll(x, (-n, 1), (0, 1)),
    ),
    "roll of all": (lambda x, n: pd.roll(x, n), lambda x, n: np.roll(x, n)),
    "lower triangle": (lambda x, n: pd.tril(x, n - 2), lambda x, n: np.tril(x, n - 2)),
    "upper triangle": (lambda x, n: pd.triu(x, n), lambda x, n: np.triu(x, n)),
    "split": (lambda x, n: pd.split(x, [n, 4 - n], 1)[1], lambda x, n: x[:, n:]),
    "chunk": (lambda x, n: pd.chunk(x, 2, 1)[1], lambda x, n: np.split(x, 2, 1)[1]),
    "top_k": (lambda x, n: pd.top_k(x, n, 0)[0], lambda x, n: np.sort(x, 0)[::-1][:n]),
    "one_hot": (lambda x, n: pd.one_hot(pd.arange(n), n), lambda x, n: np.eye(n)),
    "tile": (lambda x, n: pd.tile(x, [n]), lambda x, n: np.tile(x, n)),
    "drawn classes": (
        lambda x, n: pd.multinomial(np.eye(3, dtype="f4"), n, replacement=True),
        lambda x, n: np.repeat(np.arange(3)[:, None], n, 1),
    ),
    "all classes": (
        lambda x, n: pd.sort(pd.multinomial(np.ones((2, 3), "f4"), n, replacement=False) * 0),
        lambda x, n: np.zeros((2, n)),
    ),
    "drawn integers": (lambda x, n: pd.randint([5], n, n + 1), lambda x, n: np.full(5, n)),
}


@pytest.mark.parametrize("number", [3, 1, 0])
@pytest.mark.parametrize("name", CASES)
def test_counts_are_variables(name, number, x, n):
    build, reference = CASES[name]
    want = reference(A, number)
    got = pd.eval(build(x, n), {x: A, n: number})
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6)
    with pd.guard():
        recorded = build(pd.to_variable(A), pd.to_variable(np.int64(number)))
        np.testing.assert_allclose(recorded.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("bounds", [(0, 7), (-3, 4), (5, 6)])
def test_drawn_integers_are_between_bounds_of_the_run(bounds):
    low, high = (pd.Variable(name, shape=[], dtype="int32") for name in ("low", "high"))
    drawn = pd.eval(pd.randint([2000], low, high), {low: bounds[0], high: bounds[1]})
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) == set(range(*bounds))


@pytest.mark.parametrize("k", [-4, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 4, 3), (2, 1, 1), (0, 3, 3), (2, 0, 3)])
def test_diagonals_of_open_sizes(k, shape):
    x = pd.Variable("x", shape=[None, None, None])
    y = pd.diagonal(x, k)
    (dx,) = pd.gradients(pd.reduce_sum(y * y), [x])
    value = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    want = np.diagonal(value, k, 1, 2)
    got, gradient = pd.eval([y, dx], {x: value})
    np.testing.assert_array_equal(got, want)
    on_diagonal = np.eye(*shape[1:], k, dtype=np.float32)
    np.testing.assert_allclose(gradient, 2 * value * on_diagonal, rtol=1e-6)


def test_a_diagonal_of_square_matrices_is_as_long():
    x = pd.Variable("x", shape=["b", "n", "n"])
    assert pd.diagonal(x).dims == ("b", "n")
    assert pd.diagonal(x, 1).dims[1] != "n"


@pytest.mark.parametrize(("axis", "keep"), [(None, False), (0, False), (1, True), ([0, 1], False)])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (4, 3)])
def test_quantiles_of_nothing_are_nan(shape, axis, keep, x):
    value = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    axes = tuple(axis) if isinstance(axis, list) else axis
    built = [pd.median(x, axis, keep), pd.quantile(x, [0.2, 0.7], axis, keep)]
    got = pd.eval(built, {x: value})
    if value.size:
        want = [np.quantile(value, q, axes, keepdims=keep) for q in (0.5, [0.2, 0.7])]
    else:
        sums = value.sum(axes, keepdims=keep)
        want = [np.full(lead + sums.shape, np.nan) for lead in ((), (2,))]
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-5)


def test_gradients_of_repeated_rows_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    x, counts = pd.Variable("x", shape=[None, 3]), pd.Variable("c", shape=[None], dtype="int64")
    y = pd.repeat(x, counts)
    line = pd.linspace(pd.reduce_min(x), pd.reduce_sum(x), pd.size_of(x, 0) + 1)
    cost = pd.reduce_sum(pd.square(y)) + pd.reduce_sum(line * line)
    value = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    t, number = torch.tensor(value, requires_grad=True), np.array([2, 0, 1, 3])
    low, high = t.min(), t.sum()
    want = torch.repeat_interleave(t, torch.tensor(number), 0).square().sum()
    (want + (low + (high - low) * torch.arange(5) / 4).square().sum()).backward()
    got = pd.eval(pd.gradients(cost, [x])[0], {x: value, counts: number})
    np.testing.assert_allclose(got, t.grad, rtol=1e-4, atol=1e-5)


def test_a_length_is_no_float(x):
    for build in (
        lambda: pd.arange(pd.reduce_sum(x)),
        lambda: pd.linspace(0.0, 1.0, pd.reduce_sum(x)),
        lambda: pd.repeat(x, pd.reduce_sum(x)),
        lambda: pd.zeros(pd.cast(pd.shape_of(x), "float32")),
        lambda: pd.top_k(x, pd.reduce_sum(x)),
    ):
        with pytest.raises(pd.DTypeError, match="integer"):
            build()
