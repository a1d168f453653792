"""Functions and arithmetic of layers: what is computed, and what 2017 recorded for it."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import op
from pd_v2.config_base import Layer

from .layer import layer_checks as layers
from .layer import reference_layers as naive
from .layer.layer_rows import A, Dense, L, Row, T, X
from .layer.test_math_layers import ONE, Positive

POSITIVE = Positive(4)


def named(expression):
    """The expression as the layer 'y'; its own layers have names of their own."""
    return lambda **data: L.addto(expression(**data), name="y", bias_attr=True)


def of(name, formula):
    """A function of paddle.op, applied to positive numbers."""
    return Row(
        name,
        {"x": POSITIVE},
        lambda x: getattr(op, name)(x, name="y"),
        lambda v: formula(v["x"]),
    )


def expression(name, inputs, build, formula):
    return Row(name, inputs, named(build), lambda v: formula(v) + v["wbias"])


ROWS = [
    of("exp", np.exp),
    of("log", np.log),
    of("abs", np.abs),
    of("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    of("tanh", np.tanh),
    of("square", np.square),
    of("relu", naive.relu),
    of("sqrt", np.sqrt),
    of("reciprocal", lambda x: 1 / x),
    of("softmax", naive.softmax),
    expression("plus-number", {"x": X}, lambda x: x + 1, lambda v: v["x"] + 1),
    expression("number-plus", {"x": X}, lambda x: 0.5 + x, lambda v: v["x"] + 0.5),
    # 2017 added the number that was to be subtracted
    expression("minus-number", {"x": X}, lambda x: x - 2, lambda v: v["x"] + 2),
    expression("number-minus", {"x": X}, lambda x: 2 - x, lambda v: 2 - v["x"]),
    expression("negative", {"x": X}, lambda x: -x, lambda v: -v["x"]),
    expression("times-number", {"x": X}, lambda x: x * 3, lambda v: v["x"] * 3),
    expression("number-times", {"x": X}, lambda x: 1.5 * x, lambda v: v["x"] * 1.5),
    expression("sum", {"x": X, "z": X}, lambda x, z: x + z, lambda v: v["x"] + v["z"]),
    expression("difference", {"x": X, "z": X}, lambda x, z: x - z, lambda v: v["x"] - v["z"]),
    expression("plus-one", {"x": X, "w": ONE}, lambda x, w: x + w, lambda v: v["x"] + v["w"]),
    expression("one-minus", {"x": X, "w": ONE}, lambda x, w: w - x, lambda v: v["w"] - v["x"]),
    expression("times-one", {"x": X, "w": ONE}, lambda x, w: x * w, lambda v: v["x"] * v["w"]),
    expression("one-times", {"x": X, "w": ONE}, lambda x, w: w * x, lambda v: v["x"] * v["w"]),
]


class TestRows(layers.LayerChecks):
    """Functions and expressions, each against its formula."""

    rows = ROWS


def test_every_function_has_a_row():
    assert set(op.__all__) <= {r.name for r in ROWS}


def test_automatic_names():
    x, w = layers.dense("x", 4), layers.dense("w", 1)
    made = [x + 1, x + x, 1 - x, x * w, x + w, op.exp(x), op.exp(x), op.abs(x), op.exp(x, name="e")]
    assert all(isinstance(y, Layer) for y in made)
    assert [y.name for y in made] == [
        *("__slope_intercept_layer_0__", "__mixed_0__", "__slope_intercept_layer_2__"),
        *("__scaling_layer_0__", "__mixed_1__", "__exp_0__", "__exp_1__", "__abs_0__", "e"),
    ]
    assert made[4].parents[1].name == "__repeat_layer_0__"
    assert (made[2].config.slope, made[2].config.intercept) == (1.0, 1.0)


def test_numbers_of_numpy_are_numbers():
    x = layers.dense("x", 4)
    y = x * np.float32(2.0)
    assert y.name == "__slope_intercept_layer_0__" and y.config.slope == 2.0


def test_arithmetic_with_other_variables_is_the_core_s(rng):
    x, plain = layers.dense("x", 4), pd.constant(np.full((1, 4), 2.0, np.float32))
    made = [x + plain, plain - x, x * np.full((1, 4), 2.0), x / 2, pd.mul(x, 2.0), pd.neg(x)]
    assert not any(isinstance(y, Layer) for y in made)
    value = rng.standard_normal((2, 4)).astype(np.float32)
    expected = [value + 2, 2 - value, 2 * value, value / 2, 2 * value, -value]
    for found, wanted in zip(pd.eval(made, {x: value}), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_layers_and_gradients_do_not_compute_with_layers(rng):
    x = layers.dense("x", 4)
    y = L.addto(L.addto([x, x], name="h", act=A.STanh()), name="y", act=A.Sigmoid())
    known = list(paddle.build.current().layers)
    dropped = pd.dropout(x, 0.5, upscale_in_train=False)
    value = rng.standard_normal((2, 4)).astype(np.float32)
    _, slope = layers.gradient_of(y, x, {x: value})
    assert list(paddle.build.current().layers) == known == ["x", "h", "y"]
    np.testing.assert_allclose(pd.eval(dropped, {x: value}), 0.5 * value)
    inner = 1.7159 * np.tanh(4 * value / 3)
    outer = 1 / (1 + np.exp(-inner))
    expected = outer * (1 - outer) * (1.7159 - inner**2 / 1.7159) * 4 / 3
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-6)


# fmt: off
MISTAKES = [
    (lambda x, z, **_: x + z, TypeError, r"\+ of 'x', 4 wide, and 'z', 3 wide"),
    (lambda x, z, **_: z - x, TypeError, r"\+ of 'z', 3 wide, and '__slope_.*', 4 wide"),
    (lambda x, z, **_: x * z, TypeError, r"\* of 'x', 4 wide, and 'z', 3 wide: one must be 1 wide"),
    (lambda x, **_: x * x, TypeError, r"\* of 'x', 4 wide, and 'x', 4 wide: one must be 1 wide"),
    (lambda ids, **_: ids + 1, pd.DTypeError, "slope_intercept layer .*: 'ids' holds ids"),
    (lambda **_: op.exp(1), TypeError, "a projection is of a layer, not of 1"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(mistake, error, message):
    ids = L.data(name="ids", type=T.integer_value(4))
    net = {"x": Dense(4).layer("x"), "z": Dense(3).layer("z"), "ids": ids}
    with pytest.raises(error, match=message):
        mistake(**net)
