"""Export: a file that plain ONNX Runtime runs, with the same numbers and nothing too much."""

import os

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def run(model, feeds):
    """Outputs by name of a model in plain ONNX Runtime."""
    data = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def sizes(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_export(tmp_path):
    x = pd.Variable("x", shape=[None, 4])
    y = pd.fc(x, size=2, W="w")
    pd.fc(y, size=9, W="unused")
    pd.export_onnx(str(tmp_path / "m.onnx"), targets=[y], inputs=[x])
    m = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(m, full_check=True)
    assert "w" in {i.name for i in m.graph.initializer}
    assert "unused" not in {i.name for i in m.graph.initializer}
    s = onnxruntime.InferenceSession(m.SerializeToString())
    X = np.random.rand(7, 4).astype(f32)
    assert np.array_equal(s.run(None, {"x": X})[0], pd.eval(y, feeds={"x": X}))


def test_plain_sessions_work_beside_ours():
    """Default options, and options of one's own, in a process where we have run something."""
    x = pd.Variable("x", shape=[None, 4])
    model = pd.export_onnx(None, pd.relu(x)).SerializeToString()
    pd.eval(pd.relu(x), feeds={x: ones(1, 4)})
    onnxruntime.InferenceSession(model)
    onnxruntime.InferenceSession(model, onnxruntime.SessionOptions())


def close(a, b):
    """To rounding: where parameters are constants the runtime folds normalisation into filters."""
    return np.allclose(a, b, rtol=1e-5)


def network():
    """Most kinds of layers, after one training step."""
    image = pd.Variable("image", shape=[None, 1, 8, 8])
    label = pd.Variable("label", shape=[None, 1], dtype="int64")
    with pd.namespace("net"):
        h = pd.conv2d(image, 4, 3)
        scale, shift = pd.Variable("scale", data=ones(4)), pd.Variable("shift", data=np.zeros(4))
        mean = pd.Variable("mean", data=np.zeros(4), trainable=False)
        variance = pd.Variable("variance", data=ones(4), trainable=False)
        h = pd.relu(pd.batch_norm(h, scale, shift, mean, variance))
        h = pd.dropout(pd.reshape(pd.pool2d(h, 2), [-1, 36]), 0.5)
        p = pd.softmax(h, size=3)
    cost = pd.reduce_mean(pd.cross_entropy(p, label))
    step = pd.AdamOptimizer(0.01).minimize(cost)
    images = np.random.default_rng(0).normal(size=(6, 1, 8, 8)).astype(f32)
    pd.eval(step, feeds={image: images, label: np.arange(6)[:, None] % 3})
    return image, label, p, cost, images


def test_a_network_is_exported_in_inference_mode():
    image, _, p, _, images = network()
    model = pd.export_onnx(None, p)
    assert [i.name for i in model.graph.input] == ["image"]
    assert sizes(model.graph.input[0]) == ["batch", 1, 8, 8]
    assert sizes(model.graph.output[0]) == ["batch", 3]
    stored = {i.name for i in model.graph.initializer}
    assert {v.name for v in pd.persistent_variables("net/")} <= stored
    assert not any("adam" in name for name in stored)
    found = run(model, {"image": images})
    assert close(found[p.name], pd.eval(p, feeds={image: images}))
    assert np.array_equal(found[p.name], run(model, {"image": images})[p.name])
    assert not np.allclose(found[p.name], pd.eval(p, feeds={image: images}, training=True))


def test_several_targets_and_all_their_inputs():
    image, label, p, cost, images = network()
    labels = np.zeros((6, 1), np.int64)
    model = pd.export_onnx(None, [cost, p])
    assert [i.name for i in model.graph.input] == ["image", "label"]
    assert [o.name for o in model.graph.output] == [cost.name, p.name]
    assert sizes(model.graph.output[0]) == []
    found = run(model, {"image": images, "label": labels})
    expected = pd.eval([cost, p], feeds={image: images, label: labels})
    assert close(found[cost.name], expected[0])
    assert close(found[p.name], expected[1])
    swapped = pd.export_onnx(None, [cost], inputs=["label", image])
    assert [i.name for i in swapped.graph.input] == ["label", "image"]


def test_any_variable_is_an_input():
    x = pd.Variable("x", shape=[None, 4])
    h = pd.fc(x, 3, W="w")
    y = pd.relu(h)
    model = pd.export_onnx(None, y, inputs=[h])
    assert [i.name for i in model.graph.input] == [h.name]
    assert not model.graph.initializer
    assert run(model, {h.name: -ones(2, 3)})[y.name].tolist() == [[0.0] * 3] * 2
    model = pd.export_onnx(None, h, inputs=["x", "w"])  # a parameter to be given by the caller
    assert (run(model, {"x": ones(2, 4), "w": ones(4, 3)})[h.name] == 4.0).all()


def test_outputs_have_the_names_of_their_variables():
    x = pd.Variable("x", shape=[None, 2])
    y = pd.relu(x)
    same, dropped = pd.identity(y), pd.dropout(y, 0.5)
    w, c = pd.Variable("w", data=ones(2)), pd.constant(2.0, name="two")
    model = pd.export_onnx(None, [same, dropped, y, w, c, x])
    names = [o.name for o in model.graph.output]
    assert names[:3] == [same.name, dropped.name, y.name]
    assert len(set(names)) == 6
    found = list(run(model, {"x": -ones(1, 2)}).values())
    assert [v.tolist() for v in found] == [[[0, 0]], [[0, 0]], [[0, 0]], [1, 1], 2, [[-1, -1]]]


def test_sizes_have_names():
    a, b = pd.Variable("a", shape=[None, None]), pd.Variable("b", shape=[None, 3])
    c = pd.Variable("c", shape=["time", 3])
    model = pd.export_onnx(None, [pd.relu(a), pd.relu(b), pd.relu(c)])
    assert [sizes(i) for i in model.graph.input] == [
        *(["batch", "a_1"], ["batch_2", 3], ["time", 3]),
    ]
    d = pd.Variable("d", shape=["batch", None])
    model = pd.export_onnx(None, [pd.relu(b), pd.relu(d), pd.apply("NonZero", d)])
    assert [sizes(i) for i in model.graph.input] == [["batch_2", 3], ["batch", "d_1"]]
    assert sizes(model.graph.output[2]) == [2, f"{model.graph.output[2].name}_1"]
    together = pd.export_onnx(None, pd.reshape(a, [-1, 3]) + b + c)
    assert sizes(together.graph.input[1]) == sizes(together.graph.input[2])
    assert sizes(together.graph.input[0]) != sizes(together.graph.input[1])


def test_equal_programs_give_equal_files():
    def exported():
        with pd.fresh(seed=1):
            x = pd.Variable("x", shape=[None, 4])
            y = pd.fc(pd.fc(x, 3, act="relu"), 2)
            z = pd.reshape(pd.concat([y, y]), [-1, 4])
            return pd.export_onnx(None, [y, z]).SerializeToString()

    assert exported() == exported()


def test_the_values_are_those_of_the_session():
    x = pd.Variable("x", shape=[None, 2])
    y = pd.fc(x, 1, W="w", B=False)
    other = pd.Session()
    other.set(pd.get_variable("w"), [[3.0], [4.0]])
    model = pd.export_onnx(None, y, session=other)
    assert run(model, {"x": ones(1, 2)})[y.name] == 7.0


def test_metadata():
    x = pd.Variable("x", shape=[None, 2])
    model = pd.export_onnx(None, pd.relu(x), metadata={"epoch": 3, "labels": "a,b"})
    found = {m.key: m.value for m in model.metadata_props}
    assert found == {"producer": "pd", "epoch": "3", "labels": "a,b"}
    assert model.opset_import[0].version == 21


def test_random_numbers_come_from_an_input():
    r = pd.uniform_random([3])
    y = r + pd.gaussian_random([3])
    model = pd.export_onnx(None, y)
    (seed,) = model.graph.input
    assert (seed.name, sizes(seed)) == ("random_seed", [3, 2])
    first, second = (run(model, {"random_seed": np.full((3, 2), k)})[y.name] for k in (1, 2))
    assert (first != second).all()


def test_a_seed_is_stored_in_the_file():
    y = pd.uniform_random([3]) + pd.gaussian_random([3])
    given, stored = pd.export_onnx(None, y), pd.export_onnx(None, y, seed=7)
    assert not stored.graph.input
    rows = np.array([[7, 0]] * 3)
    for _ in range(2):
        found = run(stored, {})[y.name]
        np.testing.assert_array_equal(found, run(given, {"random_seed": rows})[y.name])
    assert (run(pd.export_onnx(None, y, seed=8), {})[y.name] != found).all()


@pytest.mark.parametrize(
    ("message", "inputs", "targets"),
    [
        ("export: there is no variable 'imgae'", ["imgae"], "y"),
        ("export: there is no variable 3", [3], "y"),
        (r"do not depend on the inputs \[other: float32\[\?\]\]", ["x", "other"], "y"),
        (
            r"export: .* value for x: .*\n.*created at .*\n  hint: add it to inputs",
            ["other"],
            "both",
        ),
        (r"export: a target is a Variable, not Update\(", None, "step"),
        ("export: a target is a Variable, not 'y'", None, "name"),
    ],
)
def test_what_cannot_be_exported(message, inputs, targets, tmp_path):
    x, other = pd.Variable("x", shape=[None, 2]), pd.Variable("other", shape=[None])
    y = pd.fc(x, 1)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y))
    known = {"y": [y], "both": [y, other * 2.0], "step": [step], "name": "y"}
    with pytest.raises(pd.ExportError, match=message):
        pd.export_onnx(tmp_path / "m.onnx", known[targets], inputs=inputs)
    assert os.listdir(tmp_path) == []


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    x = pd.Variable("x", shape=[None, 2])
    path = tmp_path / "m.onnx"
    pd.export_onnx(path, pd.relu(x))
    before = path.read_bytes()

    def full(fd):
        raise OSError("no space left on the device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            pd.export_onnx(path, pd.tanh(x))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.onnx"]
    pd.export_onnx(path, pd.tanh(x))
    assert path.read_bytes() != before
    assert run(str(path), {"x": np.zeros((1, 2), f32)})
