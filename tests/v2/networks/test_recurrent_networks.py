"""Recurrent networks and attention: against the layers they replace, or loops in numpy."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Extra, Param
from pd_v2.topology import Topology

from ..layer.layer_checks import filled
from ..layer.test_recurrent_layers import BATCHES, feeds, gru, lstm, relu

A, L, N, T = paddle.activation, paddle.layer, paddle.networks, paddle.data_type


def sequence(width, name="x"):
    return L.data(name=name, type=T.dense_vector_sequence(width))


def rows(width, name):
    return L.data(name=name, type=T.dense_vector(width))


def inputs_of(layer):
    return [p.name for p in layer.parents]


# ---- groups of steps compute what the layer over whole sequences computes


def named(bias):
    return {"param_attr": Param(name="w"), bias: Param(name="b")}


def gru_pair(reverse, naive=False):
    x = sequence(12)
    attrs = {"act": A.Relu(), "gate_act": A.Tanh()}
    weights = {"gru_param_attr": Param(name="w"), "gru_bias_attr": Param(name="b")}
    group = N.gru_group(input=x, reverse=reverse, **attrs, **weights)
    return group, L.grumemory(input=x, reverse=reverse, **attrs, **named("bias_attr"))


def lstm_pair(reverse):
    x = sequence(16)
    attrs = {"act": A.Sigmoid(), "gate_act": A.Tanh(), "state_act": A.Relu()}
    group = N.lstmemory_group(
        input=x,
        reverse=reverse,
        param_attr=Param(name="w_group"),
        input_proj_bias_attr=Param(name="b_gates"),
        lstm_bias_attr=Param(name="b_cell"),
        **attrs,
    )
    return group, L.lstmemory(input=x, reverse=reverse, **attrs, **named("bias_attr"))


def rnn_pair(reverse):
    x = sequence(4)

    def step(frame):
        last = L.memory(name="h", size=4)
        product = L.full_matrix_projection(last, param_attr=Param(name="w"))
        parts = [L.identity_projection(frame), product]
        return L.mixed(name="h", size=4, input=parts, act=A.Tanh(), bias_attr=Param(name="b"))

    group = L.recurrent_group(step=step, input=x, reverse=reverse)
    return group, L.recurrent(input=x, reverse=reverse, **named("bias_attr"))


PAIRS = {"gru": gru_pair, "lstm": lstm_pair, "rnn": rnn_pair}


@pytest.fixture(params=[(p, r) for p in PAIRS for r in (False, True)], ids=str)
def pair(request, rng):
    """(layers, pool): a group and a layer with the same numbers in their parameters."""
    kind, reverse = request.param
    both = PAIRS[kind](reverse)
    pool, _ = filled(both, rng)
    if kind == "lstm":
        pool.set("w_group", pool.get("w").reshape(4, 16))
        bias = pool.get("b").reshape(1, -1)
        pool.set("b_gates", bias[:, :16])
        pool.set("b_cell", bias[:, 16:])
    assert both[0].reverse is reverse
    return both, pool


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
def test_groups_compute_the_layer(pair, lengths, rng):
    both, _ = pair
    fed = feeds(rng, both[1].parents[0].size, lengths)
    found, expected = pd.eval(both, fed)
    assert found.shape == (sum(lengths), 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_groups_have_the_gradient_of_the_layer(pair, rng):
    (group, layer), pool = pair
    x = layer.parents[0]
    fed = feeds(rng, x.size, [2, 0, 4])
    seed = pd.constant(rng.standard_normal((6, 4)).astype(np.float32))
    names = pool.names()
    shared = [n for n in names if n in ("w", "b")]
    of_layer = pd.gradients(layer, [x, *map(pd.get_variable, shared)], seeds=[seed])
    if "b_gates" in names:
        shared = ["w_group", "b_gates", "b_cell"]
    of_group = pd.gradients(group, [x, *map(pd.get_variable, shared)], seeds=[seed])
    found, expected = (pd.eval(g, fed, training=True) for g in (of_group, of_layer))
    if "b_gates" in names:
        found[2:] = [np.concatenate(found[2:], axis=1)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-4, atol=1e-5)


def test_the_naive_gru_is_the_gru(rng):
    x = sequence(9)
    naive, other = N.gru_group(input=x, naive=True, name="n"), N.gru_group(input=x, name="g")
    pool, _ = filled([naive, other], rng)
    group = "@n_recurrent_group"
    own = [f"_n_{part}{group}" for part in ("update", "reset", "output_candidate")]
    z, r, c = (pool.get(f"{name}.w1").reshape(3, 3) for name in own)
    flat = np.concatenate([np.concatenate([z, r], axis=1).ravel(), c.ravel()])
    pool.set("_g@g_recurrent_group.w0", flat.reshape(3, 9))
    biases = [pool.get(f"{name}.wbias").reshape(1, 3) for name in own]
    pool.set("_g@g_recurrent_group.wbias", np.concatenate(biases, axis=1))
    found, expected = pd.eval([naive, other], feeds(rng, 9, [3, 0, 1]))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_naive_gru_takes_a_layer_attribute(rng):
    half = Extra(drop_rate=0.5)
    y = N.gru_group(input=sequence(9), naive=True, gru_layer_attr=half, name="y")
    inside = L.get_layer("y@y_recurrent_group")
    assert inside.config.drop_rate == 0.5
    assert y.size == 3


def test_a_group_begins_with_its_boot_layer(rng):
    x, start = sequence(6), rows(2, "start")
    y = N.gru_group(input=x, memory_boot=start, name="y", gru_bias_attr=False)
    _, values = filled(y, rng)
    fed = {**feeds(rng, 6, [1, 0, 1]), "start": rng.standard_normal((3, 2)).astype(np.float32)}
    w = values["_y@y_recurrent_group.w0"].ravel()
    both, own = w[:8].reshape(2, 4), w[8:].reshape(2, 2)
    for row, h, found in zip(fed["x"], fed["start"][[0, 2]], pd.eval(y, fed), strict=True):
        z, r = 1 / (1 + np.exp(-(row[:4] + h @ both).reshape(2, 2)))
        expected = (1 - z) * h + z * np.tanh(row[4:] + (r * h) @ own)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_out_memory_of_an_lstm_unit(rng):
    """A memory of the caller's stands for the last result."""
    x = sequence(8)

    def step(frame):
        last = L.memory(name="halved", size=2)
        out = N.lstmemory_unit(input=frame, out_memory=last, name="unit", lstm_bias_attr=False)
        L.slope_intercept(input=out, slope=0.5, name="halved")
        return out

    y = L.recurrent_group(step=step, input=x, name="g")
    _, values = filled(y, rng)
    w = values["_unit_input_recurrent@g.w1"]
    fed = feeds(rng, 8, [3])
    expected = lstm(fed["x"].astype(np.float64), 0.5 * w)
    np.testing.assert_allclose(pd.eval(y, fed), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_over_the_sub_sequences_of_a_group(reverse, rng):
    """It runs over each sub-sequence that a step sees, as over a sequence of its own."""
    nested = L.data(name="x", type=T.dense_vector_sub_sequence(8))
    plain = sequence(8, "flat")
    weights = {"param_attr": Param(name="w"), "bias_attr": Param(name="b")}

    def step(frame):
        return ends(L.lstmemory(input=frame, reverse=reverse, **weights))

    ends = L.first_seq if reverse else L.last_seq
    grouped = L.recurrent_group(step=step, input=nested)
    alone = ends(L.lstmemory(input=plain, reverse=reverse, **weights))
    assert grouped.levels == nested.levels[:1]
    pool, _ = filled([grouped, alone], rng)
    rows = rng.standard_normal((7, 8)).astype(np.float32)
    sizes = np.array([2, 1, 3, 1])
    fed = {"x": rows, "x.lengths": np.array([3, 0, 1]), "x.sub_lengths": sizes}
    parameters = [pd.get_variable(name) for name in pool.names()]
    pairs = ((grouped, fed), (alone, {"flat": rows, "flat.lengths": sizes}))
    found, expected = (
        pd.eval([y, *pd.gradients(pd.reduce_sum(y), parameters)], given) for y, given in pairs
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


# ---- a projection and a layer


@pytest.mark.parametrize("lengths", [[2, 0, 3], [1]], ids=str)
def test_simple_networks(lengths, rng):
    x = sequence(3)
    made = {
        "lstm": N.simple_lstm(input=x, size=2, name="lstm", act=A.Relu()),
        "gru2": N.simple_gru2(input=x, size=2, name="gru2", reverse=True, mixed_bias_attr=True),
        "gru": N.simple_gru(input=x, size=2, name="gru", mixed_bias_param_attr=False),
    }
    _, values = filled(list(made.values()), rng)
    fed = feeds(rng, 3, lengths)
    parts = np.split(fed["x"].astype(np.float64), np.cumsum(lengths)[:-1])
    cell = [values[f"_gru@gru_recurrent_group.{k}"] for k in ("w0", "wbias")]
    own = {name: [values[f"_{name}.{k}"] for k in ("w0", "wbias")] for name in ("lstm", "gru2")}

    def turned(part):
        projected = part @ values["_gru2_transform.w0"] + values["_gru2_transform.wbias"]
        return gru(projected[::-1], *own["gru2"])[::-1]

    formulas = {
        "lstm": lambda p: lstm(p @ values["_lstm_transform_lstm.w0"], *own["lstm"], act=relu),
        "gru2": turned,
        "gru": lambda p: gru(p @ values["_gru_transform.w0"], *cell),
    }
    for name, found in zip(made, pd.eval(list(made.values()), fed), strict=True):
        expected = np.array([row for part in parts for row in formulas[name](part)])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("network", [N.bidirectional_lstm, N.bidirectional_gru])
def test_both_directions(network, rng):
    x = sequence(3)
    every = network(input=x, size=2, name="y", return_seq=True)
    forward, backward = (L.get_layer(f"y_{way}") for way in ("fw", "bw"))
    assert [forward.reverse, backward.reverse, every.reverse] == [False, True, None]
    assert every.levels == x.levels and every.size == 4
    filled(every, rng)
    found, *both = pd.eval([every, forward, backward], feeds(rng, 3, [2, 1]))
    np.testing.assert_array_equal(found, np.concatenate(both, axis=1))


@pytest.mark.parametrize("network", [N.bidirectional_lstm, N.bidirectional_gru])
def test_the_ends_of_both_directions(network, rng):
    y = network(input=sequence(3), size=2, name="y", concat_act=A.Square())
    assert y.levels == () and inputs_of(y) == ["y_fw_last", "y_bw_last"]
    filled(y, rng)
    ways = [L.get_layer(f"y_{way}") for way in ("fw", "bw")]
    found, forward, backward = pd.eval([y, *ways], feeds(rng, 3, [2, 0, 3]))
    ends = np.concatenate([forward[[1, 4]], backward[[0, 2]]], axis=1)
    np.testing.assert_allclose(found[[0, 2]], ends**2, rtol=1e-6)
    assert (found[1] == 0).all()


def test_attributes_reach_each_direction():
    half = Extra(drop_rate=0.5)
    y = N.bidirectional_gru(
        input=sequence(3),
        size=2,
        name="y",
        fwd_mixed_param_attr=Param(name="fm"),
        bwd_mixed_param_attr=Param(name="bm"),
        fwd_gru_param_attr=Param(name="fg"),
        bwd_gru_param_attr=Param(name="bg"),
        fwd_gru_bias_attr=False,
        bwd_gru_bias_attr=Param(name="bb"),
        fwd_mixed_bias_attr=Param(name="fb"),
        fwd_act=A.Relu(),
        bwd_gate_act=A.Tanh(),
        concat_attr=half,
    )
    assert paddle.parameters.create(y).names() == ["fm", "fb", "fg", "bm", "bg", "bb"]
    forward, backward = (L.get_layer(f"y_{way}").config for way in ("fw", "bw"))
    assert (forward.active_type, backward.active_type) == ("relu", "tanh")
    assert (forward.active_gate_type, backward.active_gate_type) == ("sigmoid", "tanh")
    assert y.config.drop_rate == 0.5


# ---- attention


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def split(x, lengths):
    return np.split(x, np.cumsum(lengths)[:-1])


def attention_row():
    encoded, state = sequence(3), rows(4, "state")
    proj = L.mixed(size=2, input=L.full_matrix_projection(encoded), name="proj")
    y = N.simple_attention(
        encoded_sequence=encoded, encoded_proj=proj, decoder_state=state, name="y"
    )

    def one(part, state, v):
        combined = np.tanh(part @ v["_proj.w0"] + state @ v["_y_transform.w0"])
        return softmax((combined @ v["_y_softmax.w0"])[:, 0]) @ part

    return y, one


def dot_product_row():
    encoded, state = sequence(4), rows(4, "state")
    attended = L.mixed(size=2, input=L.full_matrix_projection(encoded), name="values")
    y = N.dot_product_attention(
        encoded_sequence=encoded, attended_sequence=attended, transformed_state=state, name="y"
    )

    def one(part, state, v):
        return softmax(part @ state * v["_y_softmax.w0"][0, 0]) @ (part @ v["_values.w0"])

    return y, one


def multi_head_row(kind):
    encoded, state = sequence(3), rows(4, "state")
    sizes = {"key_proj_size": 2, "value_proj_size": 3, "head_num": 2}
    y = N.multi_head_attention(
        query=state, key=encoded, value=encoded, attention_type=kind, name="y", **sizes
    )

    def one(part, state, v):
        q, k, x = (
            state @ v["_y_query_proj.w0"],
            part @ v["_y_key_proj.w0"],
            part @ v["_y_value_proj.w0"],
        )
        heads = []
        for head in range(2):
            at = slice(2 * head, 2 * head + 2)
            w = v[f"_y_softmax_{head}.w0"]
            if kind.startswith("dot"):
                scores = (k[:, at] @ q[at] / np.sqrt(2)) * w[0, 0]
            else:
                scores = (np.tanh(q[at] + k[:, at]) @ w)[:, 0]
            heads.append(softmax(scores) @ x[:, 3 * head : 3 * head + 3])
        return np.concatenate(heads)

    return y, one


ATTENTIONS = {
    "simple": attention_row,
    "dot-product": dot_product_row,
    "multi-head-dot-product": lambda: multi_head_row("dot-product attention"),
    "multi-head-additive": lambda: multi_head_row("additive attention"),
}


def attention_feeds(rng, y, lengths):
    width = L.get_layer("x").size
    state = rng.standard_normal((len(lengths), 4)).astype(np.float32)
    return {**feeds(rng, width, lengths), "state": state}


def attended(one, x, state, lengths, values, size):
    """A row for each sequence; zeros for an empty one."""
    zero = np.zeros(size)
    parts = split(x, lengths) if lengths else []
    pairs = zip(parts, state, strict=True)
    return np.array([one(p, s, values) if len(p) else zero for p, s in pairs]).reshape(-1, size)


@pytest.mark.parametrize("build", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attention(build, rng):
    y, one = build()
    _, values = filled(y, rng)
    for label, lengths in BATCHES.items():
        fed = attention_feeds(rng, y, lengths)
        expected = attended(one, fed["x"], fed["state"], lengths, values, y.size)
        np.testing.assert_allclose(pd.eval(y, fed), expected, 2e-5, 2e-6, err_msg=label)


@pytest.mark.parametrize("build", ATTENTIONS.values(), ids=ATTENTIONS)
def test_gradient_of_attention(build, rng):
    y, one = build()
    pool, values = filled(y, rng)
    lengths = [3, 0, 1]
    fed = attention_feeds(rng, y, lengths)
    wanted = {name: pd.get_variable(name) for name in pool.names()}
    wanted |= {name: L.get_layer(name) for name in ("x", "state")}
    known = {**values, **{k: fed[k].astype(np.float64) for k in ("x", "state")}}
    ways = {name: rng.standard_normal(known[name].shape) for name in wanted}
    seed = rng.standard_normal((3, y.size)).astype(np.float32)

    def projected(step):
        moved = {name: known[name] + step * ways[name] for name in wanted}
        x, state = moved.pop("x"), moved.pop("state")
        return np.sum(attended(one, x, state, lengths, moved, y.size) * seed)

    found = pd.gradients(y, list(wanted.values()), seeds=[pd.constant(seed)])
    arrays = pd.eval(found, fed, training=True)
    slope = sum(np.sum(g * way) for g, way in zip(arrays, ways.values(), strict=True))
    expected = (projected(1e-6) - projected(-1e-6)) / 2e-6
    np.testing.assert_allclose(slope, expected, rtol=5e-4, atol=1e-5)


@pytest.mark.parametrize("build", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attention_exports(build, rng, tmp_path):
    y, _ = build()
    pool, _ = filled(y, rng)
    path = str(tmp_path / "y.onnx")
    Topology(y).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for lengths in BATCHES.values():
        fed = attention_feeds(rng, y, lengths)
        (found,) = session.run([y.name], fed)
        np.testing.assert_allclose(found, pd.eval(y, fed), rtol=1e-5, atol=1e-6)


def test_a_decoder_with_attention(rng):
    """A GRU that looks at a whole encoded sequence in every step, as translation does."""
    encoded, target = sequence(3), sequence(2, "target")
    proj = L.mixed(size=2, input=L.full_matrix_projection(encoded), name="proj")

    def step(sequences, projections, word):
        state = L.memory(name="h", size=2)
        context = N.simple_attention(
            encoded_sequence=sequences, encoded_proj=projections, decoder_state=state, name="att"
        )
        x = L.fc(input=[context, word], size=6, act=A.Linear(), bias_attr=False, name="in")
        return L.gru_step(input=x, output_mem=state, name="h", bias_attr=False)

    inputs = [L.StaticInput(encoded), L.StaticInput(proj), target]
    y = L.recurrent_group(step=step, input=inputs, name="g")
    _, values = filled(y, rng)
    v = {name.replace("@g", ""): value for name, value in values.items()}
    sizes, steps = [3, 1, 2], [2, 3, 0]
    fed = feeds(rng, 3, sizes)
    fed["target"] = rng.standard_normal((sum(steps), 2)).astype(np.float32)
    fed["target.lengths"] = np.array(steps)
    flat = v["_h.w0"].ravel()
    both, own = flat[:8].reshape(2, 4), flat[8:].reshape(2, 2)
    expected = []
    for part, words in zip(split(fed["x"], sizes), split(fed["target"], steps), strict=True):
        h = np.zeros(2)
        for word in words:
            mixed = np.tanh(part @ v["_proj.w0"] + h @ v["_att_transform.w0"])
            context = softmax((mixed @ v["_att_softmax.w0"])[:, 0]) @ part
            x = context @ v["_in.w0"] + word @ v["_in.w1"]
            z, r = 1 / (1 + np.exp(-(x[:4] + h @ both).reshape(2, 2)))
            h = (1 - z) * h + z * np.tanh(x[4:] + (r * h) @ own)
            expected.append(h)
    np.testing.assert_allclose(pd.eval(y, fed), expected, rtol=2e-5, atol=2e-6)


def test_an_unknown_attention_is_refused():
    x = sequence(3)
    with pytest.raises(ValueError, match="attention_type is dot-product attention or additive"):
        N.multi_head_attention(
            query=x,
            key=x,
            value=x,
            key_proj_size=2,
            value_proj_size=2,
            head_num=1,
            attention_type="dot",
        )
