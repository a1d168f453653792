"""Each elementwise operator in a fused kernel, on special values, against ONNX Runtime's own."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from pd_core.backend.fused import operators
from pd_core.backend.fused.build import available
from tests.core.backend.fused.alone import fused, kinds_of, model_of, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1e-45,
    -1e-40,
    1e-38,
    -1.0,
    1.0,
    0.5,
    -0.5,
    2.5,
    -3.5,
]
SPECIAL += [1e-5, -2e-4, 88.0, -88.0, 89.5, -104.0, 7.0, -9.0, 3e38, -3e38, 1.7, -0.3, 12.0]
X = np.array([a for a in SPECIAL for _ in SPECIAL], np.float32)
Y = np.array(SPECIAL * len(SPECIAL), np.float32)
B, C = X > 0, Y == 1
WHOLE = np.arange(-8, 8) * 2**60 + 5, np.arange(16)[::-1] * 2**59 - 3
FLOAT, DOUBLE, INT64, BOOL = (
    getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "INT64", "BOOL")
)
SCALARS = {"low": np.float32(-0.5), "high": np.float32(1.25), "two": np.float32(2), "three": 3.0}
SCALARS["three"] = np.float32(3)
SCALARS["gate"] = np.full([len(X), 1], 0.3, np.float32)

# (operator, inputs, attributes); a name's first letter tells its type
ROWS = [
    *((op, "xy", {}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")),
    *((op, "dd2", {}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    *((op, "ij", {}) for op in ("Add", "Sub", "Mul", "Max", "Min")),
    *((op, "xy", {}) for op in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")),
    *((op, "ij", {}) for op in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")),
    *((op, "bc", {}) for op in ("And", "Or", "Xor")),
    *((op, "x", {}) for op in ("Neg", "Relu", "Reciprocal", "Softsign", "Sign", "Abs", "Sqrt")),
    *((op, "x", {}) for op in ("Floor", "Ceil", "Round", "Exp", "Log", "Tanh", "Sigmoid", "Gelu")),
    *((op, "x", {}) for op in ("Softplus", "Erf", "IsNaN", "HardSigmoid", "LeakyRelu")),
    *((op, "d", {}) for op in ("Neg", "Relu", "Abs", "Sqrt", "Exp", "Log", "Tanh", "Floor")),
    ("Neg", "i", {}),
    ("Not", "b", {}),
    ("HardSigmoid", "x", {"alpha": 0.3, "beta": 0.4}),
    ("LeakyRelu", "x", {"alpha": 0.3}),
    ("Max", "xyxz", {}),
    ("Where", "bxy", {}),
    ("Where", "bij", {}),
    ("Clip", ["x", "low", "high"], {}),
    ("Clip", ["x", "", "high"], {}),
    ("Clip", ["x", "low"], {}),
    ("Pow", ["x", "two"], {}),
    ("Pow", ["x", "three"], {}),
    *(("Cast", "x", {"to": to}) for to in (DOUBLE, BOOL)),
    *(("Cast", "i", {"to": to}) for to in (FLOAT, DOUBLE, BOOL, TensorProto.INT32)),
    *(("Cast", "b", {"to": to}) for to in (FLOAT, INT64, DOUBLE)),
    *(("Cast", "d", {"to": to}) for to in (FLOAT, BOOL)),
]
FEEDS = {"x": X, "y": Y, "z": Y[::-1].copy(), "d": X.astype(float), "2": Y.astype(float) * 1.1}
FEEDS |= {"i": WHOLE[0], "j": WHOLE[1], "b": np.resize(B, 16), "c": np.resize(C, 16)}
FEEDS |= {"bx": B}


def _inputs(given):
    names = given if isinstance(given, list) else list(given)
    if names == ["d", "d", "2"]:
        return ["d", "2"]
    return ["bx" if n == "b" and "x" in names else n for n in names]


@pytest.fixture(scope="module")
def results():
    """All rows in one library: {number of the row: (unfused, fused)}."""
    nodes, outputs = [], []
    for k, (op, given, attributes) in enumerate(ROWS):
        y = f"row{k}"
        nodes.append(helper.make_node(op, _inputs(given), [y], **attributes))
        # another operator after it: one alone is no group
        mask = f"mask{_size(given)}"
        after = ("And", [mask, y]) if _is_bool(op, attributes) else ("Where", [mask, y, y])
        nodes.append(helper.make_node(*after, [f"{y}/same"]))
        outputs += [y, f"{y}/same"]
    masks = {f"mask{n}": np.ones(n, bool) for n in (len(X), 16)}
    feeds = FEEDS | masks
    kinds = {k: (helper.np_dtype_to_tensor_dtype(v.dtype), list(v.shape)) for k, v in feeds.items()}
    model = model_of(nodes, kinds, outputs, SCALARS)
    changed, library = fused(model, kinds_of(model))
    left = [node.op_type for node in changed.graph.node if node.domain == ""]
    plain, found = run(model, feeds), run(changed, feeds, library)
    return left, {k: (plain[f"row{k}"], found[f"row{k}"]) for k in range(len(ROWS))}


def _is_bool(op, attributes):
    compares = {"Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", "And", "Or", "Xor"}
    return op in compares | {"Not", "IsNaN"} or attributes.get("to") == BOOL


def _size(given):
    return 16 if set(_inputs(given)) & set("ijbc") else len(X)


def test_all_rows_are_fused(results):
    assert results[0] == []


def test_all_elementwise_operators_have_a_row():
    assert operators.ELEMENTWISE - {op for op, _, _ in ROWS} == {"GatedAdd"}


# those that are sums of products or of quotients, or that the runtime approximates
APPROXIMATE = {"Exp", "Log", "Tanh", "Sigmoid", "Gelu", "Softplus", "Erf", "Softsign"}


@pytest.mark.parametrize("k", range(len(ROWS)), ids=lambda k: f"{ROWS[k][0]}-{k}")
def test_special_values(k, results):
    expected, found = results[1][k]
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    if ROWS[k][0] not in APPROXIMATE:
        np.testing.assert_array_equal(found, expected)
        both = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[both]), np.signbit(expected[both]))
        return
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
    zero = (X == 0) & ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


def test_tanh_saturates():
    """It is 1 where the nearest number is, and its error is within 3 units in the last place."""
    x = np.concatenate([np.linspace(7.8, 9.2, 500), [9.5, 20, 1e30, np.inf]]).astype(np.float32)
    x = np.concatenate([x, -x])
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Mul", ["t", "t"], ["y"])]
    model = model_of(nodes, {"x": (FLOAT, list(x.shape))}, ["t", "y"])
    changed, library = fused(model, kinds_of(model))
    y = run(changed, {"x": x}, library)["t"]
    assert (np.abs(y[np.abs(x) > 9.1]) == 1).all()
    assert np.abs(y - np.tanh(x.astype(np.float64))).max() < 3 * 2.0**-24
