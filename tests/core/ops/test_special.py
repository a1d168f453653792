"""Special functions and distances: values and gradients of PyTorch where formulas would fail."""

import numpy as np
import pytest

import pd_core as pd

NAN, INF = np.nan, np.inf
SPECIAL = np.array([NAN, INF, -INF, 0.0, 1.0, -1.0, 1e-30, 1e30, -1e30, 0.5, -2.5, 2.0], "float32")
GRID = [v.reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL)]


def both(ours, theirs, arrays):
    """Values and gradients of a sum, here and of PyTorch."""
    torch = pytest.importorskip("torch")
    variables = [pd.Variable(data=a) for a in arrays]
    y = ours(*variables)
    found = pd.eval([y, *pd.gradients(pd.reduce_sum(y), variables)])
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    z = theirs(torch, *tensors)
    z.sum().backward()
    return found, [z.detach().numpy(), *(t.grad.numpy() for t in tensors)]


def same(found, wanted, rtol=1e-5):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-6)


def test_values_at_special_points_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    a, b = (torch.tensor(v) for v in GRID)
    x = torch.tensor(SPECIAL)
    pairs = {
        "logaddexp": (pd.logaddexp(*GRID), torch.logaddexp(a, b)),
        "xlogy": (pd.xlogy(*GRID), torch.xlogy(a, b)),
        "lgamma": (pd.lgamma(SPECIAL), torch.lgamma(x)),
        "erfinv": (pd.erfinv(SPECIAL), torch.erfinv(x)),
        "nan_to_num": (pd.nan_to_num(SPECIAL), torch.nan_to_num(x)),
        "digamma": (
            pd.digamma(SPECIAL[[0, 1, 3, 4, 5, 6, 7, 9, 10]]),
            torch.digamma(x[[0, 1, 3, 4, 5, 6, 7, 9, 10]]),
        ),
    }
    values = pd.eval([ours for ours, _ in pairs.values()])
    for name, value, (_, wanted) in zip(pairs, values, pairs.values(), strict=True):
        np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-5, atol=2e-6, err_msg=name)


def test_gradients_at_special_points_are_those_of_pytorch():
    a = np.array([0.0, 5.0, -INF, 3.0, 700.0, 1e4, 2.0], "float32")
    b = np.array([0.0, 5.0, 3.0, -INF, -700.0, 1e4, 2.0 + 1e-3], "float32")
    for found, wanted in zip(
        *both(pd.logaddexp, lambda t, p, q: t.logaddexp(p, q), [a, b]), strict=True
    ):
        same(found, wanted)
    x, y = np.array([0.0, 0.0, 2.0, -1.0], "float32"), np.array([3.0, 0.5, 2.0, 1.0], "float32")
    for found, wanted in zip(*both(pd.xlogy, lambda t, p, q: t.xlogy(p, q), [x, y]), strict=True):
        same(found, wanted)
    x = np.array([NAN, INF, -INF, 2.0], "float32")
    for found, wanted in zip(*both(pd.nan_to_num, lambda t, v: t.nan_to_num(v), [x]), strict=True):
        same(found, wanted)
    x = np.array([0.1, 1.0, 2.0, 7.9, 8.0, 8.1, 40.0, -0.7, -3.2], "float32")
    for name in ("lgamma", "digamma"):
        ours, theirs = getattr(pd, name), lambda t, v, name=name: getattr(t, name)(v)
        for found, wanted in zip(*both(ours, theirs, [x]), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=1e-5)
    x = np.array([0.0, 0.3, -0.9, 0.99, -0.99999, 0.9999], "float32")
    for found, wanted in zip(*both(pd.erfinv, lambda t, v: t.erfinv(v), [x]), strict=True):
        same(found, wanted, 1e-5)


def test_both_infinite_and_integers():
    a = pd.Variable(data=np.array([-INF, 1.0], np.float32))
    y = pd.logaddexp(a, a)
    slope = pd.gradients(pd.reduce_sum(y[1:]) + pd.reduce_max(y[:1]), [a])[0]
    value, slope = pd.eval([y, slope])
    same(value, [-INF, 1.0 + np.log(2.0)])
    assert slope[1] == 1.0 and not np.isnan(slope).any()
    assert pd.nan_to_num([1, 2]).eval().tolist() == [1, 2]
    assert pd.eval(pd.nan_to_num(np.float16([INF]))) == np.finfo(np.float16).max
    found = pd.nan_to_num([NAN, INF, -INF], 1.0, posinf=NAN, neginf=2.0).eval()
    np.testing.assert_array_equal(found, [1.0, NAN, 2.0])


def test_second_derivatives_at_equal_operands():
    """d² ln(e^a + e^b) / da² is 1/4 where a is b: no kink of a maximum is left."""
    a = pd.Variable(data=np.float32(0.7))
    first = pd.gradients(pd.logaddexp(a, 0.7), [a])[0]
    assert pd.eval([first, pd.gradients(first, [a])[0]]) == pytest.approx([0.5, 0.25])


def test_distances_and_their_gradients_are_those_of_pytorch(rng):
    x, y = rng.normal(size=(5, 3)).astype("float32"), rng.normal(size=(4, 3)).astype("float32")
    y[1] = x[2]  # equal rows
    for p in (2.0, 1.0, 3.0, INF):
        found, wanted = both(
            lambda a, b, p=p: pd.cdist(a, b, p), lambda t, a, b, p=p: t.cdist(a, b, p), [x, y]
        )
        for value, want in zip(found, wanted, strict=True):
            same(value, want)
    near = x + np.float32(1e-4)
    value = pd.cdist(1e3 + x, 1e3 + near).eval()
    exact = np.linalg.norm(np.float64(1e3 + x)[:, None] - np.float64(1e3 + near), axis=-1)
    np.testing.assert_allclose(value, exact, rtol=1e-5)
    assert pd.eval(pd.cdist(np.float16([[300.0, 0.0]]), np.float16([[0.0, 400.0]]))) == 500.0


def test_cosines_and_their_gradients_are_those_of_pytorch(rng):
    x, y = rng.normal(size=(2, 4, 3)).astype("float32")
    y[3] = x[3]
    for axis in (1, 0):
        found, wanted = both(
            lambda a, b, axis=axis: pd.cosine_similarity(a, b, axis),
            lambda t, a, b, axis=axis: t.cosine_similarity(a, b, axis),
            [x, y],
        )
        for value, want in zip(found, wanted, strict=True):
            same(value, want)
    zeros = pd.Variable(data=np.zeros((1, 3), np.float32))
    cosine = pd.cosine_similarity(zeros, y[:1])
    value, slope = pd.eval([cosine, pd.gradients(pd.reduce_sum(cosine), [zeros])[0]])
    assert value == 0.0 and np.isfinite(slope).all()
    assert pd.cosine_similarity(np.float16([400.0]), np.float16([400.0])).eval() == 1.0


def test_diagonals_of_sizes_that_are_known_or_not(rng):
    array = rng.integers(1, 9, (2, 3)).astype("float32")
    for dtype in ("float32", "int64", "bool", "float16"):
        values = array.astype(dtype)
        x = pd.Variable([None, None], dtype=dtype)
        targets = [pd.diag_embed(v, k) for k in (0, 2, -2) for v in (x, values)]
        for k, found in zip((0, 0, 2, 2, -2, -2), pd.eval(targets, {x: values}), strict=True):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.stack([np.diag(row, k) for row in values]))
    nan = pd.diag_embed([NAN, INF]).eval()
    np.testing.assert_array_equal(nan, [[NAN, 0.0], [0.0, INF]])
    cube = rng.normal(size=(2, 3, 4)).astype("float32")
    for k in range(-4, 6):
        wanted = np.diagonal(cube, k, 1, 2)
        np.testing.assert_array_equal(pd.diagonal(cube, k).eval(), wanted)


def test_gumbel_softmax():
    pd.reset(seed=3)
    logits = pd.Variable(data=np.log([0.1, 0.2, 0.7]).astype("float32"))
    rows = pd.expand(logits, [3000, 3])
    hard = pd.gumbel_softmax(rows, 0.5, hard=True)
    soft = pd.gumbel_softmax(rows, 1e-2)
    one, near = pd.eval([hard, soft])
    assert set(np.unique(one)) == {0.0, 1.0} and (one.sum(1) == 1).all()
    for draws in (one, near):
        np.testing.assert_allclose(draws.mean(0), [0.1, 0.2, 0.7], atol=0.03)
    slope = pd.eval(pd.gradients(pd.reduce_sum(hard * [1.0, 2.0, 3.0]), [logits])[0])
    assert (np.abs(slope) > 1.0).all() and abs(slope.sum()) < 1e-2
    half = pd.eval(pd.gumbel_softmax(np.zeros((2000, 4), "float16"), 0.1))
    assert half.dtype == np.float16 and np.isfinite(half).all()


def test_float64_has_all_digits():
    torch = pytest.importorskip("torch")
    x = np.array([0.01, 0.5, 0.999, 3.7, 8.0, 100.0, -1.3])
    y = np.array([-0.999, 0.1, 0.75])
    calls = [(pd.lgamma, x), (pd.digamma, x), (pd.erfinv, y)]
    found = pd.eval([function(pd.constant(v, "float64")) for function, v in calls])
    wanted = [
        torch.lgamma(torch.tensor(x)),
        torch.digamma(torch.tensor(x)),
        torch.erfinv(torch.tensor(y)),
    ]
    for value, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, want.numpy(), rtol=1e-13, atol=1e-13)
