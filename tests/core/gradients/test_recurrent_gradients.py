"""RNN, GRU and LSTM: their expressions against ONNX Runtime, their gradients against slopes."""

import io
import json
import warnings
from collections import Counter

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.graph.errors import NoGradient
from pd_core.graph.node import ancestors
from tests.thinned import in_turn, thinned, words

from ..ops.case import fixed, normal
from .operator import (
    all_of_the_first,
    by_expression,
    by_runtime,
    compared,
    feeds_of,
    gradients,
    inputs_of,
    node_of,
    row,
    slopes,
)

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
STEPS, BATCH, INPUTS, WIDTH = 3, 3, 2, 2
LENGTHS = fixed([3, 1, 2], "int32")
TORCH = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}  # where torch keeps ONNX's gates


def layer(op_type, *, bias=True, lengths=None, state=True, peepholes=False, **attributes):
    """Return a row that reads every output, with the optional inputs that are given."""
    count, gates = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[op_type]
    states = STATES[op_type]
    first, initial = (STEPS, BATCH), (count, BATCH, WIDTH)
    if attributes.get("layout"):
        first, initial = (BATCH, STEPS), (BATCH, count, WIDTH)
    samples = [
        normal(*first, INPUTS),
        normal(count, gates * WIDTH, INPUTS),
        normal(count, gates * WIDTH, WIDTH),
        normal(count, 2 * gates * WIDTH) if bias else None,
        lengths,
        *[normal(*initial) if state else None] * states,
    ]
    if peepholes:
        samples.append(normal(count, 3 * WIDTH))
    label = ",".join(
        name
        for name, there in (
            ("bias", bias),
            ("lengths", lengths),
            ("state", state),
            ("peepholes", peepholes),
        )
        if there
    )
    kept = range(states + 1)
    return row(op_type, samples, kept=kept, label=label, hidden_size=WIDTH, **attributes)


def each(**options):
    return [layer(op_type, **options) for op_type in GATES]


def activated(op_type, names, **options):
    names = (names * 3)[: {"RNN": 1, "GRU": 2, "LSTM": 3}[op_type]]
    return layer(op_type, activations=names, **options)


ROWS = [
    *each(bias=False, state=False),
    *each(lengths=LENGTHS),
    *each(direction="reverse", lengths=LENGTHS),
    *each(direction="bidirectional", lengths=LENGTHS),
    *each(clip=0.5),
    layer("GRU", linear_before_reset=1),
    layer("GRU", linear_before_reset=1, bias=False, direction="bidirectional"),
    layer("LSTM", peepholes=True),
    layer("LSTM", peepholes=True, direction="bidirectional", lengths=LENGTHS),
    layer("LSTM", input_forget=1, peepholes=True),
    activated("RNN", ["Relu"]),
    activated("RNN", ["ThresholdedRelu"], activation_alpha=[0.2]),
    activated("RNN", ["ThresholdedRelu"]),
    activated("RNN", ["Elu"], activation_alpha=[0.5]),
    activated("RNN", ["Softsign"]),
    activated("RNN", ["Affine"], activation_alpha=[0.5], activation_beta=[0.2]),
    layer(
        "RNN",
        direction="bidirectional",
        activations=["LeakyRelu", "ScaledTanh"],
        activation_alpha=[0.3, 0.8],
        activation_beta=[0.5],
    ),
    activated("GRU", ["HardSigmoid", "Softplus"]),
    activated("GRU", ["Tanh", "LeakyRelu"], activation_alpha=[0.3]),
    activated(
        "LSTM",
        ["ScaledTanh", "LeakyRelu", "HardSigmoid"],
        activation_alpha=[0.5, 0.3, 0.4],
        activation_beta=[0.7, 0.6],
    ),
]
BATCH_FIRST = each(layout=1, lengths=LENGTHS, direction="bidirectional")


@pytest.mark.parametrize("row, unknown", in_turn(ROWS, [None, all_of_the_first]), ids=words)
def test_the_expression_is_what_onnx_runtime_computes(row, unknown):
    arrays = row.arrays()
    announced, found = by_expression(row, arrays, unknown)
    for y, got, wanted in zip(announced, found, by_runtime(row, arrays), strict=True):
        assert len(y.dims) == wanted.ndim
        assert all(d in (None, n) for d, n in zip(y.shape, wanted.shape, strict=True))
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_reference_is_what_onnx_runtime_computes(row):
    arrays = row.arrays()
    inputs = inputs_of(arrays)
    node = node_of(row, inputs)
    found = pd.Session("reference").eval(list(node.outputs), feeds_of(inputs, arrays))
    for got, wanted in zip(found, by_runtime(row, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row", BATCH_FIRST, ids=str)
def test_batch_first_is_the_other_layout_turned(row):
    turned = layer(row.op_type, lengths=LENGTHS, direction="bidirectional")
    arrays = row.arrays()
    _, found = by_expression(row, arrays)
    swapped = [a.swapaxes(0, 1) if k in (0, 5, 6) else a for k, a in enumerate(arrays)]
    y, *states = by_runtime(turned, [np.ascontiguousarray(a) for a in swapped])
    wanted = [y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in states)]
    for got, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row", thinned(ROWS + BATCH_FIRST, 2), ids=str)
def test_gradients_are_slopes(row):
    for numeric, analytic in slopes(row):
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("row", thinned([*ROWS[:6], *ROWS[12:15:2], *BATCH_FIRST], 2), ids=str)
def test_gradients_on_cpu_with_unknown_sizes(row):
    exact = gradients(row, "float64", pd.Session("reference"))
    found = gradients(row, "float32", pd.Session(), all_of_the_first)
    for got, wanted in zip(found, exact, strict=True):
        scale = max(1.0, np.abs(wanted).max(initial=0.0))
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * scale)


# ---- as part of a graph


def torch_layer(kind, width, rng):
    """Return a torch layer of random weights, and these weights as ONNX's W, R and B."""
    torch = pytest.importorskip("torch")
    net = getattr(torch.nn, kind)(INPUTS, width, bidirectional=True)
    stacked = {}
    for key, parts in {"W": ["weight_ih"], "R": ["weight_hh"], "B": ["bias_ih", "bias_hh"]}.items():
        stacked[key] = np.stack(
            [
                np.concatenate(
                    [_reordered(net, f"{part}_l0{suffix}", TORCH[kind], rng) for part in parts]
                )
                for suffix in ("", "_reverse")
            ]
        )
    return net, stacked


def _reordered(net, name, order, rng):
    """A weight of the layer, drawn anew, with its gates in ONNX's order."""
    weight = getattr(net, name)
    drawn = rng.standard_normal(tuple(weight.shape)).astype("float32")
    weight.data = type(weight.data)(drawn)
    gates = np.split(drawn, len(order))
    return np.concatenate([gates[k] for k in order])


@pytest.mark.parametrize("kind", GATES)
def test_gradients_of_a_packed_layer_are_those_of_torch(kind, rng):
    torch = pytest.importorskip("torch")
    net, weights = torch_layer(kind, 4, rng)
    x = rng.standard_normal((5, 3, INPUTS)).astype("float32")
    lengths, towards = [5, 3, 1], rng.standard_normal((5, 3, 8)).astype("float32")
    tensor = torch.tensor(x, requires_grad=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(tensor, lengths)
    output, state = net(packed)
    every, _ = torch.nn.utils.rnn.pad_packed_sequence(output)
    last = state[0] if kind == "LSTM" else state
    cost = (every * torch.tensor(towards)).sum() + (last**2).sum()
    cost.backward()

    feed = pd.Variable([None, None, INPUTS])
    W, R, B = (pd.Variable(key, data=weights[key]) for key in "WRB")
    y, h = pd.apply(
        kind,
        *(feed, W, R, B, np.int32(lengths)),
        outputs=2,
        hidden_size=4,
        direction="bidirectional",
        linear_before_reset=1 if kind == "GRU" else None,
    )
    rows = pd.reshape(pd.transpose(y, [0, 2, 1, 3]), [0, 0, 8])
    total = pd.reduce_sum(rows * towards) + pd.reduce_sum(pd.square(h))
    value, *found = pd.eval([total, *pd.gradients(total, [feed, W, R, B])], {feed: x})
    assert value == pytest.approx(cost.item(), rel=1e-5)
    np.testing.assert_allclose(found[0], tensor.grad.numpy(), rtol=1e-4, atol=1e-5)
    order = TORCH[kind]
    for got, names in zip(
        found[1:], (["weight_ih"], ["weight_hh"], ["bias_ih", "bias_hh"]), strict=True
    ):
        for direction, suffix in enumerate(("", "_reverse")):
            grads = [getattr(net, f"{name}_l0{suffix}").grad.numpy() for name in names]
            wanted = [np.split(g, len(order))[k] for g in grads for k in order]
            np.testing.assert_allclose(got[direction], np.concatenate(wanted), rtol=1e-4, atol=1e-4)


def weights_of(op_type, dtype="float32"):
    shapes = [(1, GATES[op_type] * WIDTH, n) for n in (INPUTS, WIDTH)]
    return [pd.Variable(shape=shape, dtype=dtype) for shape in shapes]


def exported(net, tokens):
    """The bytes of a torch model of tokens [B, T], written by torch's exporter."""
    torch = pytest.importorskip("torch")
    file, free = io.BytesIO(), {"tokens": {0: "batch", 1: "steps"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the older of its two exporters
        torch.onnx.export(
            net,
            (tokens,),
            file,
            dynamo=False,
            opset_version=17,
            input_names=["tokens"],
            dynamic_axes=free,
        )
    return file.getvalue()


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_a_classifier_of_torch_learns_as_it_does_there(kind, rng):
    """20 steps of SGD on all weights of an imported file, compared with torch."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(11, 6)
            self.layer = getattr(torch.nn, kind)(6, 5, batch_first=True, bidirectional=True)
            self.head = torch.nn.Linear(10, 3)

        def forward(self, tokens):
            return self.head(self.layer(self.embedding(tokens))[0]).mean(1)

    net = Classifier()
    model = pd.import_onnx(exported(net, torch.zeros(2, 7, dtype=torch.int64)))
    tokens, labels = pd.Variable([None, None], dtype="int64"), pd.Variable([None], dtype="int64")
    loss = pd.reduce_mean(pd.softmax_cross_entropy(model(tokens), labels))
    step, there = pd.SGDOptimizer(0.5).minimize(loss), torch.optim.SGD(net.parameters(), 0.5)
    for k in range(20):
        batch, classes = rng.integers(0, 11, (4, 5 + k % 3)), rng.integers(0, 3, 4)
        _, here = pd.eval([step, loss], {tokens: batch, labels: classes})
        cost = torch.nn.functional.cross_entropy(net(torch.tensor(batch)), torch.tensor(classes))
        there.zero_grad()
        cost.backward()
        there.step()
        assert here == pytest.approx(cost.item(), rel=1e-4)


@pytest.mark.parametrize("op_type", GATES)
def test_loops_multiply_by_recurrent_weights_only(op_type):
    x = pd.Variable([None, None, INPUTS])
    W, R = weights_of(op_type)
    y = pd.apply(op_type, x, W, R, hidden_size=WIDTH)
    found = pd.gradients(pd.reduce_sum(pd.square(y)), [x, W, R])
    order = ancestors(program.build(found, [], [x], False, {}).outputs)
    loops = [node for node in order if node.op_type == "Scan"]
    bodies = [ancestors(b.outputs, stop=set(b.inputs)) for n in loops for b in n.blocks.values()]
    assert len(loops) == 2  # forward and back
    recurrent = 2 if op_type == "GRU" else 1  # the new state of a GRU has a product of its own
    for body in bodies:
        assert Counter(node.op_type for node in body)["MatMul"] == recurrent
    outside = Counter(node.op_type for node in order)
    assert outside["MatMul"] == 3 + recurrent  # x Wᵀ, dX, dW, and each dR
    assert outside["ScatterElements"] == 0


@pytest.mark.parametrize("row", BATCH_FIRST, ids=str)
def test_a_layer_with_the_batch_in_front_runs(row):
    """ONNX Runtime refuses the original."""
    arrays = row.arrays()
    feeds = {pd.Variable([None] * a.ndim, dtype=a.dtype): a for a in arrays if a is not None}
    y = pd.apply(row.op_type, *feeds, outputs=len(row.kept), **row.attributes)
    _, wanted = by_expression(row, arrays)
    for v, got, value in zip(y, pd.eval(list(y), feeds), wanted, strict=True):
        assert v.rank == got.ndim
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)


def test_each_output_alone_has_a_gradient(rng):
    x = rng.standard_normal((STEPS, BATCH, INPUTS)).astype("float32")
    W, R = weights_of("LSTM")
    y, h, c = pd.apply("LSTM", x, W, R, outputs=3, hidden_size=WIDTH)
    costs = [pd.reduce_sum(pd.square(v)) for v in (y, h, c)]
    parts = [pd.gradients(cost, [R])[0] for cost in costs]
    whole, *parts = pd.eval([pd.gradients(costs, [R])[0], *parts])
    np.testing.assert_allclose(whole, sum(parts), rtol=1e-5, atol=1e-6)
    assert all(np.abs(part).max() > 1e-4 for part in parts)


def test_an_input_that_depends_on_another_counts_once():
    """An input that depends on another one: their gradients are combined by the graph."""
    x = pd.Variable(data=[[[0.5, -0.3]], [[0.2, 0.7]]])
    R = pd.Variable(shape=[1, 2, 2])

    def cost(x, W):
        y = pd.apply("RNN", x, W, R, hidden_size=2)
        return pd.reduce_sum(pd.square(y))

    def weights(x):
        return pd.transpose(x, [1, 0, 2]) * 2.0

    apart = pd.Variable(data=weights(x).eval())
    (whole,) = pd.gradients(cost(x, weights(x)), [x])
    by_x, by_w = pd.gradients(cost(x, apart), [x, apart])
    got, wanted = pd.eval([whole, by_x + pd.transpose(by_w, [1, 0, 2]) * 2.0])
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("op_type", GATES)
def test_an_exported_step_runs_as_plain_onnx(op_type, tmp_path, rng):
    """A classifier of sequences, its losses in ONNX Runtime with optimisation off and on."""
    x, labels = pd.Variable([None, None, 6], name="x"), pd.Variable([None], dtype="int64", name="k")
    W = pd.Variable("W", shape=[2, GATES[op_type] * 5, 6])
    R = pd.Variable("R", shape=[2, GATES[op_type] * 5, 5])
    h = pd.apply(op_type, x, W, R, outputs=2, hidden_size=5, direction="bidirectional")[1]
    head = pd.reshape(pd.transpose(h, [1, 0, 2]), [0, 10])
    loss = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(head, 3), labels))
    step = pd.AdamOptimizer(0.05).minimize(loss)
    model = pd.export_step(tmp_path / "step.onnx", step, fetches=[loss]).SerializeToString()
    batches = [(rng.standard_normal((5 + n, 4, 6)), rng.integers(0, 3, 4)) for n in range(6)]
    losses = [pd.eval([step, loss], {x: a, labels: k})[1] for a, k in batches]
    for optimize in (False, True):
        session, state = ort.session(model, optimize=optimize), {}
        names = [y.name for y in session.get_outputs()]
        following = json.loads(session.get_modelmeta().custom_metadata_map["pd.state"])
        for wanted, (a, k) in zip(losses, batches, strict=True):
            found = session.run(None, {"x": a.astype("float32"), "k": k, **state})
            out = dict(zip(names, found, strict=True))
            state = {into: out[name] for name, into in following.items()}
            assert out[loss.name] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("op_type", GATES)
def test_a_layer_in_the_body_of_a_loop(op_type, rng):
    """A stack of layers with shared weights: each reads the output of the one below."""
    x, (W, R) = pd.Variable([STEPS, BATCH, WIDTH], dtype="float64"), weights_of(op_type, "float64")
    depths = pd.Variable([2, 1], dtype="float64")

    def level(below, scale):
        y = pd.apply(op_type, below * scale, W, R, hidden_size=WIDTH)
        return pd.squeeze(y, 1), None

    top, _ = pd.scan(level, x, depths)
    variables = [x, W, R, depths]
    cost = pd.reduce_sum(pd.sin(top))
    found = pd.gradients(cost, variables)
    along = pd.reduce_sum(pd.sin(found[1])) + pd.reduce_sum(pd.sin(found[3]))
    feeds = {v: rng.standard_normal(v.shape) for v in variables}
    levels = [(cost, found), (along, pd.gradients(along, variables))]
    for numeric, analytic in compared(levels, feeds, {v: feeds[v][::-1] for v in variables}):
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-6)


def test_a_layer_of_unknown_width_has_no_gradient():
    x, W = pd.Variable([2, 1, 2]), pd.Variable(shape=[1, 3, 2])
    y = pd.apply("RNN", x, W, pd.Variable([1, None, None]))
    with pytest.raises(NoGradient, match=r"RNN: only layers of known width .* R var"):
        pd.gradients(pd.reduce_sum(y), [x])


def test_an_unknown_activation_has_no_gradient():
    x, (W, R) = pd.Variable([2, 1, INPUTS]), weights_of("RNN")
    y = pd.apply("RNN", x, W, R, hidden_size=WIDTH, activations=["Gelu"])
    with pytest.raises(NoGradient, match="RNN: there is no activation 'gelu', only relu, tanh"):
        pd.gradients(pd.reduce_sum(y), [x])
