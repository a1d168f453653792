"""Activations: their names, their formulas, and 2017's derivatives, which it took from results."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import activation as A

from .layer import reference_layers as naive

# Columns: class, name in the configuration, f(x), f'(x) where y = f(x), the range it is tested on.
# fmt: off
TABLE = [
    (A.Identity, "", lambda x: x, lambda x, y: np.ones_like(x), (-3, 3)),
    (A.Tanh, "tanh", np.tanh, lambda x, y: 1 - y * y, (-3, 3)),
    (A.Sigmoid, "sigmoid", lambda x: 1 / (1 + np.exp(-np.clip(x, -40, 13))),
     lambda x, y: y * (1 - y), (-3, 3)),
    (A.Relu, "relu", lambda x: np.maximum(x, 0), lambda x, y: y > 0, (-3, 3)),
    (A.BRelu, "brelu", lambda x: np.clip(x, 0, 24), lambda x, y: (y > 0) & (y < 24), (-30, 30)),
    (A.SoftRelu, "softrelu", lambda x: np.log1p(np.exp(np.clip(x, -40, 40))),
     lambda x, y: 1 - np.exp(-y), (-3, 3)),
    (A.STanh, "stanh", lambda x: 1.7159 * np.tanh(2 * x / 3),
     lambda x, y: 2 / 3 * (1.7159 - y * y / 1.7159), (-3, 3)),
    (A.Abs, "abs", np.abs, lambda x, y: np.sign(x), (-3, 3)),
    (A.Square, "square", np.square, lambda x, y: 2 * x, (-3, 3)),
    (A.Exp, "exponential", np.exp, lambda x, y: y, (-3, 3)),
    (A.Log, "log", np.log, lambda x, y: 1 / x, (0.1, 3)),
    (A.Sqrt, "sqrt", np.sqrt, lambda x, y: 0.5 / y, (0.1, 3)),
    (A.Reciprocal, "reciprocal", lambda x: 1 / x, lambda x, y: -y * y, (0.1, 3)),
    (A.SoftSign, "softsign", lambda x: x / (1 + np.abs(x)),
     lambda x, y: (1 - np.abs(y)) ** 2, (-3, 3)),
]
# fmt: on
elementwise = pytest.mark.parametrize(
    ("kind", "name", "f", "derivative", "range_"), TABLE, ids=[row[0].__name__ for row in TABLE]
)


def applied(activation, value, seed=None):
    """(result, gradient) of a layer with this activation and nothing else."""
    value = np.asarray(value, np.float32)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(value.shape[1]))
    y = paddle.layer.addto(x, act=activation)
    (gradient,) = pd.gradients(y, [x], seeds=None if seed is None else [pd.constant(seed)])
    return pd.eval([y, gradient], {x: value})


@elementwise
def test_formula(kind, name, f, derivative, range_, rng):
    value = rng.uniform(*range_, (7, 9)).astype(np.float32)
    y, gradient = applied(kind(), value)
    expected = f(value.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, derivative(value, expected), rtol=2e-5, atol=1e-6)


@elementwise
def test_name(kind, name, f, derivative, range_):
    activation = kind()
    assert activation.name == repr(activation) == str(activation) == name
    assert activation.support_hppl == (name in ("tanh", "sigmoid", "relu"))


def test_every_activation_has_a_row_here():
    known = {row[0] for row in TABLE} | {A.Softmax, A.SequenceSoftmax, A.Base}
    assert {getattr(A, name) for name in A.__all__} == known
    assert A.Linear is A.Identity


@pytest.mark.parametrize(
    ("kind", "far", "held"),
    [(A.Sigmoid, [-100, 20, 1e9, -1e9], [-40, 13, 13, -40]), (A.SoftRelu, [50, 1e9], [40, 40])],
)
def test_what_is_far_from_zero_is_held_but_keeps_its_derivative(kind, far, held):
    _, _, f, derivative, _ = next(row for row in TABLE if row[0] is kind)
    y, gradient = applied(kind(), [far])
    expected = f(np.float64([held]))
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(gradient, derivative(None, expected), rtol=0.1, atol=1e-12)


def test_no_gradient_where_a_rectifier_is_off():
    for kind in (A.Relu, A.BRelu):
        with paddle.build.fresh():
            assert applied(kind(), [[0.0, -1.0]])[1].tolist() == [[0, 0]]


AT_0 = {
    A.Abs: (0, 0),
    A.Square: (0, 0),
    A.SoftSign: (0, 1),
    A.Sqrt: (0, np.inf),
    A.Log: (-np.inf, np.inf),
    A.Reciprocal: (np.inf, -np.inf),
}


@pytest.mark.parametrize("kind", AT_0)
def test_at_0(kind):
    y, gradient = applied(kind(), [[0.0]])
    assert (y.item(), gradient.item()) == AT_0[kind]


def test_no_gradient_where_a_bounded_rectifier_is_full():
    y, gradient = applied(A.BRelu(), [[23.5, 24.0, 24.5]])
    np.testing.assert_array_equal(y, [[23.5, 24, 24]])
    np.testing.assert_array_equal(gradient, [[1, 0, 0]])


def test_softmax_is_over_the_row(rng):
    value = rng.normal(0, 3, (5, 4)).astype(np.float32)
    seed = rng.standard_normal((5, 4)).astype(np.float32)
    y, gradient = applied(A.Softmax(), value, seed)
    p = naive.softmax(value.astype(np.float64))
    np.testing.assert_allclose(y, p, rtol=1e-5)
    expected = p * (seed - (p * seed).sum(1, keepdims=True))
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_softmax_of_an_image_is_over_all_its_numbers(rng):
    size = 2 * 3 * 3
    im = paddle.layer.data(name="im", type=paddle.data_type.dense_vector(size), height=3, width=3)
    y = paddle.layer.img_conv(
        im, filter_size=1, num_filters=2, act=A.Softmax(), bias_attr=False, name="y"
    )
    pool = paddle.parameters.create(y)
    pool.set("_y.w0", np.eye(2, dtype=np.float32).reshape(1, 4))
    value = rng.standard_normal((2, size)).astype(np.float32)
    np.testing.assert_allclose(pd.eval(y, {im: value}), naive.softmax(value), rtol=1e-5)


def test_softmax_of_large_numbers():
    y, _ = applied(A.Softmax(), [[1e4, 0.0, 1e4]])
    np.testing.assert_allclose(y, [[0.5, 0.0, 0.5]])


def test_softmax_over_sequences_needs_one():
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    with pytest.raises(pd.GraphError, match=r"fc layer .*sequence_softmax is over the steps"):
        paddle.layer.fc(x, size=1, act=A.SequenceSoftmax())


def test_an_activation_of_ones_own():
    class Doubled(A.Base):
        def __init__(self):
            super().__init__("doubled", False)

        def __call__(self, x):
            return x * 2.0

    assert applied(Doubled(), [[1.5]])[0].tolist() == [[3.0]]


def test_a_name_alone_computes_nothing():
    with pytest.raises(TypeError, match="activation 'gelu' does not say what it computes"):
        applied(A.Base("gelu", False), [[1.0]])
