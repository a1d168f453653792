"""Small models that random ones led to, beside ONNX Runtime: values, exports, slopes, steps."""

import numpy as np
import onnx
import pytest
from onnx import parser

import pd_core as pd
from tests.campaign.models.check import plain, verdicts

HEAD = '<ir_version: 8, opset_import: ["": %d]> g (%s) => (%s[] y) %s { %s }'
_FLOAT64_FUNCTIONS = ("Elu", "Selu", "LeakyRelu", "HardSigmoid", "Softplus", "Mish", "HardSwish")

# (opset, inputs, type of the output, initializers, nodes, shapes of the inputs)
ROWS = {
    **{
        f"{op} in float64": (18, "double[2,3] x", "double", "", f"y = {op}(x)", {"x": (2, 3)})
        for op in _FLOAT64_FUNCTIONS
    },
    "DFT, real or complex": (
        20, "double[2,4,?] x", "double", "", "y = DFT(x)", {"x": (2, 4, 1)},
    ),
    "DFT of complex numbers": (
        20, "double[2,4,?] x", "double", "", "y = DFT<onesided=1>(x)", {"x": (2, 4, 1)},
    ),
    "inverse DFT": (
        20, "double[2,4,?] x", "double", "", "y = DFT<inverse=1>(x)", {"x": (2, 4, 2)},
    ),
    "Resize, cropped": (
        21, "float[2,3,5] x, float[6] roi", "float", "<float[3] s = {1, 1.5, 2.6}>",
        'y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, roi, s)',
        {"x": (2, 3, 5), "roi": (6,)},
    ),
    "Resize of axes": (
        21, "float[2,3,5] x", "float", "<float[1] s = {2.6}>",
        'y = Resize<axes=[2], mode="linear">(x, "", s)', {"x": (2, 3, 5)},
    ),
    "Resize to sizes between": (
        21, "float[1,1,3,5] x", "float", "<float[4] s = {1, 1, 1.5, 2.6}>",
        'y = Resize<mode="linear">(x, "", s)', {"x": (1, 1, 3, 5)},
    ),
    "half precision, normalized": (
        20, "float16[1,2,3,2] x", "float16", "", "y = MeanVarianceNormalization(x)",
        {"x": (1, 2, 3, 2)},
    ),
    "a place in a sequence from its end": (
        18, "float[2,3] x", "float", "<int64 p = {-1}, int64 first = {0}>",
        "a = Neg(x) b = SequenceConstruct(a, a) c = SequenceInsert(b, x, p)"
        " y = ConcatFromSequence<axis=0>(c)", {"x": (2, 3)},
    ),
    "a transposed convolution of nothing": (
        18, "float[1,2,3] x, float[2,1,2] w", "float", "<int64[2] s = {3, 0}>",
        "a, b = Split<axis=2>(x, s) y = ConvTranspose(b, w)", {"x": (1, 2, 3), "w": (2, 1, 2)},
    ),
    "an open size beside one that is computed": (
        18, "float[4,2] x, int64[1] k, float[?,?] e", "float", "<int64 axis = {-1}>",
        "a, b = TopK<axis=-2>(x, k) c = CumSum(a, axis) y = Mul(c, e)",
        {"x": (4, 2), "e": (1, 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_rare_model(name, rng):
    opset, inputs, kind, stored, nodes, shapes = ROWS[name]
    model = parser.parse_model(HEAD % (opset, inputs, kind, stored, nodes))
    dtype = {"double": "float64", "float16": "float16"}.get(kind, "float32")
    feeds = {n: rng.uniform(0.2, 1, s).astype(dtype) for n, s in shapes.items()}
    if "int64[1] k" in inputs:
        feeds["k"] = np.array([1])
    found = list(verdicts(model, feeds))
    assert {outcome for outcome, _ in found} <= {"right", "no slope"}, found
    assert {"values", "export"} <= {what for _, what in found}


@pytest.mark.parametrize("opset", [18, 21, None])
def test_a_step_in_float64_runs_where_it_is_exported(opset, rng):
    """Functions of ONNX without a kernel are written by their formulas."""
    x = pd.Variable("x", shape=[2, 3], dtype="float64")
    w = pd.Variable("w", data=rng.standard_normal((3, 2)), dtype="float64")
    cost = pd.reduce_mean(pd.elu(x @ w))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    model = pd.export_step(None, step, [cost], opset=opset)
    feeds = {"x": rng.standard_normal((2, 3))}
    found = plain(model, feeds)
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found[0], pd.eval(cost, {x: feeds["x"]}), rtol=1e-12)
    single = pd.export_onnx(None, pd.elu(pd.Variable("s", shape=[2])), opset=opset)
    assert "Elu" in onnx.printer.to_text(single)  # which has a kernel for float32
