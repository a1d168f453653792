"""Operators that inference exports write as one node, and names of nodes and values."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import pd_core as pd
from pd_core import nn

from .zoo import normal, randomize

L = pd.layer


def run(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def operators(model):
    return [node.op_type for node in model.graph.node]


def compare(targets, feeds, **options):
    """Export targets, check that ONNX Runtime computes the same as pd, and return the model."""
    targets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    randomize()
    model = pd.export_onnx(None, targets, **options)
    for got, want in zip(run(model, feeds), pd.eval(targets, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return model


NORMS = {
    "BatchNormalization": (lambda x: L.batch_norm(x, epsilon=1e-3), 13),
    "InstanceNormalization": (lambda x: L.instance_norm(x, epsilon=1e-3), 13),
    "InstanceNormalization without factors": (lambda x: pd.instance_norm(x), 13),
    "LayerNormalization": (lambda x: L.layer_norm(x, axis=2, epsilon=1e-3), 17),
    "LayerNormalization without factors": (lambda x: pd.layer_norm(x), 17),
    "LayerNormalization without shift": (lambda x: L.layer_norm(x, bias=False), 17),
    "GroupNormalization": (lambda x: L.group_norm(x, 2, epsilon=1e-3), 21),
    "GroupNormalization without factors": (lambda x: pd.group_norm(x, 2), 21),
    "RMSNormalization": (lambda x: L.rms_norm(x, epsilon=1e-3), 23),
    "Gelu": (pd.gelu, 20),
    "Gelu approximate": (lambda x: pd.gelu(x, approximate=True), 20),
}


@pytest.mark.parametrize("name", NORMS)
def test_layers_are_one_operator_where_there_is_one(name):
    build, since = NORMS[name]
    op_type = name.split()[0]
    feeds = {"x": 3 * normal(2, 4, 5, 6) + 1}
    for opset in sorted({since, max(13, since - 1)}):
        with pd.fresh():
            x = pd.Variable("x", shape=[None, 4, 5, 6])
            found = operators(compare(build(x), feeds, opset=opset))
        assert (found == [op_type]) == (opset >= since), found
        assert (op_type in found) == (opset >= since)


def test_a_training_step_is_not_exported_with_them():
    x = pd.Variable("x", shape=[None, 4])
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(L.layer_norm(x)))
    assert "LayerNormalization" not in operators(pd.export_step(None, step))


def test_dropout_is_gone():
    x = pd.Variable("x", shape=[None, 4])
    model = compare(pd.relu(pd.dropout(x, 0.5)), {"x": normal(3, 4)})
    assert operators(model) == ["Relu"]


def attention_cases():
    q, k = normal(2, 4, 5, 8), normal(2, 2, 5, 8)
    seen = np.tri(5, dtype=bool)
    seen[2] = False  # a query that may attend to nothing
    return {
        "plain": ({}, {}),
        "causal": ({"causal": True}, {}),
        "scaled": ({"scale": 0.5}, {}),
        "mask": ({}, {"mask": seen}),
        "added": ({}, {"mask": normal(5, 5)}),
        "both": ({"causal": True}, {"mask": seen}),
    }, {"q": q, "k": k}


@pytest.mark.parametrize("name", attention_cases()[0])
def test_attention_is_one_operator_from_opset_23_on(name):
    cases, feeds = attention_cases()
    options, masks = cases[name]
    q, k = pd.Variable("q", shape=[None, 4, 5, 8]), pd.Variable("k", shape=[None, 2, 5, 8])
    slots = {key: pd.Variable(key, shape=[None, 5], dtype=m.dtype) for key, m in masks.items()}
    y = pd.attention(q, k, k * 2.0, **options, **slots)
    for opset in (22, 23, 24):
        found = operators(compare(y, {**feeds, **masks}, opset=opset))
        assert ("Attention" in found, "Softmax" in found) == (opset >= 23, opset < 23)


def test_causal_attention_to_more_keys_is_written_out():
    q, k = pd.Variable("q", shape=[None, 2, 3, 4]), pd.Variable("k", shape=[None, 2, 5, 4])
    feeds = {"q": normal(1, 2, 3, 4), "k": normal(1, 2, 5, 4)}
    model = compare(pd.attention(q, k, k, causal=True), feeds, opset=23)
    assert "Attention" not in operators(model)


LAYERS = {"LSTM": L.lstm, "GRU": L.gru, "RNN": L.simple_rnn}
SIZES = {
    "one": {},
    "without bias": {"B": False},
    "several": {"num_layers": 2, "bidirectional": True, "dropout": 0.3},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op_type", LAYERS)
def test_recurrent_layers_are_their_operators(op_type, size):
    options, x = SIZES[size], pd.Variable("x", shape=[None, None, 3])
    y, states = LAYERS[op_type](x, 4, **options)
    states = states if isinstance(states, tuple) else (states,)
    model = compare([y, *states], {"x": normal(3, 5, 3)}, opset=13)
    assert operators(model).count(op_type) == options.get("num_layers", 1)
    assert not {"Scan", "Loop"} & set(operators(model))
    # their weights are stored in ONNX's layout
    stored = {t.name for t in model.graph.initializer}
    node = next(n for n in model.graph.node if n.op_type == op_type)
    assert stored >= {x for x in node.input[1:] if x}


@pytest.mark.parametrize("op_type", LAYERS)
def test_recurrent_layers_with_lengths_and_states(op_type):
    count = 2 if op_type == "LSTM" else 1
    x = pd.Variable("x", shape=[None, None, 3])
    lengths = pd.Variable("lengths", shape=[None], dtype="int64")
    slots = [pd.Variable(f"s{k}", shape=[4, None, 4]) for k in range(count)]
    state = slots if count == 2 else slots[0]
    options = {"num_layers": 2, "bidirectional": True, "lengths": lengths, "state": state}
    y, states = LAYERS[op_type](x, 4, **options)
    states = states if isinstance(states, tuple) else (states,)
    feeds = {"x": normal(3, 5, 3), "lengths": np.int64([5, 0, 3])}
    feeds |= {s.name: normal(4, 3, 4) for s in slots}
    assert op_type in operators(compare([y, *states], feeds))


def test_relu_in_a_recurrent_layer():
    x = pd.Variable("x", shape=[None, None, 3])
    y, _ = L.simple_rnn(x, 4, act="relu", bidirectional=True)
    model = compare(y, {"x": normal(2, 4, 3)})
    (node,) = (n for n in model.graph.node if n.op_type == "RNN")
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert values["activations"] == [b"Relu", b"Relu"]


# ---- Resize


def test_resize_is_told_in_stored_numbers():
    x = pd.Variable("x", shape=[None, 2, 3, 4])
    for opset in (13, 26):
        model = compare(pd.interpolate(x, [5, 9]), {"x": normal(2, 2, 3, 4)}, opset=opset)
        (node,) = model.graph.node
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        assert [node.op_type, *node.input[:2]] == ["Resize", "x", ""]
        np.testing.assert_allclose(stored[node.input[2]], [1, 1, 5 / 3, 9 / 4], rtol=1e-6)
        assert "axes" not in {a.name for a in node.attribute}


def test_the_nearest_pixels_stay_the_same():
    x = pd.Variable("x", shape=[None, 1, 6, 10])
    for sizes in ([10, 20], [14, 6], [9, 5]):
        for mode in ("nearest", "nearest-exact"):
            compare(pd.interpolate(x, sizes, mode), {"x": normal(2, 1, 6, 10)}, opset=13)


def test_resize_of_a_known_batch_has_sizes():
    x = pd.Variable("x", shape=[2, 2, 3, 4])
    model = pd.export_onnx(None, pd.interpolate(x, [5, 9]), inputs=[x])
    (node,) = model.graph.node
    (sizes,) = (onnx.numpy_helper.to_array(t) for t in model.graph.initializer)
    assert node.input[3] and list(sizes) == [2, 2, 5, 9]


def test_resize_of_images_of_any_size():
    x = pd.Variable("x", shape=[None, 2, None, None])
    for opset in (13, 21):
        compare(pd.interpolate(x, [5, 9]), {"x": normal(2, 2, 7, 4)}, opset=opset)


# ---- folding


def test_constants_are_folded():
    x = pd.Variable("x", shape=[None, 4])
    w = pd.get_variable("w", shape=[3, 4])
    y = x @ pd.transpose(w * 2.0, [1, 0])
    model = compare(y, {"x": normal(2, 4)})
    assert operators(model) == ["MatMul"]
    (stored,) = model.graph.initializer
    assert (stored.name, list(stored.dims)) == ("w/Transpose", [4, 3])


def test_what_would_outgrow_its_inputs_is_not_folded():
    x = pd.Variable("x", shape=[200, 200])
    w = pd.get_variable("w", shape=[1, 200])
    model = pd.export_onnx(None, x * pd.expand(w, [200, 200]), inputs=[x])
    assert "Expand" in operators(model)


# ---- names


def test_nodes_are_named_by_their_layers():
    x = pd.Variable("image", shape=["N", 8])
    with pd.namespace("encoder"):
        y = pd.fc(x, 4, act="relu")
    y = pd.fc(y, 3)
    y = pd.exp(y)
    y = pd.fc(y, 2)
    model = pd.export_onnx(None, y)
    assert [node.name for node in model.graph.node] == [
        *("encoder/fc_0/MatMul", "encoder/fc_0/Add", "encoder/fc_0/Relu"),
        *("fc_0/MatMul", "fc_0/Add", "Exp", "fc_1/MatMul", "fc_1/Add"),
    ]
    assert model.graph.node[0].doc_string.startswith("test_export_forms.py:")
    shapes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in model.graph.value_info]  # fmt: skip
    assert shapes == [["N", 4]] * 3 + [["N", 3]] * 3 + [["N", 2]]
    assert model.graph.output[0].name == y.name


def test_nodes_of_modules_have_their_names():
    with pd.fresh():
        x = pd.Variable("x", shape=[None, 5, 8])
        model = pd.export_onnx(None, nn.TransformerEncoderLayer(8, 2, 16, name="block")(x))
    found = [node.name for node in model.graph.node]
    assert {"block/self_attention/query/MatMul", "block/norm1/LayerNormalization"} <= {*found}
    assert len(set(found)) == len(found)


def test_bodies_of_loops_have_unique_names():
    x = pd.Variable("x", shape=[None, None, 3])
    state = pd.Variable("state", shape=[None, 3])

    def body(states, row):
        new = pd.tanh(pd.fc(states[0], 3, W="w") + row)
        return [new], pd.tanh(new)

    _, y = pd.scan(body, [state], x)
    model = compare(y, {"x": normal(4, 2, 3), "state": normal(2, 3)}, opset=13)
    (scan,) = (n for n in model.graph.node if n.op_type == "Scan")
    (inside,) = (a.g for a in scan.attribute if a.name == "body")
    names = [n.name for n in [*inside.node, *model.graph.node]]
    assert len(set(names)) == len(names)
    assert "w/MatMul" in names or "fc_0/MatMul" in names
