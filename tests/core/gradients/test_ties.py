"""Gradients at points without a derivative, ties and kinks, are those of PyTorch."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.graph.node import apply

torch = pytest.importorskip("torch")
functions = torch.nn.functional


def slopes(function, *arrays):
    """Return the gradients of the sum of a function by each of its inputs."""
    slots = [pd.Variable(a.shape) for a in arrays]
    found = pd.gradients(function(*slots), slots)
    return pd.eval(found, dict(zip(slots, arrays, strict=True)))


def slopes_in_torch(function, *arrays):
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    function(*tensors).sum().backward()
    return [t.grad.numpy() for t in tensors]


def same(ours, theirs, *arrays):
    arrays = [np.array(a, np.float32) for a in arrays]
    for found, wanted in zip(slopes(ours, *arrays), slopes_in_torch(theirs, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def onnx(op_type, **attributes):
    return lambda *inputs: apply(op_type, *inputs, **attributes)


AT_BENDS = {
    "abs": (pd.abs, torch.abs, [-1, 0, 1]),
    "relu": (pd.relu, torch.relu, [-1, 0, 1]),
    "leaky relu": (pd.leaky_relu, functions.leaky_relu, [-1, 0, 1]),
    "clip": (lambda x: pd.clip(x, -1.0, 2.0), lambda x: x.clamp(-1, 2), [-2, -1, 0, 2, 3]),
    "Elu": (onnx("Elu"), functions.elu, [-1, 0, 1]),
    "Selu": (onnx("Selu"), functions.selu, [-1, 0, 1]),
    "Celu": (onnx("Celu", alpha=2.0), lambda x: functions.celu(x, 2.0), [-1, 0, 1]),
    "HardSigmoid": (onnx("HardSigmoid", alpha=1 / 6), functions.hardsigmoid, [-4, -3, 0, 3, 4]),
    "HardSwish": (onnx("HardSwish"), functions.hardswish, [-4, -3, 0, 3, 4]),
    "ThresholdedRelu": (
        onnx("ThresholdedRelu", alpha=1.0),
        lambda x: functions.threshold(x, 1.0, 0.0),
        [0, 1, 2],
    ),
    "Shrink": (onnx("Shrink", lambd=0.5), functions.hardshrink, [-0.5, 0, 0.5, 1]),
    "length": (onnx("ReduceL2", keepdims=0), lambda x: x.norm(), [0, 0]),
    "PRelu": (onnx("PRelu"), lambda x, w: functions.prelu(x, w), [-1, 0, 1], [0.25]),
}


@pytest.mark.parametrize("case", AT_BENDS.values(), ids=AT_BENDS.keys())
def test_slopes_at_bends(case):
    same(*case)


EQUAL = [[1, 3, 3, 0], [2, 2, 2, 2], [-1, -1, -2, -1]]
FULL = list(range(1, 4))
OF_EQUALS = {
    "reduce_max": (lambda x: pd.reduce_max(x, [1]), lambda x: x.amax(1), EQUAL),
    "reduce_max of all": (pd.reduce_max, lambda x: x.max(), EQUAL),
    "reduce_min": (lambda x: pd.reduce_min(x, [0, 1]), lambda x: x.amin((0, 1)), EQUAL),
    "maximum": (pd.maximum, torch.maximum, [1, 2, 3, -np.inf], [2, 2, 3, -np.inf]),
    "minimum": (pd.minimum, torch.minimum, [1, 2, 3, np.inf], [2, 2, 3, np.inf]),
    "maximum, stretched": (pd.maximum, torch.maximum, EQUAL, [2]),
    "top k": (
        lambda x: onnx("TopK", outputs=2)(x, np.array([1]))[0],
        lambda x: x.gather(1, x.argmax(1, keepdim=True)),
        EQUAL,
    ),
    "scatter max": (
        lambda x, v: ops.scatter(x, np.array([0, 0, 2]), v, reduction="max"),
        lambda x, v: x.scatter_reduce(0, torch.tensor([0, 0, 2]), v, "amax"),
        [3, 1, 2],
        [3, 3, 1],
    ),
    "GlobalMaxPool": (
        onnx("GlobalMaxPool"),
        lambda x: functions.adaptive_max_pool2d(x, 1),
        [[EQUAL, [[1] * 4] * 3]],
    ),
}


@pytest.mark.parametrize("case", OF_EQUALS.values(), ids=OF_EQUALS.keys())
def test_slopes_of_equal_elements(case):
    same(*case)


def test_the_first_pixel_of_an_image_of_unknown_size():
    x = np.array([[EQUAL, [[1] * 4] * 3]], np.float32)
    slot = pd.Variable([None, 2, None, None])
    (found,) = pd.gradients(apply("GlobalMaxPool", slot), [slot])
    (wanted,) = slopes_in_torch(lambda v: functions.adaptive_max_pool2d(v, 1), x)
    np.testing.assert_array_equal(pd.eval(found, {slot: x}), wanted)


def test_the_first_pixel_of_a_region():
    x, region = np.ones((1, 1, 4, 4), np.float32), np.array([[0, 0, 0, 3, 3]], np.float32)
    (found,) = slopes(lambda v: pd.roi_max_pool(v, pd.constant(region), 2), x)
    assert np.argwhere(found[0, 0]).tolist() == [[0, 0], [0, 2], [2, 0], [2, 2]]


def test_three_operands_share_evenly():
    found = slopes(onnx("Max"), *np.array([[1, 2, 3], [1, 2, 2], [1, 0, 1]], np.float32))
    np.testing.assert_allclose(found, [[1 / 3, 0.5, 1], [1 / 3, 0.5, 0], [1 / 3, 0, 0]])


# ---- powers

POWERS = {
    "of an exponent that is 0": ([0, 0, 2, -2], [0, 1, 0, 0]),
    "of a base that is 0": ([0, 0, 0], [0, 2, 0.5]),
    "of both": ([0, 3, 0.5], [0, 2, 3]),
}


@pytest.mark.parametrize("case", POWERS.values(), ids=POWERS.keys())
def test_slopes_of_powers(case):
    same(pd.pow, torch.pow, *case)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 0.5, [0.0, 2.0, 3.0]])
def test_slopes_of_powers_by_a_constant(exponent):
    base = [1, 0, 2] if np.ndim(exponent) else [1, 2, 3]
    exponent = np.array(exponent, np.float32)
    same(lambda x: x**exponent, lambda x: x ** torch.tensor(exponent), base)


def test_slopes_of_powers_of_a_constant():
    base = np.array([0, 2, 0], np.float32)
    same(lambda b: pd.pow(base, b), lambda b: torch.tensor(base) ** b, [2, 3, 0])


def test_second_derivatives_of_powers_are_finite():
    base, exponent = pd.Variable([4]), pd.Variable([4])
    first = pd.gradients(base**exponent, [base, exponent])
    found = [g for v in first for g in pd.gradients(v, [base, exponent])]
    data = {base: np.array([0, 0, 2, 0]), exponent: np.array([0, 2, 0, 1])}
    assert np.isfinite(pd.eval(found, data)).all()


def test_a_constant_exponent_costs_nothing_more():
    x = pd.Variable([3])
    (found,) = pd.gradients(x**3.0, [x])
    assert [n.op_type for n in pd.subgraph(found)].count("Where") == 0


# ---- float16, which a device computes in float32 and rounds what is an output alone

HALF = np.random.default_rng(0).standard_normal((4, 8)).astype("float16")
OF_HALF = {
    "max": lambda x: pd.reduce_max(x * 1.7 + 0.1, 1),
    "min": lambda x: pd.reduce_min(x * 1.7 + 0.1, 1, keep_dim=True),
    "max of all": lambda x: pd.reduce_max(pd.tanh(x)),
    "norm": lambda x: pd.norm(x - 0.3, np.inf, 1),
    "maximum": lambda x: pd.maximum(x * 1.7, x * -0.3 + 0.1),
    "minimum": lambda x: pd.minimum(x * 1.7, x * -0.3 + 0.1),
    "segments": lambda x: pd.segment_max(x * 1.7, np.array([0, 0, 1, 1]), 2),
    "edges": lambda x: pd.histogram(x * 1.7, 4)[1],
}


@pytest.mark.parametrize("name", OF_HALF)
def test_computed_numbers_of_float16(name):
    found = []
    for dtype in ("float16", "float32"):
        x = pd.Variable(shape=[None, 8], dtype=dtype)
        y = OF_HALF[name](x)
        (slope,) = pd.gradients(pd.reduce_sum(pd.square(pd.cast(y, "float32") + 1.0)), [x])
        found.append(pd.eval([y, slope], {x: HALF.astype(dtype)}))
    for half, single in zip(*found, strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, single, rtol=0.02, atol=0.02)
