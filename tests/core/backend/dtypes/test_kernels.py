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
