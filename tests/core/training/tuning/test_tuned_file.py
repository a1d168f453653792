"""Trained values in the file that was imported: its nodes, its opset, its names."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pd_core as pd
from pd_core.backend import ort

from . import models

X = models.samples()["x"]


def tuned(proto, path=None):
    """Add 1 to all parameters, and write the model; return it and what it computes now."""
    f = pd.import_onnx(proto)
    for v in f.parameters.values():
        pd.default_session().set(v, v.numpy() + 1)
    (shape,) = [i.type.tensor_type.shape for i in f.graph.input if i.name in f.inputs]
    x = pd.Variable("x", shape=[None, *(d.dim_value for d in shape.dim[1:])])
    batch = np.random.default_rng(0).normal(size=(4, *x.dims[1:])).astype(np.float32)
    return pd.export_tuned(path, f), batch, pd.eval(f(x), {x: batch})


def check(proto, model, batch, expected):
    np.testing.assert_allclose(models.run(model, x=batch)[0], expected, rtol=1e-4, atol=1e-4)
    assert abs(models.run(proto, x=batch)[0] - expected).max() > 0.1
    kept = [n for n in proto.graph.node if n.op_type not in ("Constant", "Identity")]
    assert list(model.graph.node) == kept
    assert model.opset_import == proto.opset_import
    assert [i for i in model.graph.input if i.name == "x"] == [
        i for i in proto.graph.input if i.name == "x"
    ]
    assert model.graph.output == proto.graph.output


def test_values_are_stored_and_nothing_else_changes(tmp_path):
    proto = models.perceptron(head="Softmax")
    helper.set_model_props(proto, {"author": "somebody"})
    model, batch, expected = tuned(proto, tmp_path / "tuned.onnx")
    assert onnx.load(tmp_path / "tuned.onnx") == model
    assert model.metadata_props == proto.metadata_props
    for name, array in models.stored(proto).items():
        np.testing.assert_array_equal(models.stored(model)[name], array + 1)
    assert (models.run(model, x=batch)[0] - expected == 0).all()


def test_constants_become_initializers():
    """Exporters store weights in Constant nodes, and equal initial values once."""
    proto = models.perceptron()
    w1, b1 = proto.graph.initializer[0], proto.graph.initializer[1]
    zeros = numpy_helper.from_array(np.zeros(16, np.float32), "zeros")
    b1.CopyFrom(zeros)
    nodes = [
        helper.make_node("Constant", [], ["W1"], value=w1),
        helper.make_node("Identity", ["zeros"], ["b1"]),
        *proto.graph.node,
    ]
    proto.graph.initializer.remove(w1)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    model, batch, expected = tuned(proto)
    check(proto, model, batch, expected)
    assert set(models.stored(model)) == {"W1", "b1", "W2", "b2"}


def test_old_files_name_their_weights_as_inputs():
    proto = models.perceptron(opset=8, ir=3)
    for t in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    model, batch, expected = tuned(proto)
    check(proto, model, batch, expected)
    assert model.ir_version == 3


def test_weights_in_other_files_are_read(tmp_path):
    path = tmp_path / "model.onnx"
    proto = models.perceptron()
    onnx.save(proto, path, save_as_external_data=True, location="data", size_threshold=0)
    f = pd.import_onnx(path, frozen="b*")
    pd.default_session().set(f.parameters["W1"], np.zeros((8, 16)))
    model = pd.export_tuned(tmp_path / "elsewhere.onnx", f)
    arrays = models.stored(model)
    assert not arrays["W1"].any()
    for name in ("b1", "W2", "b2"):
        np.testing.assert_array_equal(arrays[name], models.stored(models.perceptron())[name])
    onnx.checker.check_model(str(tmp_path / "elsewhere.onnx"))


def test_weights_stored_as_integers_become_floats():
    text = (
        "(float[N,8] x) => (float[N,3] y) "
        "{ W = DequantizeLinear(integers, scale) y = MatMul(x, W) }"
    )
    proto = models.model(text, {"scale": ()})
    integers = np.random.default_rng(0).integers(-99, 99, (8, 3)).astype(np.int8)
    proto.graph.initializer.append(numpy_helper.from_array(integers, "integers"))
    f = pd.import_onnx(proto)
    x = pd.Variable("x", shape=[None, 8])
    np.testing.assert_allclose(
        models.run(pd.export_tuned(None, f), x=X)[0], models.run(proto, x=X)[0], rtol=1e-5
    )
    pd.default_session().set(f.parameters["integers"], np.ones((8, 3)))
    model = pd.export_tuned(None, f)
    assert [n.op_type for n in model.graph.node] == ["MatMul"]
    assert [(t.name, t.data_type) for t in model.graph.initializer] == [("W", TensorProto.FLOAT)]
    np.testing.assert_allclose(models.run(model, x=X)[0], pd.eval(f(x), {x: X}), rtol=1e-5)


def test_moving_statistics_are_stored():
    text = (
        "(float[N,8] x) => (float[N,3] y) "
        "{ h = BatchNormalization(x, s, t, m, v) y = MatMul(h, W) }"
    )
    proto = models.model(text, {"s": (8,), "t": (8,), "m": (8,), "v": (8,), "W": (8, 3)})
    ones = numpy_helper.from_array(np.ones(8, np.float32), "v")
    proto.graph.initializer[3].CopyFrom(ones)
    f = pd.import_onnx(proto, training=True)
    x = pd.Variable("x", shape=[None, 8])
    y = f(x)
    pd.eval([pd.SGDOptimizer(0.01).minimize(pd.reduce_mean(pd.square(y)))], {x: X * 3 + 2})
    model = pd.export_tuned(None, f)
    mean = models.stored(proto)["m"] * 0.9 + (X * 3 + 2).mean(0) * 0.1
    np.testing.assert_allclose(models.stored(model)["m"], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(models.run(model, x=X)[0], pd.eval(y, {x: X}), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kept", ["name and type", "name"])
def test_an_output_without_a_shape(kept):
    """ONNX's checker refuses what runtimes take, and the file has."""
    proto = models.perceptron()
    if kept == "name":
        proto.graph.output[0].ClearField("type")
    else:
        proto.graph.output[0].type.tensor_type.ClearField("shape")
    model, batch, expected = tuned(proto)
    assert model.graph.output == proto.graph.output
    found = ort.session(model.SerializeToString()).run(None, {"x": batch})
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def test_constants_of_nodes_in_other_files(tmp_path):
    """Those that bodies give, and those of functions, too: the tuned model is one file."""
    graph = (
        '<ir_version: 8, opset_import: ["": 17, "own": 1]> g'
        " (float[N,8] x, bool c) => (float[N,3] y) { h = MatMul(x, W)"
        " k = Constant<value = float[3] {1, 2, 3}>() i = If(c) <"
        " then_branch = t () => (float[3] p) { p = Constant<value = float[3] {4, 5, 6}>() },"
        " else_branch = e () => (float[3] q) { q = Neg(k) }> j = Add(h, i) y = own.F(j) }"
        ' <domain: "own", opset_import: ["": 17]> F (a) => (b)'
        " { l = Constant<value = float[3] {7, 8, 9}>() b = Mul(a, l) }"
    )
    proto = onnx.parser.parse_model(graph)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((8, 3), "float32"), "W"))
    feeds = {"x": X, "c": np.array(True)}
    (wanted,) = ort.session(proto.SerializeToString()).run(None, feeds)
    options = {"save_as_external_data": True, "size_threshold": 0, "convert_attribute": True}
    onnx.save_model(proto, tmp_path / "m.onnx", location="data", **options)
    model = pd.export_tuned(None, pd.import_onnx(tmp_path / "m.onnx"))
    (found,) = ort.session(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_model_that_onnx_refuses_is_not_written(tmp_path):
    f = pd.import_onnx(models.perceptron())
    f.model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(pd.ExportError, match="ONNX refuses the model: No Op registered"):
        pd.export_tuned(tmp_path / "tuned.onnx", f)
    assert not list(tmp_path.iterdir())
