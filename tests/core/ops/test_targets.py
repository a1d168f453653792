"""Losses of outputs beside targets: of any type, and [N] beside [N, 1], against NumPy."""

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import thinned

X = np.array([1.5, -0.25, 0.5, -2.0])
T = np.array([0, 1, 1, 0])
P = 1 / (1 + np.exp(-X))


def entropy(p, t):
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


def focal(x, t):
    p = 1 / (1 + np.exp(-x))
    right = np.where(t == 1, p, 1 - p)
    return -np.where(t == 1, 0.25, 0.75) * (1 - right) ** 2 * np.log(right)


def ones(x):
    return pd.ones_like(x)


# {name: (loss of x and t, its formula)}, elementwise
ELEMENTS = {
    "sigmoid_cross_entropy": (pd.sigmoid_cross_entropy, entropy(P, T)),
    "binary_cross_entropy": (lambda x, t: pd.binary_cross_entropy(pd.sigmoid(x), t), entropy(P, T)),
    "focal_loss": (pd.focal_loss, focal(X, T)),
    "hinge_loss": (pd.hinge_loss, np.maximum(0, 1 - T * X)),
    "l1_loss": (pd.l1_loss, abs(X - T)),
    "huber_loss": (
        pd.huber_loss,
        np.where(abs(X - T) <= 1, (X - T) ** 2 / 2, abs(X - T) - 0.5),
    ),
    "poisson_nll_loss": (pd.poisson_nll_loss, np.exp(X) - T * X),
    "gaussian_nll_loss": (lambda x, t: pd.gaussian_nll_loss(x, t, ones(x)), (X - T) ** 2 / 2),
    "margin_ranking_loss": (
        lambda x, t: pd.margin_ranking_loss(x, 0.0 * x, t),
        np.maximum(0, -T * X),
    ),
}
# Losses of rows [N, 1].
ROWS = {
    "square_error": (pd.square_error, (X - T) ** 2),
    "dice_loss": (
        lambda x, t: pd.dice_loss(pd.sigmoid(x), t),
        1 - (2 * P * T + 1) / (P + T + 1),
    ),
    "contrastive_loss": (
        lambda x, t: pd.contrastive_loss(x, 0.0 * x, t),
        (T * X**2 + (1 - T) * np.maximum(0, 1 - abs(X)) ** 2) / 2,
    ),
    "cosine_embedding_loss": (
        lambda x, t: pd.cosine_embedding_loss(x, ones(x), t),
        np.where(T > 0, 1 - np.sign(X), np.maximum(0, np.sign(X))),
    ),
}
# Losses as layers, without a reduction.
LAYERS = {
    "SigmoidCrossEntropy": (pd.nn.SigmoidCrossEntropy, entropy(P, T)),
    "Focal": (pd.nn.Focal, focal(X, T)),
    "MSE": (pd.nn.MSE, (X - T) ** 2),
    "L1": (pd.nn.L1, abs(X - T)),
    "Huber": (pd.nn.Huber, ELEMENTS["huber_loss"][1]),
    "PoissonNLL": (pd.nn.PoissonNLL, np.exp(X) - T * X),
}
LAYERS = {
    name: (lambda x, t, loss=loss: loss(reduction="none")(x, t), wanted)
    for name, (loss, wanted) in LAYERS.items()
}
TYPES = ["bool", "int8", "int32", "int64", "uint8", "uint64", "float32"]
ALL = {**ELEMENTS, **ROWS, **LAYERS}
CASES = [
    (name, x, t)
    for name in ALL
    for x in ((4, 1), (4,))
    for t in ((4, 1), (4,))
    if x == (4, 1) or name not in ROWS
]
TYPED = [(*case, kind) for case in CASES for kind in TYPES]


def outputs(shape):
    return X.reshape(shape).astype("float32")


@pytest.mark.parametrize("name, x, t, kind", thinned(TYPED, 3), ids=str)
def test_targets_of_any_type_stand_in_the_shape_of_the_outputs(name, x, t, kind):
    loss, wanted = ALL[name]
    wanted = wanted.reshape(x)
    data, target = outputs(x), T.reshape(t).astype(kind)
    a, b = pd.Variable([None, *x[1:]]), pd.Variable([None, *t[1:]], dtype=kind)
    y = loss(a, b)
    np.testing.assert_allclose(pd.eval(y, {a: data, b: target}), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loss(data, target).eval(), wanted, rtol=1e-5, atol=1e-6)
    with pd.guard():
        found = loss(pd.to_variable(data), pd.to_variable(target)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    one = pd.eval(y, {a: data[:1], b: target[:1]})
    np.testing.assert_allclose(one, wanted[:1], rtol=1e-5, atol=1e-6)
    assert pd.eval(y, {a: data[:0], b: target[:0]}).shape == (0, *x[1:])


@pytest.mark.parametrize("name", ALL)
def test_gradients_pass_to_the_outputs_in_their_shape(name):
    loss, _ = ALL[name]
    x = pd.Variable(data=outputs((4, 1)), trainable=True)
    column = pd.gradients(pd.reduce_mean(loss(x, T.reshape(4, 1).astype("f"))), [x])[0]
    vector = pd.gradients(pd.reduce_mean(loss(x, T)), [x])[0]
    a, b = pd.eval([column, vector])
    assert a.shape == (4, 1) and np.isfinite(a).all()
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ELEMENTS)
def test_another_number_of_targets_is_an_error(name):
    loss, _ = ELEMENTS[name]
    with pytest.raises(pd.ShapeError, match=r"beside|sizes"):
        loss(outputs((4, 1)), np.ones(3, "f"))
    x, t = pd.Variable([None, 1]), pd.Variable([None])
    with pytest.raises(pd.ShapeError):
        pd.eval(loss(x, t), {x: outputs((4, 1)), t: np.ones(3, "f")})


@pytest.mark.parametrize("loss", [pd.nn.SigmoidCrossEntropy(), pd.nn.MSE(), pd.nn.Dice()], ids=repr)
def test_layers_name_both_shapes(loss):
    with pytest.raises(pd.ShapeError, match=r"float32\[4, 2\] for targets int64\[4\]"):
        loss(np.ones((4, 2), "f"), T)


def test_a_number_and_a_row_of_targets_are_broadcast():
    x = outputs((4, 1))
    np.testing.assert_allclose(pd.l1_loss(x, 1.0).eval(), abs(x - 1))
    np.testing.assert_allclose(pd.l1_loss(x, np.ones(1, "f")).eval(), abs(x - 1))
    wide = np.ones((4, 3), "f")
    np.testing.assert_allclose(pd.l1_loss(wide, np.arange(3)).eval(), abs(wide - np.arange(3)))
