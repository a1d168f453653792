"""float16 on a CPU: what comparisons, roundings and casts read is float16, as in NumPy."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.dtypes.halves import _explicit, _read_exactly
from pd_core.graph.node import ancestors

F = np.float16


def single(function):
    """A function of float16 arrays that computes in float32 and rounds, as kernels do."""
    return lambda *xs: function(*[np.float32(x) for x in xs]).astype(F)


# name: an operator on float16, and what it gives in NumPy
COMPUTED = {
    "square": (lambda x: x * x, single(np.square)),
    "scaled": (lambda x: x * 0.37, lambda x: x * F(0.37)),
    "sqrt": (lambda x: pd.sqrt(abs(x)), single(lambda x: np.sqrt(np.abs(x)))),
    "moved": (
        lambda x: pd.reshape(pd.transpose(x * x), [6, -1])[::-1],
        lambda x: single(np.square)(x).T.reshape(6, -1)[::-1],
    ),
    "chosen": (
        lambda x: pd.where(x > 0.0, x * x, x),
        lambda x: np.where(x > 0, single(np.square)(x), x),
    ),
    "joined": (
        lambda x: pd.concat([x * x, x], 0),
        lambda x: np.concatenate([single(np.square)(x), x]),
    ),
}
READ = {
    "equal to the largest": (
        lambda y: pd.equal(y, pd.reduce_max(y)),
        lambda y: y == y.max(),
    ),
    "place of the largest": (lambda y: pd.arg_max(y, 1), lambda y: np.argmax(y, 1)),
    "floor": (lambda y: pd.floor(y * 8.0), lambda y: np.floor(y * F(8))),
    "round": (lambda y: pd.round(y * 4.0), lambda y: np.round(y * F(4))),
    "mod": (lambda y: pd.mod(y, 1.5), lambda y: np.mod(y, F(1.5))),
    "overflow": (lambda y: pd.is_inf(y * 9000.0), lambda y: np.isinf(y * F(9000))),
    "to float32": (lambda y: pd.cast(y, "float32"), lambda y: y.astype(np.float32)),
    "to integers": (lambda y: pd.cast(y * 64.0, "int32"), lambda y: (y * F(64)).astype(np.int32)),
    "order": (
        lambda y: pd.equal(pd.sort(y, 1)[:, -1], pd.reduce_max(y, 1)),
        lambda y: np.ones(len(y), bool),
    ),
    "order of rows": (
        lambda y: pd.top_k(y, 3, 1)[1],
        lambda y: np.argsort(-y.astype(np.float64), 1, kind="stable")[:, :3],
    ),
    "above": (lambda y: y > y[:, :1] * 1.001, lambda y: y > y[:, :1] * F(1.001)),
}


@pytest.fixture(scope="module")
def results():
    """(what pd gives, what NumPy gives) by name, all of one program."""
    array = (np.random.default_rng(3).normal(size=(6, 12)) * 3).astype(F)
    with pd.fresh() as session, np.errstate(over="ignore"):
        x = pd.Variable("x", shape=[None, 12], dtype="float16")
        built, want = {}, {}
        for name, (function, reference) in COMPUTED.items():
            y, values = function(x), reference(array)
            for reading, (read, expected) in READ.items():
                built[name, reading], want[name, reading] = read(y), expected(values)
        got = session.eval(list(built.values()), {x: array})
    return {key: (value, want[key]) for key, value in zip(built, got, strict=True)}


@pytest.mark.parametrize("reading", READ)
@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_read_is_rounded(results, name, reading):
    got, want = results[name, reading]
    np.testing.assert_array_equal(got, want)


def test_a_cast_to_float16_rounds_in_between():
    array = np.random.default_rng(0).normal(size=99).astype(np.float32)
    x = pd.Variable([None])
    y = pd.cast(pd.cast(x * 1.1, "float16"), "float32")
    want = (array * np.float32(1.1)).astype(F).astype(np.float32)
    np.testing.assert_array_equal(pd.eval(y, {x: array}), want)


def test_values_at_hand_are_rounded():
    array = (np.random.default_rng(5).normal(size=(4, 9)) * 3).astype(F)
    with pd.guard():
        y = pd.to_variable(array) * 1.37
        assert pd.reduce_sum(pd.cast(pd.equal(y, pd.reduce_max(y)), "int64")).item() == 1
        np.testing.assert_array_equal(pd.floor(y).numpy(), np.floor(array * F(1.37)))


def test_gradients_pass_through_what_is_rounded():
    array = np.random.default_rng(5).normal(size=(4, 9)).astype(F)
    x = pd.Variable("x", shape=[None, 9], dtype="float16")
    y = x * x
    cost = pd.reduce_sum(
        pd.cast(pd.where(pd.equal(y, pd.reduce_max(y, 1, True)), y, 0.0), "float32")
    )
    (g,) = pd.eval(pd.gradients(cost, [x]), {x: array})
    squares = single(np.square)(array)
    want = np.where(squares == squares.max(1, keepdims=True), array * F(2), F(0))
    np.testing.assert_allclose(g, want, rtol=1e-3)


def chosen(*targets):
    nodes = ancestors(targets)
    return _explicit(nodes, _read_exactly(nodes, targets))


def test_what_nothing_compares_has_no_casts():
    x = pd.Variable("x", shape=[None, 9], dtype="float16")
    assert not chosen(pd.tanh(x * 2.0) + x)
    assert not chosen(pd.equal(pd.transpose(x), 1.0), pd.cast(x, "float32"))


def test_casts_that_sums_read_cost_nothing():
    """Those of mixed precision, and signs; what is fetched or compared is rounded."""
    x = pd.Variable("x", shape=[None, 9], dtype="float16")
    wide = pd.cast(x * 3.0, "float32")
    assert not chosen(pd.softmax(wide)) and not chosen(pd.where(x * 3.0 > 0.0, x, x * 3.0))
    assert chosen(wide) and chosen(pd.exp(pd.where(x * 3.0 > 1.0, x, x * 3.0)))
    assert chosen(pd.equal(pd.transpose(wide) * 0.25, 1.0))
    assert chosen(pd.equal(pd.reduce_sum(wide * 0.0) + 1.0, 1.0))  # whether it is finite
