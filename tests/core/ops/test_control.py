"""scan, while_loop, cond, rnn blocks and row-wise branches: values, gradients, misuse."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import ancestors

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def slope(cost, v, feeds, eps=1e-2):
    """(central difference of cost along a random direction, the direction)."""
    session = pd.default_session()
    base, direction = v.val(), np.random.default_rng(1).normal(size=v.shape).astype(f32)
    sides = []
    for sign in (1, -1):
        session.set(v, base + sign * eps * direction)
        sides.append(float(pd.eval(cost, feeds)))
    session.set(v, base)
    return (sides[0] - sides[1]) / (2 * eps), direction


def check_slopes(cost, variables, feeds, eps=1e-2, rtol=5e-3):
    for v, g in zip(variables, pd.gradients(cost, variables), strict=True):
        expected, direction = slope(cost, v, feeds, eps)
        got = float((pd.eval(g, feeds) * direction).sum())
        assert np.isclose(got, expected, rtol=rtol, atol=5e-3), v.name


class Recurrence:
    """h := tanh(x U + h W + b), with its weights and data."""

    def __init__(self, steps=5, rows=3, inputs=4, width=2):
        rng = np.random.default_rng(0)
        self.x = pd.Variable([steps, None, inputs])
        self.h0 = pd.Variable([None, width])
        self.U = pd.Variable("U", shape=[inputs, width])
        self.W = pd.Variable("W", shape=[width, width])
        self.b = pd.Variable("b", data=rng.normal(size=width))
        self.feeds = {
            self.x: rng.normal(size=(steps, rows, inputs)).astype(f32),
            self.h0: rng.normal(size=(rows, width)).astype(f32),
        }

    def cell(self, h, x):
        return pd.tanh(pd.matmul(x, self.U) + pd.matmul(h, self.W) + self.b)

    def step(self, h, x):
        h = self.cell(h, x)
        return h, pd.square(h)

    def numpy(self, reverse=False):
        xs, h = self.feeds[self.x], self.feeds[self.h0]
        out = []
        for x in xs[::-1] if reverse else xs:
            h = np.tanh(x @ self.U.val() + h @ self.W.val() + self.b.val())
            out.append(h)
        return h, np.array(out[::-1] if reverse else out)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_equals_the_loop_written_out(reverse):
    r = Recurrence()
    final, ys = pd.scan(r.step, r.h0, r.x, reverse)
    assert final.shape == (None, 2) and ys.shape == (5, None, 2)
    last, every = r.numpy(reverse)
    got = pd.eval([final, ys], r.feeds)
    assert np.allclose(got[0], last, atol=1e-6) and np.allclose(got[1], every**2, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_gradients_to_second_order(reverse):
    r = Recurrence()
    final, ys = pd.scan(r.step, r.h0, r.x, reverse)
    cost = pd.reduce_sum(pd.square(final)) + pd.reduce_sum(pd.sin(ys))
    weights = [r.U, r.W, r.b]
    check_slopes(cost, weights, r.feeds)
    first = pd.gradients(cost, weights)
    directions = [np.random.default_rng(2).normal(size=v.shape).astype(f32) for v in weights]
    along = [pd.reduce_sum(g * d) for g, d in zip(first, directions, strict=True)]
    check_slopes(along[0] + along[1] + along[2], weights, r.feeds, eps=2e-3, rtol=1e-2)


def test_second_derivatives_of_mutually_dependent_states():
    """The backward loop reads c and tanh(c): to its own derivative they are two inputs."""
    x, M = pd.Variable("x", shape=[4, 3, 2]), pd.Variable("M", shape=[2, 2])

    def step(states, v):
        h, c = states
        c = c * pd.sigmoid(v) + pd.tanh(v + pd.matmul(h, M))
        h = pd.tanh(c) * v
        return [h, c], h

    (h, c), every = pd.scan(step, [ones(3, 2), ones(3, 2)], x)
    cost = pd.reduce_sum(pd.square(every)) + pd.reduce_sum(h * c)
    along = [pd.reduce_sum(pd.sin(g)) for g in pd.gradients(cost, [x, M])]
    check_slopes(along[0] + along[1], [x, M], {}, eps=2e-3, rtol=1e-2)


def test_scan_gradient_of_its_inputs():
    x = pd.Variable("x", shape=[4, 3, 2])
    start = pd.Variable("start", shape=[3, 2])
    final, ys = pd.scan(lambda s, v: (pd.sin(s) * v, s * v), start, x)
    check_slopes(pd.reduce_sum(final) + pd.reduce_sum(pd.square(ys)), [x, start], {})


def test_scan_with_lists_of_states_inputs_and_outputs():
    x, y = pd.Variable(data=ones(3, 2)), pd.Variable(data=2 * ones(3, 2))

    def step(state, slices):
        total, product = state
        a, b = slices
        return [total + a, product * b], (total, product)

    (total, product), (before, _) = pd.scan(step, [np.zeros(2, f32), ones(2)], [x, y])
    assert np.allclose(pd.eval(total), [3, 3]) and np.allclose(pd.eval(product), [8, 8])
    assert np.allclose(pd.eval(before)[:, 0], [0, 1, 2])


def test_sequences_of_different_lengths_share_one_program():
    x = pd.Variable([None, None, 2])
    final, _ = pd.scan(lambda s, v: (s + pd.reduce_sum(v), None), pd.constant(0.0), x)
    for steps in (1, 2, 7):
        assert pd.eval(final, {x: ones(steps, 3, 2)}) == steps * 6


def test_nested_scan_with_gradient():
    x = pd.Variable("x", shape=[3, 4, 2])
    w = pd.Variable("w", shape=[2, 2])

    def row(s, v):
        return pd.tanh(pd.matmul(s, w) + v), None

    def outer(total, rows):
        inner, _ = pd.scan(row, pd.constant(np.zeros((1, 2), f32)), pd.reshape(rows, [4, 1, 2]))
        return total + inner, inner

    total, each = pd.scan(outer, pd.constant(np.zeros((1, 2), f32)), x)
    expected = np.zeros((1, 2))
    for rows in x.val():
        s = np.zeros((1, 2))
        for v in rows:
            s = np.tanh(s @ w.val() + v)
        expected = expected + s
    assert np.allclose(pd.eval(total), expected, atol=1e-5) and each.shape == (3, 1, 2)
    check_slopes(pd.reduce_sum(pd.square(total)), [w, x], {})


def loop_operators(targets):
    """Operators inside the loops that are really run."""
    inside = []
    for node in pd.subgraph(targets):
        for block in node.blocks.values():
            inside += [n.op_type for n in ancestors(block.outputs, set(block.inputs))]
    return inside


def test_only_the_recurrence_stays_in_the_loop():
    r = Recurrence()
    projection = pd.Variable("projection", shape=[2, 7])

    def step(h, x):
        h = r.cell(h, x)
        return h, pd.softmax(pd.matmul(h, projection))

    _, ys = pd.scan(step, r.h0, r.x)
    inside = loop_operators(ys)
    assert inside.count("MatMul") == inside.count("Add") == 1 and "Softmax" not in inside
    _h, every = r.numpy()
    logits = every @ projection.val()
    softmax = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert np.allclose(pd.eval(ys, r.feeds), softmax, atol=1e-5)


def test_factors_of_a_state_are_joined_before_the_loop():
    x = pd.Variable([None, 2])

    def step(s, v):
        s = s * pd.tanh(v) * pd.sin(v) + s
        return s * pd.exp(v) * pd.cos(v), s

    final, _ = pd.scan(step, ones(2), x)
    assert loop_operators([final]).count("Mul") == 2
    value, s = np.linspace(-1, 1, 10, dtype=f32).reshape(5, 2), ones(2)
    for v in value:
        s = (s * np.tanh(v) * np.sin(v) + s) * np.exp(v) * np.cos(v)
    np.testing.assert_allclose(pd.eval(final, {x: value}), s, rtol=1e-5)


def test_backward_loop_holds_one_product_a_step():
    r = Recurrence()
    final, _ = pd.scan(r.step, r.h0, r.x)
    g = pd.gradients(pd.reduce_sum(final), [r.U, r.W, r.b, r.x])
    inside = loop_operators(g)
    assert inside.count("MatMul") == 2  # h W forward, dz Wᵀ backward


def test_what_only_the_gradient_reads_is_not_computed_without_it():
    r = Recurrence()
    final, _ = pd.scan(r.step, r.h0, r.x)
    pd.gradients(pd.reduce_sum(final), [r.W])
    (loop,) = (n for n in pd.subgraph(final) if n.op_type == "Scan")
    assert len(loop.outputs) == 1


def test_while_loop():
    x = pd.Variable(data=f32(1.0))
    y, n = pd.while_loop(lambda a, i: a < 100.0, lambda a, i: (a * 3.0, i + 1), [x, pd.constant(0)])
    assert pd.eval([y, n]) == [243.0, 5]
    (g,) = pd.gradients(y, [x])
    assert pd.eval(g) == 243.0


def test_while_loop_gradients_of_captured_values_to_second_order():
    x = pd.Variable(data=f32(1.1))
    (y,) = pd.while_loop(lambda a: a < 50.0, lambda a: (a * a + x,), [x])

    def value(z):
        a = z
        while a < 50:
            a = a * a + z
        return a

    (g,) = pd.gradients(y, [x])
    (gg,) = pd.gradients(g, [x])
    e = 1e-4
    first = (value(1.1 + e) - value(1.1 - e)) / (2 * e)
    second = (value(1.1 + e) - 2 * value(1.1) + value(1.1 - e)) / e**2
    assert np.allclose(pd.eval([y, g, gg]), [value(1.1), first, second], rtol=1e-3)


def test_while_loop_that_makes_no_step():
    x = pd.Variable(data=f32(7.0))
    (y,) = pd.while_loop(lambda a: a < 5.0, lambda a: (a * 2.0,), [x])
    (g,) = pd.gradients(y * 3.0, [x])
    assert pd.eval([y, g]) == [7.0, 3.0]


def test_while_loop_stops_at_max_steps():
    (y,) = pd.while_loop(lambda a: a > 0.0, lambda a: (a + 1.0,), [pd.constant(1.0)], max_steps=4)
    assert pd.eval(y) == 5.0


def test_cond_runs_one_branch():
    x = pd.Variable([None, 2])
    p = pd.Variable([1], dtype="bool", trainable=False)
    y = pd.cond(p, lambda: x + 1.0, lambda: pd.reshape(x, [14]))  # the other fails for 8 elements
    assert pd.eval(y, feeds={x: ones(4, 2), p: [True]}).sum() == 16.0


def test_cond_gradients_follow_the_branch_that_ran():
    w, v = pd.Variable("w", shape=[3, 2]), pd.Variable("v", data=[0.5, -1.0])
    p = pd.Variable([1], dtype="bool", trainable=False)
    y = pd.cond(p, lambda: pd.reduce_sum(pd.exp(w)), lambda: pd.reduce_sum(pd.square(v)) * 3.0)
    gw, gv = pd.gradients(y, [w, v])
    a, b = pd.eval([gw, gv], {p: [True]})
    assert np.allclose(a, np.exp(w.val())) and not b.any()
    a, b = pd.eval([gw, gv], {p: [False]})
    assert not a.any() and np.allclose(b, 6 * v.val())
    (second,) = pd.gradients(pd.reduce_sum(gw), [w])
    assert np.allclose(pd.eval(second, {p: [True]}), np.exp(w.val()), rtol=1e-5)


def test_parameters_made_inside_a_branch_belong_to_the_network():
    x = pd.Variable([None, 3])
    p = pd.Variable([1], dtype="bool", trainable=False)
    y = pd.cond(p, lambda: pd.fc(x, 2, W="w", B=False), lambda: pd.fc(x, 2, W="w", B=False) * 2.0)
    assert [v.name for v in pd.trainable_variables()] == ["w"]
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y))
    before = pd.get_variable("w").val()
    pd.eval(step, {x: ones(2, 3), p: [False]})
    assert np.allclose(before - pd.get_variable("w").val(), 0.1 * 4, rtol=1e-4)


def test_rnn_block_values_and_gradients():
    r = Recurrence()
    x, U, W = r.x, r.U, r.W
    rnn = pd.rnn()
    with rnn.step():
        xt = rnn.add_input(x)
        h = rnn.add_memory(shape=[2], batch_ref=xt)
        new = pd.tanh(pd.matmul(xt, U) + pd.matmul(h.pre_state(), W))
        h.update(new)
        o = pd.fc(new, size=1, W="ow", B="ob")
        rnn.add_outputs(new, o)
    hs, os_ = rnn()
    assert hs.shape == (5, None, 2)
    assert {"U", "W", "ow", "ob"} <= {v.name for v in pd.trainable_variables()}
    feeds, h, every = {x: r.feeds[x]}, np.zeros((3, 2)), []
    for v in r.feeds[x]:
        h = np.tanh(v @ U.val() + h @ W.val())
        every.append(h)
    assert np.allclose(pd.eval(hs, feeds), every, atol=1e-5)
    check_slopes(pd.reduce_mean(pd.square(hs)) + pd.reduce_sum(os_), [U, W], feeds)
    last, _ = rnn(output_all_steps=False)
    assert last.shape == (None, 2) and np.allclose(pd.eval(last, feeds), h, atol=1e-5)
    with pytest.raises(ValueError, match="add_input belongs inside"):
        rnn.add_input(x)


def test_rnn_misuse():
    x = pd.Variable([3, None, 2])
    rnn = pd.rnn()
    with rnn.step():
        xt = rnn.add_input(x)
        memory = rnn.add_memory(shape=[2], batch_ref=xt)
        rnn.add_outputs(xt + memory.pre_state())
        with pytest.raises(ValueError, match="batch_ref is a slice"):
            rnn.add_memory(shape=[2], batch_ref=x)
        with pytest.raises(ValueError, match="needs init, or shape"):
            rnn.add_memory(shape=[2])
    with pytest.raises(ValueError, match="is never updated"):
        rnn()
    with pytest.raises(ValueError, match="describe inputs and outputs"):
        pd.rnn()()


def test_rnn_blocks_nest():
    x = pd.Variable("x", shape=[3, 4, 2])  # sequences of sequences
    w = pd.Variable("w", shape=[2, 2])
    outer = pd.rnn()
    with outer.step():
        sentence = outer.add_input(pd.reshape(x, [3, 4, 1, 2]))
        total = outer.add_memory(init=pd.constant(np.zeros((1, 2), f32)))
        inner = pd.rnn()
        with inner.step():
            word = inner.add_input(sentence)
            h = inner.add_memory(shape=[2], batch_ref=word)
            new = pd.tanh(pd.matmul(h.pre_state(), w) + word)
            h.update(new)
            inner.add_outputs(new)
        (last,) = inner(output_all_steps=False)
        after = total.pre_state() + last
        total.update(after)
        outer.add_outputs(after)
    (sums,) = outer()
    expected = []
    for rows in x.val():
        h = np.zeros((1, 2))
        for v in rows:
            h = np.tanh(h @ w.val() + v)
        expected.append(h)
    assert np.allclose(pd.eval(sums), np.cumsum(expected, 0), atol=1e-5)
    check_slopes(pd.reduce_sum(pd.square(sums)), [w, x], {})


def test_while_block_is_the_while_loop():
    x = pd.Variable(data=f32(1.0))
    loop = pd.while_op()
    with loop.stepnet():
        a, i = loop.add_memory(x), loop.add_memory(0)
        loop.condition(a.pre_state() < 100.0)
        a.update(a.pre_state() * 3.0)
        i.update(i.pre_state() + 1)
    y, n = loop()
    assert pd.eval([y, n]) == [243.0, 5]
    (g,) = pd.gradients(y, [x])
    assert pd.eval(g) == 243.0


def test_while_block_misuse():
    loop = pd.while_op()
    with pytest.raises(ValueError, match="add_memory belongs inside"):
        loop.add_memory(1.0)
    with pytest.raises(ValueError, match="describe a condition"):
        loop()
    with loop.stepnet():
        a = loop.add_memory(1.0)
        loop.condition(a.pre_state() < 3.0)
        a.update(a.pre_state() + 1.0)
        with pytest.raises(ValueError, match=r"^while_op: a memory is updated twice"):
            a.update(a.pre_state())
    assert pd.eval(loop()[0]) == 3.0
    forgotten = pd.while_op()
    with forgotten.stepnet():
        b = forgotten.add_memory(1.0)
        forgotten.condition(b.pre_state() < 3.0)
    with pytest.raises(ValueError, match="is never updated"):
        forgotten()


def test_ifelse_splits_rows():
    x = pd.Variable([None, 1])
    cond = pd.less_than(x, 15.0)
    ie = pd.ifelse(cond)
    with ie.true_block():
        ie.output(pd.log(ie.input(x)))  # would be wrong on rows of the other side
    with ie.false_block():
        ie.output(ie.input(x) * -1.0)
    (y,) = ie()
    v = np.array([[1.0], [20.0], [10.0]], f32)
    assert np.allclose(pd.eval(y, feeds={x: v}), [[0.0], [-20.0], [np.log(10)]])
    (g,) = pd.gradients(pd.reduce_sum(y), [x])
    assert np.allclose(pd.eval(g, feeds={x: v}), [[1.0], [-1.0], [0.1]])
    assert np.allclose(pd.eval(y, feeds={x: v[1:2]}), [[-20.0]])  # empty true side
    bad = pd.ifelse(cond)
    with bad.true_block():
        bad.output(bad.input(x))
    with pytest.raises(ValueError, match="both blocks"):
        bad()
    with bad.false_block():
        bad.output(bad.input(x), bad.input(x))
    with pytest.raises(ValueError, match="1 outputs of one block, 2 of the other"):
        bad()


def test_for_loop_reads_and_writes_arrays():
    x = pd.Variable("x", shape=[5, 3])
    w = pd.Variable("w", shape=[3])

    def body(i, total):
        row = pd.gather(x, i) * w
        return total + row, pd.tanh(total) * row

    total, written = pd.for_loop(5, body, pd.constant(np.zeros(3, f32)))
    assert written.shape == (5, 3)
    rows = x.val() * w.val()
    before = np.cumsum(rows, 0) - rows
    got = pd.eval([total, written])
    assert np.allclose(got[0], rows.sum(0), atol=1e-5)
    assert np.allclose(got[1], np.tanh(before) * rows, atol=1e-5)
    check_slopes(pd.reduce_sum(pd.square(total)) + pd.reduce_sum(written), [x, w], {})


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_for_loop_with_a_count_from_data(steps):
    n = pd.Variable([1], dtype="int64", trainable=False)
    w = pd.Variable("w", data=3.0)
    y, squares = pd.for_loop(pd.reshape(n, []), lambda i, s: (s * w, pd.square(s)), 1.0)
    (g,) = pd.gradients(y, [w])
    got = pd.eval([y, squares, g], {n: [steps]})
    assert got[0] == 3.0**steps and got[2] == steps * 3.0 ** (steps - 1)
    assert np.allclose(got[1], 9.0 ** np.arange(steps))


MISUSE = {
    "states out": (lambda x: pd.scan(lambda s, v: ([s, s], None), x, x), "1 states go in, 2 come"),
    "state shape": (
        lambda x: pd.scan(lambda s, v: (pd.reduce_sum(s), None), x, x),
        "a state begins as",
    ),
    "no pair": (lambda x: pd.scan(lambda s, v: s, x, x), "returns a pair"),
    "no pair in for_loop": (lambda x: pd.for_loop(3, lambda i, s: s, x), "returns a pair"),
    "no inputs": (lambda x: pd.scan(lambda s, v: (s, None), x, []), "nothing to scan over"),
    "scalar": (
        lambda x: pd.scan(lambda s, v: (s, None), x, pd.reduce_sum(x)),
        "no axis to scan along",
    ),
    "branches": (
        lambda x: pd.cond(pd.constant(True), lambda: [x], lambda: [x, x]),
        "one branch returns 1 values, the other 2",
    ),
    "branch types": (
        lambda x: pd.cond(pd.constant(True), lambda: x, lambda: pd.cast(x, "int64")),
        "one branch returns",
    ),
    "condition": (lambda x: pd.cond(x, lambda: x, lambda: x), "a bool of one element"),
    "loop condition": (
        lambda x: pd.while_loop(lambda a: a, lambda a: (a,), [x]),
        "a bool of one element",
    ),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name):
    build, message = MISUSE[name]
    with pytest.raises(ValueError, match=message):
        build(pd.Variable(data=ones(2, 3)))


def test_loops_run_in_the_reference_evaluator_too():
    r = Recurrence()
    final, ys = pd.scan(r.step, r.h0, r.x)
    g = pd.gradients(pd.reduce_sum(final) + pd.reduce_sum(ys), [r.W, r.U])
    with pd.Session(device="reference") as session:
        session.load_values({v: v.val() for v in (r.U, r.W, r.b)})
        slow = session.eval([final, *g], r.feeds)
    for a, b in zip(pd.eval([final, *g], r.feeds), slow, strict=True):
        assert np.allclose(a, b, atol=1e-4)


def test_loops_are_exported(tmp_path):
    import onnxruntime

    r = Recurrence()
    final, ys = pd.scan(r.step, r.h0, r.x)
    pd.export_onnx(tmp_path / "loop.onnx", [final, ys], inputs=[r.x, r.h0])
    session = onnxruntime.InferenceSession(str(tmp_path / "loop.onnx"))
    names = [i.name for i in session.get_inputs()]
    got = session.run(None, dict(zip(names, r.feeds.values(), strict=True)))
    for a, b in zip(got, pd.eval([final, ys], r.feeds), strict=True):
        assert np.allclose(a, b, atol=1e-6)


def test_every_step_of_a_loop_draws_anew():
    x = pd.Variable(data=ones(6, 50))

    def noisy(s, v):
        return s, pd.dropout(v, 0.5)

    _, ys = pd.scan(noisy, pd.constant(0.0), x)
    masks = pd.eval(ys, training=True)
    assert len({m.tobytes() for m in masks}) == 6 and 60 < (masks > 0).sum() < 240
    assert (masks != pd.eval(ys, training=True)).any()
    assert (pd.eval(ys) == 1).all()


def test_nested_loops_draw_anew_in_each_of_their_steps():
    x = pd.Variable(data=ones(3, 4, 20))

    def inner(s, v):
        return s, pd.uniform_random([20]) + v * 0.0

    _, ys = pd.scan(lambda s, rows: (s, pd.scan(inner, s, rows)[1]), pd.constant(0.0), x)
    drawn = pd.eval(ys).reshape(12, 20)
    assert len(np.unique(drawn)) > 230


def test_while_loops_draw_anew():
    total, _ = pd.while_loop(
        lambda s, n: n < 5,
        lambda s, n: (s * 10.0 + pd.floor(pd.uniform_random([1]) * 10.0), n + 1),
        [np.zeros(1, f32), pd.constant(0)],
    )
    digits = f"{int(pd.eval(total)[0]):05d}"
    assert len(set(digits)) > 1


def test_a_condition_with_an_axis_of_one_element():
    """ONNX's Loop takes a scalar."""
    x = pd.Variable([1])
    (y,) = pd.while_loop(lambda v: v < 5.0, lambda v: [v + 2.0], [x])
    assert pd.eval(y, {x: [0.0]}) == [6.0]


@pytest.mark.parametrize("nested", [False, True])
def test_a_branch_looks_at_its_own_nodes(nested, monkeypatch):
    walked = []

    def counted(*arguments, **options):
        found = ancestors(*arguments, **options)
        walked.append(len(found))
        return found

    def longest(depth):
        x = pd.Variable([])
        y = x
        for _ in range(depth):
            y = pd.sin(y) + 1.0
        walked.clear()
        with monkeypatch.context() as patch:
            patch.setattr("pd_core.graph.rewrite.ancestors", counted)
            other = (lambda: pd.cond(x > 9.0, lambda: y * x, lambda: y - x)) if nested else None
            z = pd.cond(x > 0.0, lambda: pd.exp(y) * 3.0 + x, other or (lambda: y * x))
        return x, z, max(walked)

    x, z, short = longest(3)
    assert longest(300)[2] == short < 10
    for value in (-0.5, 0.5):
        y = value
        for _ in range(3):
            y = np.sin(y) + 1.0
        truth = np.exp(y) * 3.0 + value if value > 0 else (y - value if nested else y * value)
        found = pd.eval(z, {x: f32(value)})
        assert found == pytest.approx(truth, rel=1e-5)
