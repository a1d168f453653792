"""Recurrent groups: what a described step gives along sequences, and how it is compiled."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.graph.node import ancestors
from pd_v2.attr import Extra, Param
from pd_v2.data_feeder import DataFeeder
from pd_v2.feeds import feed_dict
from pd_v2.topology import Topology

A, L, P, T = paddle.activation, paddle.layer, paddle.pooling, paddle.data_type

BATCHES = {
    "ragged": [2, 0, 3, 1],
    "equal": [2, 2],
    "one step": [1],
    "only empty": [0, 0],
    "no samples": [],
}
NESTED = {
    "ragged": [[2, 0, 3], [], [1], [0]],
    "equal": [[2, 2], [2, 2]],
    "only empty": [[0], []],
    "no samples": [],
}


def filled(outputs, rng):
    """A pool with random values for some layers, and the values by name in double precision."""
    pool = paddle.parameters.create(outputs)
    for name in pool.names():
        pool.set(name, rng.normal(0, 0.5, pool.get_shape(name)))
    shapes = {name: pool.get_shape(name) for name in pool.names()}
    return pool, {n: pool.get(n).reshape(s).astype(np.float64) for n, s in shapes.items()}


def inferred(outputs, pool, samples):
    return inferrer(outputs, pool)(samples)


def inferrer(outputs, pool):
    """A function that gives what layers have for a list of samples."""
    inference = paddle.inference.Inference(parameters=pool, output_layer=outputs)
    return lambda samples: inference.infer(samples, flatten_result=False)


def slope_error(outputs, pool, samples, rng):
    """How far the gradient by all parameters is from a central difference, relative to it."""
    topology = Topology(outputs)
    fed = feed_dict(topology.data_layers(), DataFeeder(topology.data_type())(samples))
    session = pd.Session()
    session.load_values(pool.values_of(topology.parameters))
    found = session.eval(outputs, fed, training=False)
    seeds = [rng.standard_normal(v.shape).astype(np.float32) for v in found]
    weighted = [pd.reduce_sum(y * pd.constant(s)) for y, s in zip(outputs, seeds, strict=True)]
    total = sum(weighted[1:], weighted[0])
    variables = [p.variable for p in topology.parameters]
    ways = [rng.standard_normal(v.dims).astype(np.float32) for v in variables]
    gradients = session.eval(pd.gradients(total, variables), fed, training=False)
    slope = sum(np.sum(g * w) for g, w in zip(gradients, ways, strict=True))

    def moved(step):
        start = pool.values_of(topology.parameters)
        session.load_values({v: start[v] + step * w for v, w in zip(variables, ways, strict=True)})
        return float(session.eval(total, fed, training=False))

    expected = (moved(5e-3) - moved(-5e-3)) / 1e-2
    return abs(slope - expected) / (abs(expected) + 1e-2)


def packed(rng, lengths, *sizes):
    """Random samples: for each length a list of rows of every size."""
    return [
        tuple(rng.standard_normal((n, size)).astype(np.float32).tolist() for size in sizes)
        for n in lengths
    ]


# ---- one level


def two_memories(reverse=False):
    """A step with a booted memory, one of a learned start, a static row, and two outputs."""
    s = L.data(name="s", type=T.dense_vector_sequence(4))
    x = L.data(name="x", type=T.dense_vector(5))
    boot = L.fc(input=x, size=3, name="boot")

    def step(a, static):
        m = L.memory(name="h", size=3, boot_layer=boot)
        before = L.memory(
            name="p", size=2, boot_bias=Param(name="start"), boot_bias_active_type=A.Tanh()
        )
        p = L.fc(input=a, size=2, name="p")
        h = L.fc(input=[a, static, m, before], size=3, name="h")
        return h, L.fc(input=[h, static, p], size=6, act=A.Softmax(), name="o")

    return list(
        L.recurrent_group(step=step, input=[s, L.StaticInput(x)], reverse=reverse, name="g")
    )


def two_memories_slow(values, samples, reverse):
    h_rows, o_rows = [], []
    for rows, x in samples:
        x = np.asarray(x, np.float64)
        m = np.tanh(x @ values["_boot.w0"] + values["_boot.wbias"][0])
        before = np.tanh(values["start"][0])
        found = []
        for a in reversed(rows) if reverse else rows:
            a = np.asarray(a, np.float64)
            weights = [values[f"_h@g.w{k}"] for k in range(4)]
            parts = zip((a, x, m, before), weights, strict=True)
            m = np.tanh(sum(v @ w for v, w in parts) + values["_h@g.wbias"][0])
            before = np.tanh(a @ values["_p@g.w0"] + values["_p@g.wbias"][0])
            parts = zip((m, x, before), [values[f"_o@g.w{k}"] for k in range(3)], strict=True)
            z = np.exp(sum(v @ w for v, w in parts) + values["_o@g.wbias"][0])
            found.append((m, z / z.sum()))
        found = found[::-1] if reverse else found
        h_rows += [h for h, _ in found]
        o_rows += [o for _, o in found]
    return np.reshape(h_rows, (-1, 3)), np.reshape(o_rows, (-1, 6))


def with_rows(rng, lengths):
    rows = [rng.standard_normal(5).astype(np.float32).tolist() for _ in lengths]
    return [(*sample, row) for sample, row in zip(packed(rng, lengths, 4), rows, strict=True)]


@pytest.mark.parametrize("reverse", [False, True])
def test_values(reverse, rng):
    out = two_memories(reverse)
    pool, values = filled(out, rng)
    infer = inferrer(out, pool)
    for label, lengths in BATCHES.items():
        samples = with_rows(rng, lengths)
        expected = two_memories_slow(values, samples, reverse)
        for a, b in zip(infer(samples), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=label)
    assert [x.reverse for x in out] == [reverse, reverse]


@pytest.mark.parametrize("reverse", [False, True])
def test_gradient(reverse, rng):
    out = two_memories(reverse)
    pool, _ = filled(out, rng)
    assert slope_error(out, pool, with_rows(rng, BATCHES["ragged"]), rng) < 2e-3


def test_export(tmp_path, rng):
    h, o = two_memories()
    pool, _ = filled([h, o], rng)
    path = str(tmp_path / "group.onnx")
    Topology(o).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["s", "s.lengths", "x"]
    for lengths in (BATCHES["ragged"], BATCHES["one step"]):
        samples = with_rows(rng, lengths)
        rows = [row for s, _ in samples for row in s]
        given = {
            "s": np.array(rows, np.float32),
            "s.lengths": np.array(lengths, np.int64),
            "x": np.array([x for _, x in samples], np.float32),
        }
        (found,) = session.run(None, given)
        np.testing.assert_allclose(found, inferred(o, pool, samples)[0], rtol=1e-5, atol=1e-6)


def bodies(y):
    """The operators in the loops behind a value."""
    blocks = [b for node in ancestors([y]) for b in node.blocks.values()]
    return [n.op_type for b in blocks for n in ancestors(b.outputs, stop=set(b.inputs))]


def test_only_the_recurrence_is_a_loop():
    """No state depends on the softmax, and the second memory's layer depends on no state."""
    _, o = two_memories()
    assert "Softmax" not in bodies(o)
    assert bodies(o).count("Tanh") == 1


def test_a_step_without_memory_needs_no_loop(rng):
    s = L.data(name="s", type=T.dense_vector_sequence(4))
    out = L.recurrent_group(step=lambda a: L.fc(input=a, size=2, name="y"), input=s, name="g")
    assert bodies(out) == []
    pool, values = filled(out, rng)
    samples = packed(rng, [2, 0, 1], 4)
    rows = np.array([row for (s,) in samples for row in s])
    expected = np.tanh(rows @ values["_y@g.w0"] + values["_y@g.wbias"])
    np.testing.assert_allclose(inferred(out, pool, samples)[0], expected, rtol=1e-5, atol=1e-6)


def test_inputs_that_are_no_layers_come_as_they_are():
    seen = []

    def step(a, number, text):
        seen.append((number, text))
        return L.fc(input=a, size=2)

    s = L.data(name="s", type=T.dense_vector_sequence(4))
    L.recurrent_group(step=step, input=[s, 3, "name"])
    assert seen == [(3, "name")]


def test_a_row_of_the_sample_is_seen_in_every_step(rng):
    s = L.data(name="s", type=T.dense_vector_sequence(4))
    x = L.data(name="x", type=T.dense_vector(4))
    out = L.recurrent_group(step=lambda a, b: L.addto(input=[a, b]), input=[s, x])
    samples = [([[1, 2, 3, 4], [0, 0, 0, 0]], [1, 1, 1, 1]), ([], [5, 5, 5, 5])]
    pool, _ = filled(out, rng)
    np.testing.assert_array_equal(inferred(out, pool, samples)[0], [[2, 3, 4, 5], [1, 1, 1, 1]])


def test_a_row_made_of_a_static_sequence_is_seen_in_every_step(rng):
    """Beside a memory, and where there is none."""
    s = L.data(name="s", type=T.dense_vector_sequence(1))
    t = L.data(name="t", type=T.dense_vector_sequence(1))

    def step(a, whole):
        last = L.last_seq(input=whole)
        before = L.memory(name="total", size=1)
        L.addto(input=[a, before, last], name="total")
        return L.addto(input=[a, last], name="plain"), before

    out = L.recurrent_group(step=step, input=[s, L.StaticInput(input=t)])
    samples = [([[1], [2], [3]], [[7], [10]]), ([], [[5]]), ([[4]], [[20], [30], [50]])]
    pool, _ = filled(out, rng)
    plain, before = inferred(out, pool, samples)
    assert plain.ravel().tolist() == [11, 12, 13, 54]
    assert before.ravel().tolist() == [0, 11, 23, 0]


def scratch_pad():
    """A memory of as many rows as the sample's sequence t, to whose rows every step adds."""
    s = L.data(name="s", type=T.dense_vector_sequence(2))
    t = L.data(name="t", type=T.dense_vector_sequence(2))
    weight = L.slope_intercept(input=L.dot_prod(input1=t, input2=t), slope=0.5)

    def step(a):
        rows = L.memory(name="rows", size=2, boot_layer=t)
        before = L.memory(name="weight", size=1, boot_layer=weight)
        now = L.addto(
            input=[before, L.dot_prod(input1=L.expand(input=a, expand_as=rows), input2=rows)],
            act=A.SequenceSoftmax(),
            name="weight",
        )
        added = L.scaling(input=L.expand(input=a, expand_as=rows), weight=now)
        new = L.addto(input=[rows, added], name="rows")
        return L.pooling(input=L.scaling(input=new, weight=now), pooling_type=P.Sum())

    return L.recurrent_group(step=step, input=s, name="g")


def slow_scratch_pad(samples):
    found = []
    for steps, rows in samples:
        rows = np.reshape(rows, (-1, 2)).astype(np.float64)
        weight = 0.5 * np.sum(rows * rows, axis=1)
        for a in np.reshape(steps, (-1, 2)):
            e = np.exp(weight + rows @ a)
            weight = e / e.sum()
            rows = rows + weight[:, None] * a
            found.append(weight @ rows)
    return np.reshape(found, (-1, 2))


def test_a_memory_of_sequences(rng):
    out = scratch_pad()
    infer = inferrer(out, filled(out, rng)[0])
    for lengths in ([(2, 3), (0, 2), (3, 1), (1, 0)], [(2, 2)], [(0, 0)], []):
        samples = [
            (rng.standard_normal((n, 2)).tolist(), rng.standard_normal((k, 2)).tolist())
            for n, k in lengths
        ]
        expected = slow_scratch_pad(samples)
        np.testing.assert_allclose(infer(samples)[0], expected, 1e-5, 1e-6, err_msg=str(lengths))


def test_gradient_of_a_memory_of_sequences(rng):
    s = L.data(name="s", type=T.dense_vector_sequence(3))
    encoded = L.fc(input=s, size=2)

    def step(a):
        rows = L.memory(name="rows", size=2, boot_layer=encoded)
        wide = L.expand(input=L.fc(input=a, size=2), expand_as=rows)
        new = L.addto(input=[rows, wide], act=A.Tanh(), name="rows")
        return L.pooling(input=new, pooling_type=P.Avg())

    out = L.recurrent_group(step=step, input=s)
    pool, _ = filled(out, rng)
    assert slope_error([out], pool, packed(rng, [2, 0, 3, 1], 3), rng) < 1e-3


def attended(a, whole, query):
    """The rows of a sequence, weighted by their products with a query; twice that, and a."""
    row = L.expand(input=query, expand_as=whole)
    weights = L.dot_prod(input1=row, input2=whole)
    total = L.pooling(input=L.scaling(input=whole, weight=weights), pooling_type=P.Sum())
    return L.addto(input=[a, L.slope_intercept(input=total, slope=2.0)])


@pytest.mark.parametrize("with_memory", [False, True])
def test_rows_made_of_a_static_sequence_and_of_the_step(with_memory, rng):
    s = L.data(name="s", type=T.dense_vector_sequence(2))
    t = L.data(name="t", type=T.dense_vector_sequence(2))

    def step(a, whole):
        query = a
        if with_memory:
            query = L.addto(input=[a, L.memory(name="sum", size=2)], name="sum")
        return attended(a, whole, query)

    out = L.recurrent_group(step=step, input=[s, L.StaticInput(input=t)])
    pool, _ = filled(out, rng)
    samples = [
        (rng.standard_normal((n, 2)).tolist(), rng.standard_normal((k, 2)).tolist())
        for n, k in [(3, 2), (0, 4), (1, 3)]
    ]
    expected = []
    for rows, whole in samples:
        rows, whole = np.reshape(rows, (-1, 2)), np.reshape(whole, (-1, 2))
        queries = np.cumsum(rows, axis=0) if with_memory else rows
        expected += [*(rows + 2 * queries @ whole.T @ whole)]
    np.testing.assert_allclose(inferred(out, pool, samples)[0], expected, rtol=1e-5, atol=1e-5)


def test_a_static_sequence_comes_out_as_sub_sequences(rng):
    """Such as the weights of an attention: for every step, one for each row it attends to."""
    s = L.data(name="s", type=T.dense_vector_sequence(2))
    t = L.data(name="t", type=T.dense_vector_sequence(2))

    def step(a, whole):
        m = L.memory(name="h", size=2)
        query = L.addto(input=[a, m], name="h")
        row = L.expand(input=query, expand_as=whole)
        return query, L.dot_prod(input1=row, input2=whole)

    query, out = L.recurrent_group(step=step, input=[s, L.StaticInput(input=t)])
    last = L.last_seq(input=out, agg_level=L.AggregateLevel.TO_SEQUENCE)
    infer = inferrer([query, out, last], filled([query, out, last], rng)[0])
    for sizes in ([(2, 3), (0, 5), (1, 0), (3, 1)], [(1, 2)], [(0, 1), (0, 0)], []):
        samples = [
            (rng.standard_normal((n, 2)).tolist(), rng.standard_normal((k, 2)).tolist())
            for n, k in sizes
        ]
        expected, lasts = [], []
        for rows, whole in samples:
            for row in np.cumsum(np.reshape(rows, (-1, 2)), axis=0):
                products = np.reshape(whole, (-1, 2)) @ row
                expected += products.tolist()
                lasts.append(products[-1] if len(products) else 0)
        _, *found = infer(samples)
        for have, want in zip(found, (expected, lasts), strict=True):
            np.testing.assert_allclose(have.ravel(), want, 1e-5, 1e-6, err_msg=str(sizes))


def test_a_memory_of_ids():
    """The id before, 7 at first."""
    s = L.data(name="s", type=T.integer_value_sequence(9))

    def step(a):
        before = L.memory(name="now", size=9, boot_with_const_id=7)
        L.max_id(input=L.embedding(input=a, size=9, param_attr=Param(name="table")), name="now")
        return L.embedding(input=before, size=9, param_attr=Param(name="table"), name="out")

    out = L.recurrent_group(step=step, input=s)
    pool = paddle.parameters.create(out)
    pool.set("table", np.eye(9))
    ids = paddle.infer(
        output_layer=L.max_id(input=out), parameters=pool, input=[([3, 1, 4],), ([5],)], field="id"
    )
    assert ids.tolist() == [7, 3, 1, 7]


def test_dropout_is_drawn_anew_in_every_step():
    s = L.data(name="s", type=T.dense_vector_sequence(1))

    def step(a):
        m = L.memory(name="sum", size=200)
        ones = L.repeat(input=a, num_repeats=200)
        drawn = L.addto(input=[ones], layer_attr=Extra(drop_rate=0.5))
        L.addto(input=[drawn, m], name="sum")
        return drawn

    out = L.recurrent_group(step=step, input=s)
    fed = {s: np.ones((4, 1), np.float32), s.levels[0].lengths: np.array([2, 2])}
    rows = pd.eval(out, fed, training=True)
    assert len({row.tobytes() for row in rows}) == 4
    assert 0.4 < rows.mean() < 0.6


def test_sequences_end_one_after_the_other_in_both_directions(rng):
    """What is left of a batch is another number of rows, and is known as such."""
    s = L.data(name="s", type=T.dense_vector_sequence(3))
    both = [
        paddle.networks.simple_gru(input=s, size=8),
        paddle.networks.simple_gru(input=s, size=8, reverse=True),
    ]
    pool, _ = filled(both, rng)
    samples = packed(rng, [4, 3, 4, 3, 3], 3)
    together = inferred(both, pool, samples)
    alone = [inferred(both, pool, [sample]) for sample in samples]
    for side, found in enumerate(together):
        expected = np.concatenate([rows[side] for rows in alone])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# ---- nested


def nested():
    """A recurrence in sub-sequences that goes on from one to the next of a sample."""
    ss = L.data(name="ss", type=T.dense_vector_sub_sequence(4))

    def outer(a):
        carried = L.memory(name="last", size=3)

        def inner(b):
            m = L.memory(name="h", size=3, boot_layer=carried)
            return L.fc(input=[b, m], size=3, name="h")

        rows = L.recurrent_group(step=inner, input=a, name="in")
        return rows, L.last_seq(input=rows, name="last")

    return list(L.recurrent_group(step=outer, input=L.SubsequenceInput(ss), name="out"))


def nested_slow(values, samples):
    w0, w1, b = (values[f"_h@in@out.{end}"] for end in ("w0", "w1", "wbias"))
    rows, lasts = [], []
    for (sample,) in samples:
        carried = np.zeros(3)
        for sub in sample:
            h = carried
            for a in sub:
                h = np.tanh(np.asarray(a, np.float64) @ w0 + h @ w1 + b[0])
                rows.append(h)
            carried = h if len(sub) else np.zeros(3)  # the last row of nothing
            lasts.append(carried)
    return np.reshape(rows, (-1, 3)), np.reshape(lasts, (-1, 3))


def nested_samples(rng, lengths):
    return [([rng.standard_normal((n, 4)).tolist() for n in sample],) for sample in lengths]


def test_values_of_a_nested_group(rng):
    out = nested()
    pool, values = filled(out, rng)
    infer = inferrer(out, pool)
    for label, lengths in NESTED.items():
        samples = nested_samples(rng, lengths)
        for a, b in zip(infer(samples), nested_slow(values, samples), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=label)
    assert [len(x.levels) for x in out] == [2, 1]


def test_a_fused_group_of_empty_sub_sequences(rng):
    out = nested()
    pool, values = filled(out, rng)
    for lengths in [[0], []], [[2, 0], [1]]:
        samples = nested_samples(rng, lengths)
        with pd.fused():
            found = inferred(out, pool, samples)
        for a, b in zip(found, nested_slow(values, samples), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gradient_of_a_nested_group(rng):
    out = nested()
    pool, _ = filled(out, rng)
    assert slope_error(out, pool, nested_samples(rng, NESTED["ragged"]), rng) < 5e-3


# ---- mistakes


def sequence():
    return L.data(name="s", type=T.dense_vector_sequence(4))


def row():
    return L.data(name="x", type=T.dense_vector(4))


def mistaken_step(memory):
    def step(a):
        memory()
        return L.fc(input=a, size=2, name="y")

    L.recurrent_group(step=step, input=sequence(), name="g")


MISTAKES = [
    (lambda: L.memory(name="h", size=3), pd.GraphError, "memory: .* step of a recurrent_group"),
    (
        lambda: L.recurrent_group(step=lambda a: a, input=row(), name="g"),
        pd.GraphError,
        "'g': there is no sequence among its inputs",
    ),
    (
        lambda: L.recurrent_group(step=lambda a: 3, input=sequence(), name="g"),
        TypeError,
        "'g': a step returns layers, not 3",
    ),
    (
        lambda: L.recurrent_group(
            step=lambda a, b: b,
            input=[
                sequence(),
                L.StaticInput(L.data(name="n", type=T.dense_vector_sub_sequence(1))),
            ],
        ),
        pd.GraphError,
        "returns '__memory_0__', whose sequences are not those",
    ),
    (
        lambda: mistaken_step(lambda: L.memory(name="z", size=2)),
        pd.GraphError,
        "no layer of the step is called 'z'",
    ),
    (
        lambda: mistaken_step(lambda: L.memory(name="y", size=5)),
        pd.ShapeError,
        "is 5 wide, its layer 'y' 2",
    ),
    (
        lambda: mistaken_step(
            lambda: L.memory(
                name="y", size=1, boot_layer=L.data("n", T.dense_vector_sub_sequence(1))
            )
        ),
        pd.GraphError,
        r"boot_layer 'n' is nested",
    ),
    (
        lambda: mistaken_step(
            lambda: L.memory(name="y", size=2, boot_layer=L.data("o", T.dense_vector_sequence(2)))
        ),
        pd.GraphError,
        r"memory 'y\+delay1' holds sequences, its layer 'y' rows",
    ),
    (
        lambda: mistaken_step(
            lambda: L.memory(name="y", size=2, boot_layer=L.memory(name="y", size=2))
        ),
        pd.GraphError,
        r"boot_layer 'y\+delay1' is a layer of the step",
    ),
    (
        lambda: mistaken_step(
            lambda: L.memory(name="y", size=2, boot_bias=Param(), boot_with_const_id=1)
        ),
        pd.GraphError,
        "only one of the boot arguments",
    ),
    (lambda: L.StaticInput(3), TypeError, "input is a layer, not 3"),
    (lambda: L.StaticInput(row(), size=9), pd.ShapeError, "is 4 wide, not 9"),
]


@pytest.mark.parametrize(("act", "error", "message"), MISTAKES)
def test_mistake(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_a_layer_from_outside_is_refused_in_a_step():
    x, s = row(), sequence()
    with pytest.raises(pd.GraphError, match=r"'x' is outside group 'g'.*\n.*StaticInput"):
        L.recurrent_group(step=lambda a: L.addto(input=[a, x]), input=s, name="g")


def test_a_layer_of_a_step_is_refused_outside():
    kept = []
    L.recurrent_group(step=lambda a: kept.append(a) or L.fc(input=a, size=2), input=sequence())
    with pytest.raises(pd.GraphError, match="is inside a group"):
        L.fc(input=kept, size=2)
