"""Moving statistics in bodies of loops and branches: those of a Python loop over the steps."""

import numpy as np
import pytest

import pd_core as pd

X = np.random.default_rng(0).normal(size=(4, 3, 2)).astype("float32")


def looped(kind, norm, x):
    """What a loop over x gives, and the batches that a layer has seen."""
    total = np.float32(0)
    if kind == "vmap":
        return pd.vmap(norm)(x), X
    if kind == "scan":
        return pd.scan(lambda s, r: (s + pd.reduce_sum(norm(r)), s), total, x)[1], X
    if kind == "twice":
        return pd.vmap(lambda r: norm(r) + norm(2.0 * r))(x), [f * r for r in X for f in (1, 2)]
    if kind == "nested":
        both = lambda r: pd.vmap(lambda q: (norm(q), q))(pd.stack([r, 2.0 * r], 0))  # noqa: E731
        return pd.vmap(both)(x)[0], [f * r for r in X for f in (1, 2)]
    if kind == "for":
        step = lambda i, s: (s + pd.reduce_sum(norm(pd.gather(x, i))), None)  # noqa: E731
        return pd.for_loop(2, step, total)[0], X[:2]
    if kind == "while":
        step = lambda k, s: [k + 1, s + pd.reduce_sum(norm(pd.gather(x, k)))]  # noqa: E731
        return pd.while_loop(lambda k, s: k < 2, step, [0, total])[1], X[:2]
    if kind == "cond":
        some = lambda r: pd.cond(pd.reduce_sum(r) > 0.0, lambda: norm(r), lambda: r)  # noqa: E731
        return pd.vmap(some)(x), [r for r in X if r.sum() > 0]
    if kind == "recompute":
        return pd.vmap(lambda r: pd.recompute(norm, r))(x), X
    block = pd.rnn()
    with block.step():
        block.add_outputs(norm(block.add_input(x)))
    return block()[0], X


KINDS = ["vmap", "scan", "twice", "nested", "for", "while", "cond", "recompute", "rnn"]


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_step_moves_the_statistics_once(kind, is_dynamic):
    pd.reset(seed=0)
    norm = pd.nn.BatchNorm1d()
    if is_dynamic:
        with pd.guard():
            y, seen = looped(kind, norm, pd.to_variable(X))
            cost = pd.reduce_sum(y * y)
            cost.backward()
            pd.SGDOptimizer(0.0).minimize(cost)
    else:
        x = pd.Variable([4, 3, 2])
        y, seen = looped(kind, norm, x)
        step = pd.SGDOptimizer(0.0).minimize(pd.reduce_sum(y * y))
        pd.eval(y, {x: X})  # in inference they stay
        pd.eval(step, {x: X}, training=True)
    mean, variance = np.zeros(2), np.ones(2)
    for r in seen:
        mean, variance = 0.9 * mean + 0.1 * r.mean(0), 0.9 * variance + 0.1 * r.var(0)
    found = norm.state_dict()
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["variance"], variance, rtol=1e-5, atol=1e-6)


def test_calls_outside_are_none_of_the_loop():
    with pd.guard():
        norm = pd.nn.BatchNorm1d()
        for _ in range(2):
            pd.vmap(norm)(X).numpy()
            norm(X[0]).numpy()
    mean = np.zeros(2)
    for r in [*X, X[0]] * 2:
        mean = 0.9 * mean + 0.1 * r.mean(0)
    np.testing.assert_allclose(norm.state_dict()["mean"], mean, rtol=1e-5, atol=1e-6)


def test_vmap_takes_settings_and_gives_none():
    x = pd.Variable([4, 3])
    f = pd.vmap(
        lambda r, axis, mode: (pd.reduce_sum(r, axis), None if mode == "no" else r), (0, None, None)
    )
    total, other = f(x, 0, "no")
    assert other is None and pd.vmap(lambda r: None)(x) is None
    np.testing.assert_allclose(pd.eval(total, {x: X[:, :, 0]}), X[:, :, 0].sum(1), rtol=1e-5)
    with pytest.raises(pd.GraphError, match="scan: the step returns neither a state nor an output"):
        pd.scan(lambda s, r: (None, None), None, x)
