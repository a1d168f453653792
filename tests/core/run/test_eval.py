"""eval: what it returns, what it runs, what it takes, and that a step is one transaction."""

from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def ops_of(targets, feeds=()):
    return [node.op_type for node in pd.subgraph(targets, feeds)]


# ---- results


def test_result_mirrors_targets():
    a = pd.constant(2.0)
    b = a * 3.0
    w = pd.Variable(data=ones(1))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(w))
    assert pd.eval(b) == 6.0
    assert pd.eval([a, b]) == [2.0, 6.0]
    assert pd.eval((a,)) == (2.0,)
    r = pd.eval({"k": [a, {"m": b}], "s": step})
    assert r["k"][1]["m"] == 6.0
    assert r["s"] is None
    x = pd.Variable([None, 2])
    with pytest.raises(pd.ShapeError, match=x.name):
        pd.eval(x * 1.0, feeds={x: ones(4, 3)})
    assert pd.eval(x * 1.0, feeds={x: [[1, 2]]}).dtype == f32


def test_named_tuples_and_empty_targets():
    Pair = namedtuple("Pair", "a b")
    a = pd.constant(2.0)
    r = pd.eval(Pair(a, [a, a * 2.0]))
    assert r == Pair(2.0, [2.0, 4.0])
    assert type(r) is Pair
    assert pd.eval([]) == []
    assert pd.eval({"k": ()}) == {"k": ()}


def test_results_have_the_dtype_and_shape_that_was_announced():
    x = pd.Variable([None, 3])
    targets = [x > 0.0, pd.arg_max(x), pd.reduce_sum(x), pd.cast(x, "float64")]
    for target, value in zip(targets, pd.eval(targets, feeds={x: ones(2, 3)}), strict=True):
        assert value.dtype == target.dtype
        assert value.ndim == target.rank


@pytest.mark.parametrize("target", [None, 3.0, "w", [None]])
def test_what_is_no_target(target):
    with pytest.raises(TypeError, match="a target is a Variable or an Update, not"):
        pd.eval(target)


# ---- what runs


def test_only_what_targets_need():
    x = pd.Variable([None, 64])
    n = pd.Variable(shape=[1], dtype="int64", trainable=False)
    a, bad = pd.relu(x), pd.reshape(x, n)  # `bad` fails at run time for n=[7]
    pd.eval(a, feeds={x: ones(8, 64)})  # n not needed
    pd.eval(a, feeds={x: ones(8, 64), n: np.array([7])})  # surplus: ignored, `bad` not executed
    assert [n.op_type for n in pd.subgraph(a)] == ["Relu"]
    with pytest.raises(pd.MissingFeed, match=x.name):
        pd.eval(a)
    with pytest.raises(pd.BackendError):
        pd.eval(bad, feeds={x: ones(8, 64), n: np.array([7])})


def test_parameters_of_other_parts_are_not_initialised():
    def fail(shape, rng):
        raise RuntimeError("drawn")

    x = pd.Variable([None, 2])
    other = pd.Variable("other", shape=[2], initializer=fail)
    y = x * 2.0
    pd.eval(y, feeds={x: ones(1, 2)})
    with pytest.raises(RuntimeError, match="drawn"):
        pd.eval(y * other, feeds={x: ones(1, 2)})


def test_common_part_runs_once():
    r = pd.gaussian_random(shape=[5])
    a, b = r + 0.0, r * 1.0
    va, vb = pd.eval([a, b])
    assert (va == vb).all()
    assert (pd.eval(a) != pd.eval(b)).any()
    assert ops_of([a, b]).count("Cos") == 1


def test_subgraph_follows_the_mode():
    x = pd.Variable([None, 4])
    y = pd.dropout(x * 2.0, 0.5)
    assert ops_of(y) == ["Mul"]
    assert len(pd.subgraph(y, training=True)) > 1
    w = pd.Variable("w", data=ones(4))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(w * w))
    assert "Sub" in ops_of(step)


def test_a_step_runs_dropout_and_an_evaluation_does_not():
    w = pd.Variable("w", data=ones(1000))
    y = pd.dropout(w, 0.5)
    step = pd.SGDOptimizer(0.0).minimize(pd.reduce_sum(y))
    assert (pd.eval(y) == 1.0).all()
    assert (pd.eval([step, y])[1] == 0.0).any()
    assert (pd.eval([step, y], training=False)[1] == 1.0).all()
    assert (pd.eval(y, training=True) == 0.0).any()


# ---- random draws


def draws(evaluations):
    """Two streams, a and b; what a gives in evaluations such as 'a', 'b' and 'ab'."""
    pd.reset(seed=5)
    streams = {}
    for name in "ab":
        with pd.namespace(name):
            streams[name] = pd.uniform_random([3])
    found = []
    for which in evaluations.split():
        r = pd.eval([streams[name] for name in which])
        found += [r[which.index("a")].tolist()] if "a" in which else []
    return found


def test_draws_do_not_depend_on_what_else_is_evaluated():
    alone = draws("a a a")
    assert len({tuple(v) for v in alone}) == 3
    assert draws("a b a b b a") == alone
    assert draws("b ab ba a") == alone


def test_draws_depend_on_the_seed_and_the_device_does_not_matter():
    r = pd.uniform_random([4])
    same = [pd.Session(d, seed=3).eval(r) for d in ("cpu", "cpu", "reference")]
    assert (same[0] == same[1]).all()
    assert (same[0] == same[2]).all()
    assert (same[0] != pd.Session(seed=4).eval(r)).all()


def test_an_evaluation_that_fails_draws_nothing():
    r, x = pd.uniform_random([3]), pd.Variable([None])
    y = r + pd.reshape(x, [3])
    good, bad = {x: np.zeros(3)}, {x: np.zeros(4)}
    first, second = pd.Session(), pd.Session()
    values = [first.eval(y, good), first.eval(y, good)]
    assert (second.eval(y, good) == values[0]).all()
    with pytest.raises(pd.BackendError):
        second.eval(y, bad)
    assert (second.eval(y, good) == values[1]).all()


# ---- feeding edges


def test_feed_any_edge():
    a = pd.constant(2.0, name="a")
    b = pd.Variable("b", data=f32(10.0))
    c = a * b
    d = c + 1.0
    assert pd.eval(c, feeds={"b": 3.0}) == 6.0
    assert pd.eval(c, feeds={b: 3.0}) == 6.0
    assert b.val() == 10.0
    assert pd.eval(d, feeds={c: 100.0}) == 101.0
    assert len(pd.subgraph(d, feeds=[c])) == 1
    assert pd.eval(c, feeds={"a": 7.0}) == 70.0  # a constant, for that call
    assert pd.eval(c) == 20.0


def test_a_fed_edge_needs_nothing_behind_it():
    x = pd.Variable([None, 2])
    hidden = pd.relu(x)
    y = hidden * 2.0
    assert (pd.eval(y, feeds={hidden: ones(3, 2)}) == 2.0).all()
    assert (pd.eval([hidden, y], feeds={hidden: ones(3, 2)})[0] == 1.0).all()
    assert (pd.eval(y, feeds={hidden.name: ones(1, 2)}) == 2.0).all()


@pytest.mark.parametrize("on_the_way", [lambda x: x * 1.0, pd.stop_gradient])
def test_one_output_of_several_is_fed(on_the_way):
    x = pd.Variable("x", data=np.arange(4, dtype=f32))
    a, b = pd.split(on_the_way(x), [2, 2])
    total = pd.concat([a, b])
    assert pd.eval(total, feeds={a: [7.0, 7.0]}).tolist() == [7.0, 7.0, 2.0, 3.0]
    assert pd.eval([total, a], feeds={b: [7.0, 7.0]})[0].tolist() == [0.0, 1.0, 7.0, 7.0]


def test_an_edge_is_fed_inside_a_gradient():
    """The rewriting of relu over a pooling must not look through a fed edge."""
    x = pd.Variable("x", data=np.arange(-8, 8, dtype=f32).reshape(1, 1, 4, 4))
    h = pd.relu(x)
    y = pd.max_pool(h, 2, 2)
    dh, dx = pd.gradients(pd.reduce_sum(y), [h, x])
    assert pd.eval(dx).sum() == 2.0
    assert pd.eval(dx, feeds={dh: ones(1, 1, 4, 4)}).sum() == 7.0


def test_cutting_modes():
    x = pd.Variable([None, 2])
    y = pd.dropout(x, 0.5)
    z = pd.stop_gradient(y) * 2.0
    assert (pd.eval(z, feeds={y: ones(1, 2)}, training=True) == 2.0).all()


def test_two_networks_in_one_evaluation_take_their_own_feeds():
    x, y = pd.Variable("x", shape=[None]), pd.Variable("y", shape=[None])
    r = pd.eval([x + 1.0, y + 2.0], feeds={"y": [5.0, 6.0], x: [1.0]})
    assert r[0].tolist() == [2.0]
    assert r[1].tolist() == [7.0, 8.0]


# ---- one transaction


def test_step_is_atomic():
    w = pd.Variable("w", data=f32(3.0))
    cost = w * w
    step = pd.SGDOptimizer(0.5).minimize(cost)
    assert pd.eval([step, cost]) == [None, 9.0]  # cost is pre-update
    assert w.val() == 0.0
    u, v = pd.Variable("u", data=f32(1.0)), pd.Variable("v", data=f32(2.0))
    s1 = pd.SGDOptimizer(1.0).minimize(u * v, var_list=[u])  # simultaneous, not sequential
    s2 = pd.SGDOptimizer(1.0).minimize(u * v, var_list=[v])
    pd.eval([s1, s2])
    assert (u.val(), v.val()) == (-1.0, 1.0)
    with pytest.raises(ValueError, match="u"):
        pd.eval([s1, pd.assign(u, 0.0)])


def test_conflicting_updates_change_nothing():
    u, v = pd.Variable("u", data=f32(1.0)), pd.Variable("v", data=f32(1.0))
    updates = [pd.assign(v, v + 1.0), pd.assign(u, u + 1.0), pd.assign(u, u * 5.0)]
    with pytest.raises(pd.GraphError, match=r"two updates of u: float32\[\] in one evaluation"):
        pd.eval(updates)
    assert (u.val(), v.val()) == (1.0, 1.0)
    pd.eval([updates[0], updates[0]])  # one and the same update is no conflict
    assert v.val() == 2.0


def test_the_parameter_itself_is_read_before_the_step():
    w = pd.Variable("w", data=f32(3.0))
    step = pd.assign(w, w + 1.0)
    assert pd.eval([w, step, w]) == [3.0, None, 3.0]
    assert w.val() == 4.0


def test_a_failing_evaluation_changes_nothing():
    w, x = pd.Variable("w", data=f32(3.0)), pd.Variable("x", shape=[None])
    k, y = pd.Variable("k", data=1.0), pd.reshape(x, [2])
    with pytest.raises(pd.BackendError):
        pd.eval([pd.assign(w, w * 2.0), pd.assign(k, 5.0), y], {x: ones(3)})
    assert w.val() == 3.0
    assert k.val() == 1.0


# ---- forms of feeds


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2]],
        ((1, 2),),
        np.array([[1, 2]]),
        np.array([[1, 2]], ">f4"),
        np.array([[1, 9, 2]], np.float64)[:, ::2],
        np.array([[1, 2]], np.float16),
        [np.array([1, 2])],
        np.broadcast_to(f32([1, 2]), (1, 2)),
    ],
)
def test_feed_forms(value):
    x = pd.Variable("x", shape=[None, 2])
    y = pd.eval(x * 2.0, feeds={x: value})
    assert y.dtype == f32
    assert y.tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize(
    ("dtype", "value", "result"),
    [
        ("int64", [1, 2], [1, 2]),
        ("int64", [True, False], [1, 0]),
        ("int32", np.array([5], np.int64), [5]),
        ("int64", np.zeros((0,)), []),
        ("int64", [], []),
        ("bool", [1, 0], [True, False]),
        ("float32", [True, False], [1.0, 0.0]),
        ("float64", [0.1], [0.1]),
    ],
)
def test_feeds_change_type_where_values_stay(dtype, value, result):
    x = pd.Variable("x", shape=[None], dtype=dtype)
    y = pd.eval(pd.identity(x), feeds={x: value})
    assert y.dtype == dtype
    assert y.tolist() == result


@pytest.mark.parametrize(
    ("error", "message", "dtype", "value"),
    [
        (pd.ShapeError, r"x: fed an array of \[2, 1\], it is float32\[\?\]", "float32", [[1], [2]]),
        (pd.ShapeError, r"x: fed an array of \[\], it is float32\[\?\]", "float32", 1.0),
        (pd.FeedError, r"x: int64\[\?\]: cannot take float.*, \[1\.5\]", "int64", [1.5]),
        (pd.FeedError, r"x: int64\[\?\]: cannot take floats", "int64", [1.0]),
        (
            pd.FeedError,
            r"x: int32\[\?\]: cannot take int64 values.*, \[4294967296\]",
            "int32",
            [2**32],
        ),
        (pd.FeedError, r"x: bool\[\?\]: cannot take int64 values.*, \[2\]", "bool", [2]),
        (pd.FeedError, r"x: float32\[\?\]: cannot take <U1 values, \['a'\]", "float32", ["a"]),
        (pd.FeedError, r"x: .*cannot take None, \[None\]", "float32", [None]),
        (pd.FeedError, r"x: .*rows of different lengths", "float32", [[1], [2, 3]]),
        (pd.FeedError, r"x: .*cannot take complex128 values", "float32", [1j]),
        (pd.FeedError, "x: .*masked elements", "float32", np.ma.masked_equal(f32([1, 2]), 2)),
        (pd.FeedError, "x: .*masked elements", "int64", np.ma.masked_equal(np.int32([1, 2]), 2)),
    ],
)
def test_feeds_that_do_not_fit(error, message, dtype, value):
    x = pd.Variable("x", shape=[None], dtype=dtype)
    with pytest.raises(error, match=message):
        pd.eval(pd.identity(x), feeds={x: value})


def test_feeds_are_found_by_variable_or_name():
    with pd.namespace("net"):
        x = pd.Variable("image", shape=[None])
    y = pd.exp(x * 0.0)
    assert pd.eval(y, feeds={"net/image": [1.0]}) == [1.0]
    with pytest.raises(
        pd.FeedError, match=r"there is no variable 'imgae' to feed; the targets read net/image$"
    ):
        pd.eval(y, feeds={"imgae": [1.0]})
    with pytest.raises(pd.FeedError, match=r"net/image: float32\[\?\] is fed twice"):
        pd.eval(y, feeds={x: [1.0], "net/image": [1.0]})
    with pytest.raises(TypeError, match="feeds are keyed by Variables or names, not 3"):
        pd.eval(y, feeds={3: [1.0]})


def test_a_missing_feed_names_the_slot_and_its_line():
    x = pd.Variable("image", shape=[None, 4])
    with pytest.raises(
        pd.MissingFeed,
        match=r"need a value for image: .*4\], which is not fed\n  created at .*test_eval.py:",
    ):
        pd.eval(pd.relu(x))
    seed = pd.Variable("random_seed", shape=[None])  # no magic name
    with pytest.raises(pd.MissingFeed, match="random_seed"):
        pd.eval(seed + pd.uniform_random([1]))
    assert pd.eval(seed + pd.uniform_random([1]), feeds={seed: [1.0]}) >= 1.0


def test_sizes_that_must_agree_are_compared_before_it_runs():
    a, b = pd.Variable("a", shape=[None, 2]), pd.Variable("b", shape=[None, 2])
    with pytest.raises(pd.ShapeError, match=r"sizes 3 and 1 must be equal, .* a: .* and b: "):
        pd.eval(a + b, feeds={a: ones(3, 2), b: ones(1, 2)})
    c = pd.Variable("c", shape=["N", 2])
    d = pd.Variable("d", shape=["N"])
    with pytest.raises(pd.ShapeError, match=r"feeds disagree: c: .* has 3, d: float32\[\?\] has 4"):
        pd.eval([c, d], feeds={c: ones(3, 2), d: ones(4)})
    assert pd.eval(pd.reduce_sum(a + b), feeds={a: ones(3, 2), b: ones(3, 2)}) == 12.0
    assert pd.eval(pd.reduce_sum(a + b), feeds={a: ones(1, 2), b: ones(1, 2)}) == 4.0


def test_feeds_are_not_kept_or_changed():
    x = pd.Variable("x", shape=[None])
    array = ones(3)
    y = pd.eval(pd.identity(x), feeds={x: array})
    array[:] = 5.0
    assert (y == 1.0).all()
    y[:] = 9.0
    assert (array == 5.0).all()


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_probabilities_are_an_edge_like_any_other(kind):
    z, label = pd.Variable("z", shape=[3, 2]), pd.Variable([None], dtype="int64")
    p = pd.softmax(z) if kind == "softmax" else pd.sigmoid(z)
    cost = pd.cross_entropy(p, label) if kind == "softmax" else pd.binary_cross_entropy(p, 1.0)
    cost = pd.reduce_sum(cost)
    labels = {label: [0, 1, 0]} if kind == "softmax" else {}
    fed = np.full((3, 2), 0.25, np.float32)
    count = 3 if kind == "softmax" else 6
    assert np.isclose(pd.eval(cost, {p: fed, **labels}), count * np.log(4))
    assert [n.op_type for n in pd.subgraph(cost, [p, label])].count("Softmax") == 0
    (dp,) = pd.gradients(cost, [p])
    got = pd.eval(dp, {p: fed, **labels})
    assert np.isclose(got.sum(), -4 * count) and set(got.ravel().tolist()) <= {0.0, -4.0}
    (dz,) = pd.gradients(cost, [z])
    nodes = pd.subgraph(dz)
    assert "Log" not in [n.op_type for n in nodes]  # in log space
    divisors = [n.inputs[1].node.op_type for n in nodes if n.op_type == "Div"]
    assert set(divisors) <= {"Gather"}  # the sign of a class


def test_tracebacks_end_at_the_line_that_feeds():
    x = pd.Variable("x", shape=[None, 4])
    y = pd.reduce_sum(x, axes=1)
    z = pd.Variable("z", shape=[None])
    for targets, feeds, kind in (
        (y, {x: np.ones((2, 5))}, pd.ShapeError),
        (y + z, {x: np.ones((2, 4))}, pd.MissingFeed),
    ):
        with pytest.raises(kind) as caught:
            pd.eval(targets, feeds=feeds)
        assert caught.traceback[-1].path == Path(__file__)
