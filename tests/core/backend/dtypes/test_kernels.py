"""What has a kernel, according to the runtime's own list, is what it computes."""

import numpy as np
import pytest
from onnx import defs, helper

import pd_core as pd
from pd_core.backend import ort
from pd_core.backend.dtypes.kernels import lacking, takes
from pd_core.graph.inference import CEILING, OPSET
from pd_core.graph.node import apply

DTYPES = ["bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))]
DTYPES += ["float32", "float64"]
ONE = ("Abs", "Neg", "Sign", "Relu", "Exp", "Sin", "Erf", "Atan", "Floor", "NonZero", "Trilu")
TWO = ("Add", "Div", "Mod", "Max", "Less", "Equal", "MatMul", "BitwiseAnd", "And", "Where")


def model(op_type, dtype):
    """A model of one operator on inputs of this type, or None where ONNX has none."""
    schema = defs.get_schema(op_type, OPSET)
    count = {**dict.fromkeys(ONE, 1), "Where": 3}.get(op_type, 2)
    types = ["bool" if op_type == "Where" and k == 0 else dtype for k in range(count)]
    formals = [schema.inputs[min(k, len(schema.inputs) - 1)] for k in range(count)]
    names = {"float32": "float", "float64": "double"}
    if any(
        f"tensor({names.get(t, t)})" not in f.types for t, f in zip(types, formals, strict=True)
    ):
        return None
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in types]
    inputs = [helper.make_tensor_value_info(f"i{k}", t, [2, 2]) for k, t in enumerate(kinds)]
    node = helper.make_node(op_type, [f"i{k}" for k in range(count)], ["y"])
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("op_type", ONE + TWO)
def test_the_list_of_kernels_is_true(op_type):
    found, computed = {}, {}
    for dtype in DTYPES:
        one = model(op_type, dtype)
        if one is None:
            continue
        try:
            ort.session(one.SerializeToString())
            computed[dtype] = True
        except Exception as error:
            assert "NOT_IMPLEMENTED" in str(error)
            computed[dtype] = False
        found[dtype] = takes(op_type, OPSET, {"T": np.dtype(dtype)})
    assert found == computed


def test_what_is_refused_names_operator_types_and_line():
    x, i = pd.Variable([1, 1, 2, 2], dtype="float64"), pd.Variable([1, 1, 2, 2], dtype="int64")
    y = apply("MaxUnpool", x, i, kernel_shape=[2, 2], strides=[2, 2])
    feeds = {x: np.ones((1, 1, 2, 2)), i: np.arange(4).reshape(1, 1, 2, 2)}
    with pytest.raises(pd.DTypeError) as caught:
        pd.eval(y, feeds)
    first, node, *rest = str(caught.value).splitlines()
    assert first == "MaxUnpool: a CPU has no kernel for float64, only for float32"
    assert node.startswith("  node   MaxUnpool, built at ") and "test_kernels.py" in node
    assert rest[-1] == "  hint: pd.cast(x, 'float32')"


def test_images_of_unknown_size_are_not_resized_in_float64():
    x = pd.Variable([1, 1, None, None], dtype="float64")
    y = pd.interpolate(x, scale=1.5)
    with pytest.raises(pd.DTypeError, match="Resize: a CPU has no kernel for float64"):
        pd.eval(y, {x: np.ones((1, 1, 4, 4))})
    known = pd.interpolate(pd.Variable([1, 1, 4, 4], dtype="float64"), scale=1.5)
    assert known.dtype == np.float64


def test_newer_operators_are_looked_up_in_their_opset():
    x = pd.Variable([2, 3], dtype="float64")
    y = apply("RMSNormalization", x, pd.ones([3], "float64"), axis=-1)
    assert y.node.opset > OPSET
    assert lacking(y.node, CEILING) == {}
    np.testing.assert_allclose(pd.eval(y, {x: np.ones((2, 3))}), np.ones((2, 3)), rtol=1e-5)


def test_reductions_of_scattered_halves():
    x = pd.Variable([2, 2], dtype="float16")
    y = pd.index_add(x, np.s_[:, [0, 0]], pd.full([2, 2], 0.5, "float16"))
    (slope,) = pd.gradients(pd.reduce_sum(y * y), [x])
    got = pd.eval([y, slope], {x: np.ones((2, 2), np.float16)})
    np.testing.assert_array_equal(got, [[[2, 1]] * 2, [[4, 2]] * 2])
    assert got[0].dtype == np.float16


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_activations_of_integers(dtype):
    k = pd.Variable([3], dtype=dtype)
    a = np.array([-3, 0, np.iinfo(dtype).max], dtype)
    got = pd.eval([pd.relu(k), pd.prelu(k, pd.full([1], 2, dtype))], {k: a})
    np.testing.assert_array_equal(got, [np.maximum(a, 0), np.where(a < 0, 2 * a, a)])


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint16", "uint32", "uint64", "float16"])
def test_elements_are_moved_in_every_type(dtype):
    """By other types that have a place for each number: uint64 by int64, bool by uint8, …"""
    low, high = 0, {"bool": 1, "uint64": 2**64 - 1}.get(dtype, 30000)
    a = np.array([[low, high], [high, low]], dtype)
    x, flag = pd.Variable([2, 2], dtype=dtype), np.array([True, False])
    ys = [pd.where(flag, x, pd.transpose(x)), pd.pad(x, [0, 1], [0, 0]), pd.tril(x)]
    ys.append(pd.depth_to_space(pd.reshape(x, [1, 4, 1, 1]), 2))
    wanted = [
        np.where(flag, a, a.T),
        np.pad(a, ((0, 0), (1, 0))),
        np.tril(a),
        a.reshape(1, 1, 2, 2),
    ]
    for got, want in zip(pd.eval(ys, {x: a}), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == dtype


def test_the_order_of_large_unsigned_integers():
    x = pd.Variable([4], dtype="uint64")
    a = np.array([2**63, 1, 2**64 - 1, 2**53 + 1], np.uint64)
    values, places = pd.top_k(x, 4)
    got = pd.eval([pd.reduce_max(x), pd.reduce_min(x), values, places], {x: a})
    assert got[0] == a.max() and got[1] == 1
    np.testing.assert_array_equal(got[2], np.sort(a)[::-1])
    np.testing.assert_array_equal(a[got[3]], got[2])
