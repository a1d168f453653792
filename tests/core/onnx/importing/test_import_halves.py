"""Files of 16-bit floats, read in float32 and written as they were."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pd_core as pd
from pd_core.commands.main import main

from ...training.tuning import models

KINDS = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
TEXT = (
    "(KIND[N,8] x, bool c) => (KIND[N,3] y) { a = MatMul(x, W1) b = Add(a, b1) h = Relu(b)"
    " k = Cast<to=1>(h) l = Exp(k) m = Log(l) n = CastLike(m, b1) z = Constant<value=float {0.5}>()"
    " p = If(c) <then_branch = g1 () => (KIND[N,16] s) { s = Mul(n, z) },"
    " else_branch = g2 () => (KIND[N,16] t) { u = Cast<to=TYPE>(k) t = Identity(u) }>"
    " y = Gemm<transB=1>(p, W2, b2) }"
)
X = np.random.default_rng(0).normal(size=(12, 8)).astype("float32")


def halved(kind):
    """Return a model of 16-bit floats, and the same in float32."""
    wide = models.model(
        TEXT.replace("KIND", "float").replace("TYPE", "1"), models.SHAPES, opset=21, ir=10
    )
    half = models.model(
        TEXT.replace("KIND", kind).replace("TYPE", str(KINDS[kind])), {}, opset=21, ir=10
    )
    dtype = helper.tensor_dtype_to_np_dtype(KINDS[kind])
    (constant,) = [n for n in half.graph.node if n.op_type == "Constant"]
    constant.attribute[0].t.CopyFrom(numpy_helper.from_array(np.array(0.5, dtype)))
    for t in wide.graph.initializer:
        array = numpy_helper.to_array(t).astype(dtype)
        half.graph.initializer.append(numpy_helper.from_array(array, t.name))
        t.CopyFrom(numpy_helper.from_array(array.astype("float32"), t.name))
    return half, wide


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("branch", [True, False])
def test_it_computes_and_trains_in_float32(kind, branch):
    half, wide = halved(kind)
    f = pd.import_onnx(half, float32=True)
    assert {v.dtype.name for v in f.parameters.values()} == {"float32"}
    x, t = pd.Variable([None, 8], name="x"), pd.Variable([None], dtype="int64")
    y = f(x, np.array(branch))
    (wanted,) = models.run(wide, x=X, c=np.array(branch))
    np.testing.assert_allclose(pd.eval(y, {x: X}), wanted, rtol=1e-5, atol=1e-6)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(y, t))
    step = pd.AdamOptimizer(0.02).minimize(cost)
    feeds = {x: X, t: X[:, :3].argmax(1)}
    costs = [float(pd.eval([cost, step], feeds)[0]) for _ in range(40)]
    assert costs[-1] < 0.5 * costs[0]
    tuned = pd.export_tuned(None, f)
    assert [n.op_type for n in tuned.graph.node] == [
        n.op_type for n in half.graph.node if n.op_type != "Constant"
    ]
    assert {t.data_type for t in tuned.graph.initializer} == {KINDS[kind]}
    assert tuned.graph.input[0].type.tensor_type.elem_type == KINDS[kind]
    for v in f.parameters.values():
        stored = next(t for t in tuned.graph.initializer if t.name == v.name)
        value = pd.eval(v)
        np.testing.assert_array_equal(
            numpy_helper.to_array(stored), value.astype(numpy_helper.to_array(stored).dtype)
        )


def test_a_value_that_float16_does_not_hold():
    f = pd.import_onnx(halved("float16")[0], float32=True)
    pd.default_session().set(f.parameters["W1"], np.full((8, 16), 1e6, "float32"))
    with pytest.raises(pd.ExportError, match=r"'W1' is float16, which 1000000\.0 exceeds"):
        pd.export_tuned(None, f)


def test_data_in_another_file(tmp_path):
    half, _ = halved("float16")
    path = str(tmp_path / "m.onnx")
    options = {"all_tensors_to_one_file": True, "location": "data", "size_threshold": 0}
    onnx.save_model(half, path, save_as_external_data=True, **options)
    f = pd.import_onnx(path, float32=True)
    y = f(pd.constant(X), np.array(True))
    (found,) = models.run(halved("float16")[1], x=X, c=np.array(True))
    np.testing.assert_allclose(pd.eval(y), found, rtol=1e-5, atol=1e-6)


def test_adapters_of_a_file_of_float16():
    f = pd.import_onnx(halved("float16")[0], float32=True)
    adapters = pd.lora(f, rank=2)
    for v in adapters.parameters():
        pd.default_session().set(v, np.full(v.dims, 0.1, "float32"))
    wanted = pd.eval(f(pd.constant(X), np.array(True)))
    (found,) = models.run(pd.export_tuned(None, f), x=X.astype("float16"), c=np.array(True))
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)


def test_the_commands_take_it(tmp_path, capsys):
    path, data, out = (str(tmp_path / name) for name in ("m.onnx", "d.npz", "o.onnx"))
    text = "(float16[N,8] x) => (float16[N,3] y) { y = Gemm<transB=1>(x, W) }"
    proto = models.model(text, {}, opset=21, ir=10)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((3, 8), "float16"), "W"))
    onnx.save(proto, path)
    np.savez(data, x=X, label=X[:, :3].argmax(1))
    command = ["finetune", path, data, "-o", out]
    assert main(command) == 2
    assert (
        "'W' is float16, which optimizers do not update (hint: --float32" in capsys.readouterr().err
    )
    assert main([*command, "--float32", "--epochs", "3"]) == 0
    (stored,) = onnx.load(out).graph.initializer
    assert stored.data_type == TensorProto.FLOAT16
    assert (numpy_helper.to_array(stored) != 1).any()
