"""check_numerics: the first operator whose output is not finite, and what is no fault."""

import gc
import re
import threading
import weakref

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import apply

f32 = np.float32
INF, NAN = float("inf"), float("nan")


def failure(targets, feeds=None, session=None, **options):
    """The error of a checked evaluation."""
    session = pd.default_session() if session is None else session
    with pd.check_numerics(), pytest.raises(pd.NumericError) as caught:
        session.eval(targets, feeds, **options)
    return caught.value


def checked(targets, feeds=None, **options):
    """The result of a checked evaluation, which is that of an ordinary one."""
    with pd.check_numerics():
        result = pd.eval(targets, feeds, **options)
    np.testing.assert_array_equal(result, pd.eval(targets, feeds, **options))
    return result


@pytest.fixture
def x():
    return pd.Variable([None], name="x")


# ---- operators


def test_the_message_of_an_operator(x, device):
    with pd.namespace("encoder"):
        y = pd.log(x)  # here
    error = failure(pd.reduce_sum(y * 2.0), {x: [1, -2, 4]}, pd.Session(device))
    assert isinstance(error, FloatingPointError | RuntimeError)
    assert (error.operator, error.site) == ("Log", y.node.site)
    with open(__file__, encoding="utf-8") as file:
        line = 1 + next(k for k, text in enumerate(file) if text.endswith("# here\n"))
    assert str(error).splitlines() == [
        "Log in 'encoder': its output has 1 NaN and 0 Inf of 3 elements, the first at [1]",
        f"  node   Log, built at {__file__}:{line}",
        "  output encoder/log_0: float32[3], from 0 to 1.38629, 1 NaN, 0 Inf",
        "  input  x: float32[3], from -2 to 4, 0 NaN, 0 Inf",
    ]


CASES = {
    "0 / 0": (lambda x: x / (x - x), [0.0, 0.0], "Div", "2 NaN and 0 Inf of 2 elements"),
    "1 / 0": (lambda x: 1.0 / x, [1.0, 0.0], "Div", "0 NaN and 1 Inf of 2"),
    "exp": (lambda x: 1.0 / (1.0 + pd.exp(x)), [0.0, 1000.0], "Exp", "0 NaN and 1 Inf of 2"),
    "sum": (pd.reduce_sum, [3e38, 3e38], "ReduceSum", "0 NaN and 1 Inf of 1 elements$"),
    "cast": (lambda x: pd.cast(x, "float16"), [1e5], "Cast", "0 NaN and 1 Inf of 1"),
    "second of two": (lambda x: pd.log(pd.sqrt(x)) + pd.log(x), [-1.0], "Sqrt", "1 NaN"),
    "log of 0": (pd.log, [0.0], "Log", "0 NaN and 1 Inf"),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_are_named(name, x):
    build, value, operator, what = CASES[name]
    error = failure(build(x), {x: value})
    assert error.operator == operator
    assert re.match(f"{operator}: its output has {what}", str(error).splitlines()[0])


def test_large_sums_of_finite_values_are_no_fault(x):
    values = np.full(3, 3e38, f32)
    assert checked(x * 1.0, {x: values}).tolist() == values.tolist()
    half = pd.cast(x, "float16")
    assert checked(half, {x: [6e4, 6e4]}).tolist() == [60000, 60000]


def test_integers_and_empty_arrays_are_no_fault(x):
    ids = pd.Variable([None], dtype="int64")
    assert checked(ids + 1, {ids: [1]}).tolist() == [2]
    assert checked(pd.log(x), {x: []}).tolist() == []
    assert checked(pd.reduce_max(pd.constant(np.zeros((0, 2), f32)), [0])).tolist() == [-INF] * 2


def test_float64_is_checked(x):
    wide = pd.Variable([None], dtype="float64")
    assert checked(wide * 1.0, {wide: [1e300]}) == 1e300  # its sum is no float32
    assert failure(pd.cast(wide, "float32"), {wide: [1e300]}).operator == "Cast"


# ---- values that are fed or stored


def test_a_feed_that_is_not_finite(x):
    y = pd.log(x)
    error = str(failure(y, {x: [1, NAN, INF]}))
    what = "the feed x: float32[?] is not finite: 1 NaN and 1 Inf of 3 elements, the first at [1]"
    assert error.startswith(f"{what}\n  created at {__file__}:")
    assert str(failure(pd.exp(y), {y: [INF]})).startswith(
        "the feed log_0: float32[?] is not finite"
    )


def test_a_parameter_that_is_not_finite(x):
    w, m = pd.Variable("w", data=[1.0, -INF]), pd.Variable("m", data=[NAN], trainable=False)
    for v, kind in ((w, "parameter"), (m, "stored value")):
        text = str(failure(pd.reduce_sum(v) * x, {x: [1.0]}))
        assert text.startswith(f"the {kind} {v.name}: float32[{v.dims[0]}] is not finite: ")
    assert str(failure(w * x, {x: [NAN, 1.0]})).startswith("the feed")  # feeds come first


def test_values_that_no_target_reads_are_not_checked(x):
    other = pd.Variable([None])
    assert checked(x + 1.0, {x: [1.0], other: [NAN]}).tolist() == [2.0]


# ---- training


def regression(x):
    w = pd.Variable("w", data=np.ones(2, f32))
    return w, pd.reduce_sum(pd.sqrt(pd.square(w) - 1.0) * x)


def test_a_fault_of_the_gradient_alone(x):
    w, cost = regression(x)
    step = pd.MomentumOptimizer(0.1).minimize(cost)
    assert checked(cost, {x: [1.0, 2.0]}) == 0.0
    state = [w, *step.variables()]
    before = [v.val() for v in state]
    error = failure([cost, step], {x: [1.0, 2.0]})
    assert error.operator == "Div" and "none finite, 0 NaN, 2 Inf" in str(error)
    np.testing.assert_array_equal([v.val() for v in state], before)
    pd.eval([cost, step], {x: [1.0, 2.0]})
    assert not np.isfinite(w.val()).any()


def test_a_fault_of_the_update_alone():
    w = pd.Variable("w", data=f32(2.0))
    step = pd.SGDOptimizer(3e38).minimize(pd.square(w))
    error = failure(step)
    assert error.operator == "Mul" and "0 NaN and 1 Inf of 1" in str(error)
    assert w.val() == 2.0


def test_a_training_is_the_same_and_compiles_once(no_programs):
    trained = []
    for check in (False, True):
        with pd.fresh() as session:
            session.check_numerics = check
            x = pd.Variable([None, 3])
            cost = pd.reduce_mean(pd.square(pd.dropout(pd.fc(x, 4), 0.5)))
            step = pd.AdamOptimizer(0.1).minimize(cost)
            for k in range(4):
                session.eval([cost, step], {x: np.full((k + 1, 3), k, f32)})
            trained.append([session.get(v) for v in (*pd.trainable_variables(), *step.variables())])
            counts = session.stats()
            # the second session runs the program of the first
            assert (counts["evaluations"], counts["compiled"]) == (4, 1)
    for plain, with_checks in zip(*trained, strict=True):
        np.testing.assert_array_equal(with_checks, plain)


def test_draws_stay_as_they_were(x):
    kept = pd.dropout(pd.sqrt(x), 0.5)
    first = [pd.eval(kept, {x: np.ones(8)}, training=True) for _ in range(2)]
    pd.default_session().draws.clear()
    assert failure(kept, {x: -np.ones(8)}, training=True).operator == "Sqrt"
    second = [pd.eval(kept, {x: np.ones(8)}, training=True) for _ in range(2)]
    np.testing.assert_array_equal(second, first)


def test_each_mode_is_checked_for_itself(x):
    y = pd.mode_switch(pd.log(x), pd.sqrt(x + 1.0))
    assert checked(y, {x: [0.0]}).tolist() == [1.0]
    assert failure(y, {x: [0.0]}, training=True).operator == "Log"
    dropped = pd.exp(pd.dropout(x, 0.5))
    assert failure(dropped, {x: [60.0] * 9}, training=True).operator == "Exp"  # 2 x 60 is too much
    assert np.isfinite(checked(dropped, {x: [60.0] * 9})).all()


def test_rows_of_a_table():
    table = pd.Variable("table", data=np.ones((5, 2)), row_sparse=True)
    ids = pd.Variable([None], dtype="int64")
    scale = pd.Variable([])
    cost = pd.reduce_sum(pd.gather(table, ids)) * scale
    step = pd.MomentumOptimizer(10.0).minimize(cost)
    assert failure(step, {ids: [1, 3], scale: 3e38}).operator == "Mul"
    assert table.val().tolist() == np.ones((5, 2)).tolist()
    with pd.check_numerics():
        pd.eval(step, {ids: [1, 1], scale: 0.1})
    np.testing.assert_allclose(table.val()[1], [-1.0, -1.0], rtol=1e-5)


def test_gradients_that_are_exchanged(x):
    w = pd.Variable("w", data=np.ones(2, f32))
    step = pd.SGDOptimizer(10.0).minimize(pd.reduce_sum(w * x))
    session, calls = pd.default_session(), []

    def times(factor):
        def scaled(gradients):
            calls.append(factor)
            return {v: g * f32(factor) for v, g in gradients.items()}

        return session.exchanging(scaled)

    with times(0.5), pd.check_numerics():
        session.eval(step, {x: [1.0, 2.0]})
    np.testing.assert_allclose(w.val(), [-4.0, -9.0])
    with times(NAN):
        error = str(failure(step, {x: [1.0, 2.0]}))
        gradient = "the gradient of w: float32[2] that the function returned"
        assert error.startswith(f"exchanging: {gradient} has 2 NaN and 0 Inf of 2 elements")
    with times(3e38):
        assert failure(step, {x: [0.5, 0.5]}).operator == "Mul"  # by the learning rate
    assert calls[0] == 0.5 and len(calls) == 3
    with times(1.0):
        assert str(failure(step, {x: [NAN, 0.0]})).startswith("the feed x")
    assert len(calls) == 3
    np.testing.assert_allclose(w.val(), [-4.0, -9.0])


# ---- masks


def attention(scores, mask):
    return pd.softmax(pd.where(mask, scores, -INF))


def test_masks_of_a_constant(rng):
    scores = pd.Variable([None, 4])
    w = pd.Variable("w", data=np.eye(4, dtype=f32))
    mask = pd.constant(np.tri(4, dtype=bool))
    y = attention(pd.matmul(scores, w), mask)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(pd.square(y)))
    data = rng.standard_normal((4, 4)).astype(f32)
    assert checked(y, {scores: data})[0].tolist() == [1, 0, 0, 0]
    with pd.check_numerics():
        for _ in range(3):
            pd.eval(step, {scores: data})


@pytest.mark.parametrize("kind", ["fed", "stored", "constant"])
def test_masks_that_are_added(kind, rng):
    values = np.where(np.tri(4, dtype=bool), 0, -INF).astype(f32)
    mask = {
        "fed": lambda: pd.Variable([None, 4], name="mask"),
        "stored": lambda: pd.Variable("mask", data=values, trainable=False),
        "constant": lambda: pd.constant(values),
    }[kind]()
    scores = pd.Variable([None, 4])
    feeds = {scores: np.ones((4, 4), f32)} | ({mask: values} if kind == "fed" else {})
    assert checked(pd.softmax(scores + mask), feeds)[0].tolist() == [1, 0, 0, 0]
    error = str(failure(pd.softmax(scores - scores + pd.transpose(mask) + mask - INF), feeds))
    assert error.startswith("Softmax: its output has 16 NaN")
    begins = {"fed": "the feed mask: float32[?, 4]", "stored": "the stored value mask"}
    assert f"\n  Inf    from {begins.get(kind, 'Transpose, built at')}" in error


def test_a_mask_that_becomes_a_cost(x):
    """The label of a sample is masked: the loss is infinite, without any NaN."""
    masked = pd.where(pd.constant([True, False]), x, -INF)
    losses = -pd.log_softmax(pd.reshape(masked, [1, -1]))
    assert checked(losses, {x: [1.0, 2.0]}).tolist() == [[0.0, INF]]
    error = str(failure(pd.reduce_sum(losses), {x: [1.0, 2.0]}))
    assert error.startswith("ReduceSum: its output has 0 NaN and 1 Inf of 1 elements\n")
    assert "\n  Inf    from Where, built at" in error


def test_a_mask_that_a_step_would_store(x):
    w = pd.Variable("w", data=np.zeros(2, f32))
    masked = pd.where(pd.constant([True, False]), x, -INF)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(w * pd.stop_gradient(masked)))
    # 0 x -inf would be a NaN in the forward pass, which a target of the step alone does not need
    assert "\n  Inf    from Where" in str(failure(step, {x: [1.0, 1.0]}))
    assert w.val().tolist() == [0.0, 0.0]
    state = pd.Variable("state", data=np.zeros(2, f32), trainable=False)
    with pd.check_numerics():
        pd.eval(pd.assign(state, masked), {x: [1.0, 1.0]})
    assert state.val().tolist() == [1.0, -INF]


def test_what_a_where_does_not_select(x):
    y = pd.where(x > 0.0, pd.log(x), 0.0)
    assert checked(y, {x: [0.0, -1.0, 1.0]}).tolist() == [0, 0, 0]
    missing = pd.where(apply("IsNaN", x), 0.0, x)
    assert checked(missing, {x: [NAN, 1.0]}).tolist() == [0, 1]
    error = failure(pd.where(x < 0.0, pd.log(x), 0.0) * 2.0, {x: [-1.0]})
    assert error.operator == "Log"
    error = failure(pd.where(x < 1.0, 1.0 / x, 0.0) * 2.0, {x: [0.0]})
    assert error.operator == "Div"


def test_the_gradient_beside_a_where_is_checked():
    w = pd.Variable("w", data=np.zeros(1, f32))
    cost = pd.reduce_sum(pd.where(w > 0.0, pd.log(w), 0.0))
    assert checked(cost) == 0.0
    assert failure(pd.SGDOptimizer(0.1).minimize(cost)).operator == "Div"  # 0 / 0


def test_costs_of_probabilities_that_underflow():
    """Programs compute them, and their gradients, in log space."""
    z = pd.Variable("z", data=[[0.0, 1000.0]])
    labels = pd.constant(np.array([0]))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(pd.cross_entropy(pd.softmax(z), labels)))
    with pd.check_numerics():
        pd.eval(step)
    np.testing.assert_allclose(z.val(), [[0.1, 999.9]])
    s = pd.Variable("s", data=[1000.0])
    cost = pd.reduce_sum(pd.binary_cross_entropy(pd.sigmoid(s), pd.constant([0.0])))
    with pd.check_numerics():
        pd.eval(pd.SGDOptimizer(0.1).minimize(cost))
    np.testing.assert_allclose(s.val(), [999.9])
    p = pd.Variable("p", data=[[0.0, 1.0]])
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(pd.cross_entropy(p, labels)))
    assert failure(step).operator == "LogProbabilityGrad"
    losses = pd.cross_entropy(p, pd.constant(np.array([1])))
    assert checked(losses).tolist() == [[0.0]]  # ln 0 of the other class is not read
    cost = pd.reduce_sum(pd.cross_entropy(p, labels))
    assert "Inf    from LogProbability, built at" in str(failure(cost))


# ---- loops and branches


def test_the_step_of_a_scan(device):
    rows = pd.Variable([None, 2])

    def step(h, row):
        h = h * pd.log(row)
        return h, h

    last, _ = pd.scan(step, pd.constant(np.ones(2, f32)), rows)
    error = failure(last, {rows: [[2, 3], [4, 5], [3, -1], [-1, -1]]}, pd.Session(device))
    lines = str(error).splitlines()
    assert lines[0] == "Log: its output has 1 NaN and 0 Inf of 2 elements, the first at [1]"
    assert re.match(r"  in     step 2 of Scan, built at .*test_numerics.py:\d+$", lines[2])
    assert lines[4].endswith("float32[2], from -1 to 3, 0 NaN, 0 Inf")


def test_the_step_of_a_scan_from_the_end():
    rows = pd.Variable([None, 1])
    total, _ = pd.scan(
        lambda h, row: (h + pd.sqrt(row), None), np.zeros(1, f32), rows, reverse=True
    )
    error = failure(total, {rows: [[-1.0], [-2.0], [1.0]]})
    assert error.operator == "Sqrt"
    assert "in     step 1 of Scan" in str(error) and "from -2 to -2" in str(error)


def test_the_step_of_a_loop(x):
    state, _ = pd.while_loop(
        lambda a, n: n < 9, lambda a, n: (a * a * pd.reduce_max(x), n + 1), [x, 0]
    )
    error = failure(state, {x: [10.0]})
    assert error.operator == "Mul"
    assert "in     step 4 of Loop" in str(error)  # after 1e3, 1e7, 1e15, 1e31


def test_the_gradient_of_a_scan():
    w, rows = pd.Variable("w", data=np.zeros(1, f32)), pd.Variable([None, 1])
    _, y = pd.scan(lambda h, row: (h, pd.sqrt(w * row + h)), np.zeros(1, f32), rows)
    cost = pd.reduce_sum(y)
    assert checked(cost, {rows: [[1.0], [2.0]]}) == 0.0
    assert failure(pd.gradients(cost, [w]), {rows: [[1.0], [2.0]]}).operator is not None


def test_the_branch_of_a_cond(x):
    y = pd.cond(pd.reduce_sum(x) > 0.0, lambda: pd.log(x), lambda: pd.exp(x))
    assert np.allclose(checked(y, {x: [1.0]}), 0.0)
    error = failure(y, {x: [3.0, -1.0]})
    assert error.operator == "Log" and "in     then_branch of If, built at" in str(error)


def test_a_loop_in_a_loop():
    rows = pd.Variable([None, None])

    def inner(h, value):
        return h + pd.log(value), None

    def outer(h, row):
        total, _ = pd.scan(inner, h, row)
        return total, None

    last, _ = pd.scan(outer, pd.constant(f32(0)), rows)
    error = failure(last, {rows: [[1, 2, 3], [1, -2, 3]]})
    lines = str(error).splitlines()
    assert error.operator == "Log"
    assert all(line.startswith("  in     step 1 of Scan") for line in lines[2:4])


def test_a_loop_whose_state_grows(x):
    """Its body cannot be searched: the states of its steps have no common shape."""
    state = pd.while_loop(
        lambda a: pd.reduce_sum(a * 0.0 + 1.0) < 4.0, lambda a: pd.concat([a, pd.log(a)]), [x]
    )[0]
    error = failure(state * 1.0, {x: [1.0]})
    assert (error.operator, error.site) == ("Loop", state.node.site)


def test_masks_in_the_body_of_a_loop(x):
    def step(best, value):
        best = pd.maximum(best, pd.where(value > 1.0, value, -INF))
        return best, best

    best, every = pd.scan(step, pd.constant(f32(-INF)), x)
    assert checked(best, {x: [1.0, 2.0]}) == 2.0
    assert checked(every, {x: [1.0, 2.0]}).tolist() == [-INF, 2.0]
    assert failure(every - every, {x: [1.0, 2.0]}).operator == "Sub"


# ---- the switches


def test_a_switch_of_a_session(x):
    y = pd.log(x)
    with pytest.raises(pd.NumericError):
        pd.Session(check_numerics=True).eval(y, {x: [-1.0]})
    session = pd.Session()
    assert np.isnan(session.eval(y, {x: [-1.0]})).all() and not session.check_numerics
    session.check_numerics = True
    with pytest.raises(pd.NumericError):
        session.eval(y, {x: [-1.0]})


def test_the_context_is_one_of_a_thread(x):
    y, results = pd.log(x), []
    with pd.check_numerics():
        thread = threading.Thread(target=lambda: results.append(pd.eval(y, {x: [-1.0]})))
        thread.start()
        thread.join()
        with pytest.raises(pd.NumericError):
            pd.eval(y, {x: [-1.0]})
    assert np.isnan(results).all()
    assert np.isnan(pd.eval(y, {x: [-1.0]})).all()


def test_a_missing_feed_and_a_failure_are_named_as_ever(x):
    ids = pd.Variable([None], dtype="int64")
    y = pd.gather(pd.log(x), ids)
    with pd.check_numerics():
        with pytest.raises(pd.MissingFeed, match="x"):
            pd.eval(y, {ids: [0]})
        with pytest.raises(pd.BackendError, match=r"node +Gather, built at .*test_numerics"):
            pd.eval(y, {ids: [7], x: [1.0]})
        other = pd.gather(pd.log(x), ids)
        with pytest.raises(pd.BackendError, match=r"node +Gather, built at .*test_numerics"):
            pd.eval(other, {ids: [7], x: [1.0]})


def test_a_checked_graph_is_freed(x):
    y = pd.log(x)
    with pd.check_numerics():
        pd.eval(y, {x: [1.0]})
    reference = weakref.ref(y)
    del y
    gc.collect()
    assert reference() is None
