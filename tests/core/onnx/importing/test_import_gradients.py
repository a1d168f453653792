"""Derivatives of imported graphs, of the first and second order, against central differences."""

import numpy as np
import onnx
import pytest

import pd_core as pd

from ...gradients.node_suite.cases import doubled
from .test_import import WHOLE, arrays_of, label, model_of

STEPS = 1e-5, -1e-5
GROWING = WHOLE[2]  # a loop whose state has other sizes in every step
NESTED = [
    (
        *(13, "float[2] x, float[2,2] w", "float[?] y, float[?] all"),  # it ends early
        "n = Constant<value=int64 {20}>() c = Constant<value=bool {1}>()"
        " y, all = Loop(n, c, x) <body = g (int64 i, bool p, float[2] h)"
        " => (bool q, float[2] h2, float[2] s)"
        " { m = MatMul(h, w) h2 = Tanh(m) s = Mul(h2, x) t = ReduceSum<keepdims=0>(h2)"
        " k = Constant<value=float {0.3}>() u = Abs(t) q = Greater(u, k) }>",
    ),
    (
        *(16, "float[2] x, float[3,2] z", "float[?] y"),  # a branch in a scan
        "a, ys = Scan<num_scan_inputs=1, body = g (float[2] h, float[2] v)"
        " => (float[2] h2, float[2] o) { s = ReduceSum<keepdims=0>(v)"
        " zero = Constant<value=float {0.0}>() c = Greater(s, zero)"
        " h2 = If(c) <then_branch = g1 () => (float[2] p) { t = Mul(h, v) p = Sin(t) },"
        " else_branch = g2 () => (float[2] p2) { t2 = Add(h, x) p2 = Tanh(t2) }>"
        " o = Mul(h2, v) }>(x, z) b = ReduceSum<keepdims=0>(ys) y = Mul(a, b)",
    ),
    (
        *(21, "float[3,4] x, float[4,4] w, float[4] b", "float[?] y"),
        'e = Einsum<equation="ij,kj->ik">(x, w) s = Add(e, b) t = Softmax(s)'
        " d = MatMul(w, w) f = Det(d) n = LpNormalization(t) a = ReduceLogSumExp(n)"
        " y = Mul(a, f)",
    ),
]


def projected(model, rng):
    """Return a projection of the float outputs of a model, its inputs, and values for them."""
    f = pd.import_onnx(model)
    feeds = {n: a.astype("float64") for n, a in arrays_of(model, rng).items()}
    slots = {n: pd.Variable(list(f.inputs[n][0]), dtype="float64") for n in feeds}
    outputs = f(**slots)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cost = sum(pd.reduce_sum(pd.sin(y)) for y in outputs if y.dtype == np.float64)
    return cost, list(slots.values()), {slots[n]: a for n, a in feeds.items()}


def along(cost, variables, directions):
    """Return the derivative of a cost along directions."""
    pairs = zip(pd.gradients(cost, variables), directions, strict=True)
    return sum(pd.reduce_sum(g * v) for g, v in pairs if g is not None)


@pytest.mark.parametrize("row", [r for r in (*WHOLE, *NESTED) if r is not GROWING], ids=label)
def test_slopes_of_both_orders(row, rng):
    cost, variables, feeds = projected(doubled(model_of(*row)), rng)
    session = pd.Session("reference" if row[0] == 21 else "cpu")  # kernels for float64
    directions = [rng.standard_normal(feeds[x].shape) for x in variables]
    first = along(cost, variables, directions)
    second = along(first, variables, directions)
    for value, slope in ((cost, first), (first, second)):
        moves = [dict(zip(variables, [h * v for v in directions], strict=True)) for h in STEPS]
        above, below = (
            session.eval(value, {x: a + move[x] for x, a in feeds.items()}) for move in moves
        )
        numeric = (above - below) / (STEPS[0] - STEPS[1])
        assert session.eval(slope, feeds) == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_a_state_that_grows_has_no_gradient(rng):
    f = pd.import_onnx(model_of(*GROWING))
    x = pd.Variable([1, 3])
    (g,) = pd.gradients(pd.square(f(x)), [x])
    with pytest.raises(pd.BackendError, match="Inconsistent shape in loop output"):
        pd.eval(g, {x: np.ones((1, 3))})


ROUNDED = {
    "QuantizeLinear, which gives 'q': it rounds to integers; gradients pass it to a DequantizeL": (
        "q = QuantizeLinear(h, s, z) y = DequantizeLinear(q, t, z)"
    ),
    "QuantizeLinear, which gives 'q'": (
        "q = QuantizeLinear(h, s, z) r = Max(q, z) y = DequantizeLinear(r, s, z)"
    ),
    "QLinearMatMul, which gives 'p': it multiplies integers": (
        "q = QuantizeLinear(h, s, z) p = QLinearMatMul(q, s, z, v, t, z, s, z)"
        " y = DequantizeLinear(p, s, z)"
    ),
    "MatMulInteger, which gives 'p': it multiplies integers": (
        "q, e, f = DynamicQuantizeLinear(h) p = MatMulInteger(q, v, f) g = Cast<to=1>(p)"
        " y = Mul(g, e)"
    ),
}


@pytest.mark.parametrize("message", ROUNDED)
def test_no_gradient_of_what_multiplies_integers(message):
    """It is an error where a gradient comes to it, and no zero; what is behind it is trained."""
    stored = (
        "<float[3,3] w = {1,2,3,4,5,6,7,8,9}, float[3] b = {1,2,3}, float s = {0.1},"
        " float t = {0.2}, uint8 z = {7}, uint8[3,3] v = {1,2,3,4,5,6,7,8,9}>"
    )
    nodes = f"h = MatMul(x, w) {ROUNDED[message]} o = Mul(y, b)"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g (float[3,3] x) => (float o) {stored}'
        f" {{ {nodes} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    f = pd.import_onnx(model, trainable=["w", "b"])
    cost = pd.reduce_sum(f(np.ones((3, 3), "float32")))
    with pytest.raises(pd.NoGradient, match=f"{message}.*(?s:.*)hint: freeze"):
        pd.gradients(cost, [f.parameters["w"]])
    (g,) = pd.gradients(cost, [f.parameters["b"]])
    assert g.eval().any()


def test_a_size_of_the_file_may_turn_out_to_be_one(rng):
    nodes = "m = ReduceMax(x, a) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) y = Div(e, s)"
    f = pd.import_onnx(model_of(18, "float[N,M] x, int64[1] a", "float[?] y", nodes))
    x, axes = pd.Variable([None, None]), pd.Variable([1], dtype="int64")
    y = f(x, axes)
    weights = rng.standard_normal((3, 4)).astype("float32")
    (g,) = pd.gradients(y * weights, [x])
    rows = rng.standard_normal((3, 4))
    for axis in (0, 1):
        (same,) = pd.gradients(pd.apply("Softmax", x, axis=axis) * weights, [x])
        found = pd.eval(g, {x: rows, axes: [axis]})
        np.testing.assert_allclose(found, pd.eval(same, {x: rows}), rtol=1e-4, atol=1e-6)
