"""Operators in float64 that ONNX Runtime's CPU has no kernels for: all digits, and every form."""

import math

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.dtypes import double
from pd_core.backend.dtypes.kernels import kernels
from pd_core.backend.dtypes.lowering import SHAPED
from pd_core.graph.formulas import formulas
from pd_core.graph.inference import CEILING
from pd_core.graph.node import apply
from tests.core.gradients.node_suite import cases as node_suite

RNG = np.random.default_rng(0)
WIDE = np.concatenate([RNG.standard_normal(200) * s for s in (1e-9, 1e-3, 0.1, 1, 5, 30)])
WIDE = np.concatenate([WIDE, [0.0, 1e-300, -1e-300, 709.0, -710.0, np.inf, -np.inf, np.nan]])
UNIT = np.concatenate([RNG.uniform(-1, 1, 500), 1 - 10.0 ** -np.arange(1, 16), [-1, 1, 2, -3]])
UNIT = np.concatenate([UNIT, [1e-12, -1e-9, 0.0, np.nan]])


def erf(x):
    return np.vectorize(math.erf)(x)


def expm1_below_zero(x, height=1.0, width=1.0):
    return np.where(x > 0, x, height * np.expm1(np.minimum(x, 0) / width))


# operator: NumPy's function, its points, attributes
FUNCTIONS = {
    "Tan": (np.tan, WIDE),
    "Atan": (np.arctan, WIDE),
    "Asin": (np.arcsin, UNIT),
    "Acos": (np.arccos, UNIT),
    "Sinh": (np.sinh, WIDE),
    "Cosh": (np.cosh, WIDE),
    "Asinh": (np.arcsinh, np.append(WIDE, [1e300, -1e9, 1e7])),
    "Acosh": (np.arccosh, np.append(1 + abs(WIDE), [0.5, -2.0, 1e300])),
    "Atanh": (np.arctanh, UNIT),
    "Erf": (erf, WIDE),
    "Gelu": (lambda x: np.where(x == -np.inf, np.nan, x * (1 + erf(x * 0.5**0.5)) / 2), WIDE),
    "Softplus": (lambda x: np.logaddexp(0, x), WIDE),
    "Softsign": (lambda x: x / (1 + abs(x)), WIDE),
    "LeakyRelu": (lambda x, alpha: np.where(x < 0, alpha * x, x), WIDE, {"alpha": 0.3}),
    "Elu": (expm1_below_zero, WIDE),
    "Selu": (
        lambda x, alpha, gamma: gamma * expm1_below_zero(x, alpha),
        WIDE,
        {"alpha": 1.7, "gamma": 1.1},
    ),
    "ThresholdedRelu": (lambda x, alpha: np.where(x <= alpha, 0, x), WIDE, {"alpha": 0.3}),
    "HardSigmoid": (
        lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
        WIDE,
        {"alpha": 0.3, "beta": 0.4},
    ),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), WIDE),
    "Swish": (lambda x, alpha: x / (1 + np.exp(-alpha * x)), WIDE, {"alpha": 1.3}),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), WIDE),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_functions_have_all_digits(op_type):
    function, points, attributes = (*FUNCTIONS[op_type], {})[:3]
    x = pd.Variable([None], dtype="float64")
    got = pd.eval(apply(op_type, x, **attributes), {x: points})
    want = function(points, **attributes)
    # a value near 1 leaves the difference to it no more digits than these
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_functions_are_all_tested():
    # by ONNX's own cases; Celu is for float32 only
    others = {"Celu", "Hardmax", "LogSoftmax", "Mean", "PRelu"}
    assert {*FUNCTIONS, *others} == {*double.FUNCTIONS}


# operators whose cases take sizes or scales that are float32, or are not for float64 at all
_FLOAT32 = {"Celu", "DynamicQuantizeLinear", "DequantizeLinear", "RotaryEmbedding"}
OPERATORS = {
    op_type
    for op_type in {*SHAPED, *formulas, "Hardmax", "Mean", "PRelu"} - _FLOAT32
    if not any("float64" in t for kernel in kernels(op_type, CEILING) for t in kernel.values())
}
MOST = {"Resize": 20, "AveragePool": 20}  # cases, 8 of the others
# outputs that ONNX stores with four digits
COARSE = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}


def cases():
    """Some of ONNX's own cases for each operator; forms differ more than sizes do."""
    for op_type, name, model, data in node_suite.tests():
        scaled = "resize" in name and "scales" in name
        if op_type in OPERATORS and not scaled and "tf_crop" not in name:
            yield op_type, name, model, data


def test_every_form_of_an_operator_is_that_of_onnx():
    counts: dict[str, int] = {}
    for op_type, name, model, (inputs, outputs) in cases():
        counts[op_type] = counts.get(op_type, 0) + 1
        if counts[op_type] > MOST.get(op_type, 8):
            continue
        names = [i.name for i in model.graph.input]
        arrays = [wide(x) for x in inputs]
        with pd.fresh():
            xs = [pd.Variable(list(a.shape), dtype=a.dtype) for a in arrays]
            ys = pd.import_onnx(node_suite.doubled(model))(**dict(zip(names, xs, strict=True)))
            ys = list(ys) if isinstance(ys, tuple) else [ys]
            found = pd.eval(ys, dict(zip(xs, arrays, strict=True)))
        for value, want in zip(found, outputs, strict=True):
            assert value.shape == want.shape, name
            rtol = 1e-3 if name in COARSE else 1e-5
            np.testing.assert_allclose(value, want, rtol=rtol, atol=1e-5, err_msg=name)
    assert len(counts) > 25


def wide(x):
    a = np.asarray(x)
    return a.astype(np.float64) if a.dtype == np.float32 else a
