"""Recurrent layers against loops in numpy, a sequence at a time, and single steps in a group."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Extra, Param
from pd_v2.topology import Topology

from .layer_checks import filled

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -40, 13)))


def relu(x):
    return np.maximum(x, 0)


# ---- one sequence [T, ...] at a time; the state begins as zeros


def lstm(x, w, bias=None, act=np.tanh, gate=sigmoid, state=np.tanh):
    n = x.shape[1] // 4
    w, bias = w.reshape(n, 4 * n), np.zeros(7 * n) if bias is None else bias.reshape(-1)
    see_i, see_f, see_o = bias[4 * n :].reshape(3, n)
    h, c, out = np.zeros(n), np.zeros(n), []
    for row in x:
        g, i, f, o = (row + h @ w + bias[: 4 * n]).reshape(4, n)
        i, f = gate(i + c * see_i), gate(f + c * see_f)
        c = act(g) * i + c * f
        h = gate(o + c * see_o) * state(c)
        out.append(h)
    return out


def gru(x, w, bias=None, act=np.tanh, gate=sigmoid):
    n = x.shape[1] // 3
    both, own = w.reshape(-1)[: 2 * n * n].reshape(n, 2 * n), w.reshape(-1)[2 * n * n :]
    h, out = np.zeros(n), []
    for row in x if bias is None else x + bias.reshape(-1):
        z, r = gate(row[: 2 * n] + h @ both).reshape(2, n)
        h = (1 - z) * h + z * act(row[2 * n :] + (r * h) @ own.reshape(n, n))
        out.append(h)
    return out


def rnn(x, w, bias=None, act=np.tanh):
    h, out = np.zeros(x.shape[1]), []
    for row in x if bias is None else x + bias.reshape(-1):
        h = act(row + h @ w)
        out.append(h)
    return out


def backwards(one):
    return lambda x, *more: one(x[::-1], *more)[::-1]


# ---- the table


@dataclass(frozen=True)
class Row:
    """`build(x)` is the layer 'y' of a sequence `width` wide, `one(x, w0[, wbias])` its formula."""

    name: str
    width: int
    build: Callable
    one: Callable

    def layers(self, nested=False):
        kind = T.dense_vector_sub_sequence if nested else T.dense_vector_sequence
        x = L.data(name="x", type=kind(self.width))
        return self.build(x), x

    def formula(self, x, lengths, values):
        """The rows of all sequences."""
        weights = [values[k] for k in ("_y.w0", "_y.wbias") if k in values]
        parts = np.split(x, np.cumsum(lengths)[:-1]) if len(lengths) else []
        out = [row for part in parts for row in self.one(part, *weights)]
        return np.array(out)


ROWS = [
    Row("lstmemory", 12, lambda x: L.lstmemory(input=x, name="y"), lstm),
    Row(
        "lstmemory-reverse",
        12,
        lambda x: L.lstmemory(input=x, size=3, name="y", reverse=True),
        backwards(lstm),
    ),
    Row(
        "lstmemory-activations",
        8,
        lambda x: L.lstmemory(
            input=x, name="y", act=A.Relu(), gate_act=A.Tanh(), state_act=A.Sigmoid()
        ),
        lambda x, *v: lstm(x, *v, act=relu, gate=np.tanh, state=sigmoid),
    ),
    Row(
        "lstmemory-without-bias",
        8,
        lambda x: L.lstmemory(input=x, name="y", bias_attr=False),
        lstm,
    ),
    Row(
        "lstmemory-unbounded",
        8,
        lambda x: L.lstmemory(input=x, name="y", gate_act=A.Relu(), reverse=True),
        backwards(lambda x, *v: lstm(x, *v, gate=relu)),
    ),
    Row("grumemory", 9, lambda x: L.grumemory(input=x, name="y"), gru),
    Row(
        "grumemory-reverse",
        9,
        lambda x: L.grumemory(input=x, name="y", reverse=True, act=A.Sigmoid(), gate_act=A.Tanh()),
        backwards(lambda x, *v: gru(x, *v, act=sigmoid, gate=np.tanh)),
    ),
    Row(
        "grumemory-without-bias",
        6,
        lambda x: L.grumemory(input=x, size=2, name="y", bias_attr=False),
        gru,
    ),
    Row(
        "grumemory-unbounded",
        6,
        lambda x: L.grumemory(input=x, name="y", act=A.Relu()),
        lambda x, *v: gru(x, *v, act=relu),
    ),
    Row("recurrent", 3, lambda x: L.recurrent(input=x, name="y"), rnn),
    Row(
        "recurrent-reverse",
        3,
        lambda x: L.recurrent(input=x, name="y", reverse=True, act=A.Softmax()),
        backwards(lambda x, *v: rnn(x, *v, act=lambda z: np.exp(z) / np.exp(z).sum())),
    ),
    Row(
        "recurrent-unbounded",
        3,
        lambda x: L.recurrent(input=x, name="y", act=A.Relu(), bias_attr=False),
        lambda x, *v: rnn(x, *v, act=relu),
    ),
]
BATCHES = {
    "no-sequence": [],
    "empty-sequences": [0, 0],
    "one-empty": [2, 0, 3],
    "length-one": [1, 1],
    "one-sequence": [4],
    "equal": [3, 3],
    "ragged": [1, 4, 2],
}
NESTED = [[2, 0, 1], [], [3]]  # rows of the sub-sequences of each sample


def feeds(rng, width, lengths):
    x = rng.standard_normal((sum(lengths), width)).astype(np.float32)
    return {"x": x, "x.lengths": np.array(lengths, np.int64)}


def nested_feeds(rng, width):
    inner = [n for sample in NESTED for n in sample]
    fed = feeds(rng, width, [len(sample) for sample in NESTED])
    fed["x"] = rng.standard_normal((sum(inner), width)).astype(np.float32)
    return {**fed, "x.sub_lengths": np.array(inner, np.int64)}


class TestRows:
    """Each row: values, here and exported, gradients, and nested input."""

    rows = ROWS

    def test_values(self, row, rng, tmp_path):
        y, _ = row.layers()
        pool, values = filled(y, rng)
        path = str(tmp_path / "y.onnx")
        Topology(y).export_onnx(path, pool)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for label, lengths in BATCHES.items():
            fed = feeds(rng, row.width, lengths)
            expected = row.formula(fed["x"].astype(np.float64), lengths, values)
            found = pd.eval(y, fed)
            assert found.shape == (sum(lengths), y.size), label
            if len(found):
                np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=label)
            (exported,) = session.run(["y"], fed)
            np.testing.assert_allclose(exported, found, rtol=1e-5, atol=1e-6, err_msg=label)

    def test_nested_sequences_run_through(self, row, rng):
        y, x = row.layers(nested=True)
        assert y.levels == x.levels
        _, values = filled(y, rng)
        fed = nested_feeds(rng, row.width)
        lengths = [sum(sample) for sample in NESTED]
        expected = row.formula(fed["x"].astype(np.float64), lengths, values)
        np.testing.assert_allclose(pd.eval(y, fed), expected, rtol=2e-5, atol=2e-6)

    def test_gradient(self, row, rng):
        """Along a random way; of nothing it is zero."""
        y, x = row.layers()
        pool, values = filled(y, rng)
        wanted = {"x": x, **{name: pd.get_variable(name) for name in pool.names()}}
        above = pd.Variable([None, y.size])
        slopes = pd.gradients(y, list(wanted.values()), seeds=[above])
        for lengths in ([1, 4, 0, 2], [3, 3], [1], [], [0]):
            fed = feeds(rng, row.width, lengths)
            known = {**values, "x": fed["x"].astype(np.float64)}
            seed = rng.standard_normal((sum(lengths), y.size)).astype(np.float32)
            arrays = pd.eval(slopes, {**fed, above: seed}, training=True)
            if not sum(lengths):
                assert not any(map(np.any, arrays)), lengths
                continue
            ways = {name: rng.standard_normal(known[name].shape) for name in wanted}
            found = sum(
                np.sum(g.reshape(way.shape) * way)
                for g, way in zip(arrays, ways.values(), strict=True)
            )

            def projected(step, known=known, ways=ways, lengths=lengths, seed=seed):
                moved = {name: known[name] + step * ways[name] for name in wanted}
                return np.sum(row.formula(moved.pop("x"), lengths, moved) * seed)

            expected = (projected(1e-6) - projected(-1e-6)) / 2e-6
            np.testing.assert_allclose(found, expected, 5e-4, 1e-4, err_msg=str(lengths))


def test_ended_sequences_do_not_overflow(rng):
    """A state that grows by a factor each step stays out of what belongs to other sequences."""
    x = L.data(name="x", type=T.dense_vector_sequence(1))
    y = L.recurrent(input=x, name="y", act=A.Relu(), bias_attr=False)
    pool, _ = filled(y, rng)
    pool.set("_y.w0", np.full((1, 1), 4.0, np.float32))
    w = pd.get_variable("_y.w0")
    fed = {"x": np.ones((91, 1), np.float32), "x.lengths": np.array([1, 90])}
    fed["x"][1:] = -1.0
    (g,) = pd.gradients(pd.reduce_sum(y), [w])
    value, slope = pd.eval([y, g], fed, training=True)
    assert value.sum() == 1 and slope == 0


# ---- dropout; LstmLayer.cpp applied it to the whole result, GatedRecurrentLayer.cpp did not


def plain_and_dropped(function, width, rate):
    """Two layers of the same parameters, the second with a drop rate, and the rows of x."""
    x = L.data(name="x", type=T.dense_vector_sequence(width))
    shared = {"param_attr": Param(name="w"), "bias_attr": Param(name="b")}
    return [function(x, layer_attr=e, **shared) for e in (None, Extra(drop_rate=rate))]


def test_the_result_of_an_lstm_is_dropped_and_not_its_state(rng):
    layers = plain_and_dropped(L.lstmemory, 8, 0.25)
    assert layers[1].config.drop_rate == 0.25
    filled(layers, rng)
    fed = feeds(rng, 8, [30, 10])
    whole, scaled = pd.eval(layers, fed)
    np.testing.assert_allclose(scaled, 0.75 * whole, rtol=1e-6)
    whole, masked = pd.eval(layers, fed, training=True)
    np.testing.assert_array_equal(masked, np.where(masked == 0, 0, whole))
    assert 0.5 < (masked != 0).mean() < 0.95


@pytest.mark.parametrize("training", [False, True])
def test_a_gru_records_a_rate_that_has_no_effect(training, rng):
    layers = plain_and_dropped(L.grumemory, 9, 0.5)
    assert layers[1].config.drop_rate == 0.5
    filled(layers, rng)
    np.testing.assert_array_equal(*pd.eval(layers, feeds(rng, 9, [3, 2]), training=training))


def test_an_option_marked_by_another_layer_has_no_effect(rng):
    x = L.data(name="x", type=T.dense_vector_sequence(3))
    extra = Extra(drop_rate=0.5, error_clipping_threshold=1e-3)
    L.fc(x, size=3, layer_attr=extra)
    shared = {"param_attr": Param(name="w"), "bias_attr": False}
    plain, marked = (L.recurrent(x, layer_attr=e, **shared) for e in (None, extra))
    filled([plain, marked], rng)
    slopes = [pd.gradients(pd.reduce_sum(y), [x])[0] for y in (plain, marked)]
    fed = feeds(rng, 3, [3, 2])
    for pair in ([plain, marked], slopes):
        np.testing.assert_array_equal(*pd.eval(pair, fed, training=True))


# ---- what they record


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("function", [L.lstmemory, L.grumemory, L.recurrent])
def test_direction_is_recorded(function, reverse):
    y = function(L.data(name="x", type=T.dense_vector_sequence(12)), reverse=reverse)
    assert y.reverse is y.config.reversed is reverse


def test_the_gru_weight_lies_block_after_block(rng):
    x = L.data(name="x", type=T.dense_vector_sequence(6))
    pool = paddle.parameters.create(L.grumemory(input=x, name="y"))
    assert pool.get_shape("_y.w0") == (2, 6)
    assert pool.__param_conf__["_y.w0"].initial_std == pytest.approx(2**-0.5)


def test_recurrent_layers_share_by_name(rng):
    x = L.data(name="x", type=T.dense_vector_sequence(12))
    both = [L.lstmemory(input=x, param_attr=Param(name="w"), bias_attr=False) for _ in range(2)]
    assert paddle.parameters.create(both).names() == ["w"]
    first, second = pd.eval(both, feeds(rng, 12, [2, 3]))
    np.testing.assert_array_equal(first, second)


# ---- errors


def sequence(width):
    return L.data(name="x", type=T.dense_vector_sequence(width))


@pytest.mark.parametrize(
    ("build_layer", "error", "message"),
    [
        (lambda: L.lstmemory(sequence(10)), pd.ShapeError, "'x' is 10 wide, not 4 times a size"),
        (lambda: L.lstmemory(sequence(8), size=3), pd.ShapeError, "'x' is 8 wide, not 4 x 3"),
        (lambda: L.grumemory(sequence(10)), pd.ShapeError, "'x' is 10 wide, not 3 times a size"),
        (lambda: L.grumemory(sequence(9), size=4), pd.ShapeError, "'x' is 9 wide, not 3 x 4"),
        (
            lambda: L.lstmemory(L.data(name="x", type=T.dense_vector(8))),
            pd.GraphError,
            "lstmemory layer '__lstmemory_0__', inputs .*'x' is no sequence",
        ),
        (
            lambda: L.lstmemory(sequence(8), state_act=A.Softmax()),
            pd.GraphError,
            r"a cell's activation is Tanh\(\), Sigmoid\(\) or Relu\(\), not softmax",
        ),
        (
            lambda: L.grumemory(sequence(9), act=A.Exp()),
            pd.GraphError,
            r"a cell's activation is Tanh\(\), Sigmoid\(\) or Relu\(\), not exponential",
        ),
        (
            lambda: L.grumemory(sequence(9), gate_act="tanh"),
            pd.GraphError,
            "a cell's activation is .*, not 'tanh'",
        ),
        (
            lambda: L.recurrent(sequence(9), layer_attr=Extra(drop_rate=0.5)),
            NotImplementedError,
            "does not support drop_rate",
        ),
        (
            lambda: L.get_output(sequence(9), arg_name="state"),
            pd.GraphError,
            "'x' has no output 'state', only 'default'",
        ),
        (
            lambda: L.gru_step(sequence(9), L.data(name="m", type=T.dense_vector(4))),
            pd.ShapeError,
            "the state 'm' is 4 wide, the layer 3",
        ),
        (
            lambda: L.lstm_step(sequence(8), L.data(name="m", type=T.dense_vector(4))),
            pd.ShapeError,
            "'x' is 8 wide, not 4 x 4",
        ),
        (
            lambda: L.gru_step_naive(
                sequence(9), L.data(name="m", type=T.dense_vector(3)), param_attr=Param(name="w")
            ),
            pd.GraphError,
            "one named parameter cannot serve thrice",
        ),
        (lambda: L.gru_step_naive(3, 4), TypeError, "the input is a layer, not 3"),
    ],
)
def test_errors(build_layer, error, message):
    with pytest.raises(error, match=message):
        build_layer()
