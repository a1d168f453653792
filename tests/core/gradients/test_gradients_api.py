"""gradients() as users call it; the rules themselves are tested operator by operator."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def test_gradients_are_variables():
    x = pd.Variable("x", data=np.array([1.0, 2.0], f32))
    y = pd.Variable("y", data=ones(2))
    other = pd.Variable(data=ones(1))
    c = pd.reduce_sum(x * x * y + x)
    gx, gy, go = pd.gradients(c, [x, y, other])
    assert np.allclose(pd.eval([gx, gy]), [[3.0, 5.0], [1.0, 4.0]])
    assert go is None
    (gg,) = pd.gradients(pd.reduce_sum(gx), [x])
    assert np.allclose(pd.eval(gg), [2.0, 2.0])  # second order


def test_gradients_are_usable_in_further_ops_and_updates():
    x = pd.Variable("x", data=f32(3.0))
    (g,) = pd.gradients(x * x, [x])
    pd.eval(pd.assign(x, x - g * 0.5))
    assert x.val() == 0.0
    assert pd.eval(pd.sqrt(pd.square(g)), feeds={x: 2.0}) == 4.0


def test_the_gradient_in_an_intermediate():
    x = pd.Variable("x", data=f32([1.0, -2.0]))
    h = x * 3.0
    gh, gx = pd.gradients(pd.reduce_sum(pd.square(h)), [h, x])
    assert pd.eval(gh).tolist() == [6.0, -12.0]
    assert pd.eval(gx).tolist() == [18.0, -36.0]


def test_sums_over_all_uses():
    x = pd.Variable("x", data=f32(2.0))
    y = x * x + x * 3.0 + x
    (g,) = pd.gradients(y, [x])
    assert pd.eval(g) == 8.0
    (g,) = pd.gradients([y, x * 10.0], [x])  # of a list: of the sum
    assert pd.eval(g) == 18.0
    g1, g2 = pd.gradients(y, [x, x])
    assert pd.eval([g1, g2]) == [8.0, 8.0]


def test_of_a_cost_that_is_no_scalar():
    x = pd.Variable("x", data=f32([1.0, 2.0]))
    (g,) = pd.gradients(x * x, [x])
    assert pd.eval(g).tolist() == [2.0, 4.0]
    (g,) = pd.gradients(x * x, [x], seeds=[pd.constant([10.0, 1.0])])
    assert pd.eval(g).tolist() == [20.0, 4.0]


def test_of_the_cost_itself():
    x = pd.Variable("x", data=f32([1.0, 2.0]))
    (g,) = pd.gradients(x, [x])
    assert pd.eval(g).tolist() == [1.0, 1.0]


def test_against_differences_through_a_network(rng):
    """A network with most kinds of layers, float32 against central differences in float64."""
    image = pd.Variable(data=rng.normal(size=(3, 2, 8, 8)))
    label = np.array([[0], [2], [1]])
    h = pd.conv2d(image, 4, 3, act="tanh")
    h = pd.reshape(pd.pool2d(h, 2, pool_type="avg"), [3, -1])
    cost = pd.reduce_mean(pd.cross_entropy(pd.softmax(pd.fc(h, 5, act="sigmoid"), size=3), label))
    variables = pd.trainable_variables()
    found = pd.eval(pd.gradients(cost, variables))
    for v, g in zip(variables, found, strict=True):
        direction = rng.normal(size=v.shape).astype(f32)
        value, step = v.val(), 1e-2
        up = pd.eval(cost, feeds={v: value + step * direction})
        down = pd.eval(cost, feeds={v: value - step * direction})
        assert np.isclose((up - down) / (2 * step), (g * direction).sum(), rtol=5e-3, atol=2e-4)


def test_stop_gradient_cuts_and_keeps_the_value():
    x = pd.Variable("x", data=f32([1.0, 2.0]))
    still = pd.stop_gradient(x * x)
    assert still.eval().tolist() == [1.0, 4.0]
    (g,) = pd.gradients(pd.reduce_sum(still), [x])
    assert g is None
    (g,) = pd.gradients(pd.reduce_sum(still * x), [x])
    assert pd.eval(g).tolist() == [1.0, 4.0]


def test_each_mode_has_its_own_gradient():
    x = pd.Variable("x", data=f32(3.0))
    y = pd.mode_switch(x * 2.0, x * x)
    (g,) = pd.gradients(y, [x])
    assert pd.eval(g) == 6.0
    assert pd.eval(g, training=True) == 2.0


def test_a_feed_slot_has_a_gradient_of_its_run_time_shape():
    x = pd.Variable([None, 2])
    (g,) = pd.gradients(pd.reduce_mean(pd.square(x)), [x])
    assert g.shape == (None, 2)
    assert pd.eval(g, feeds={x: ones(4, 2)}).tolist() == [[0.25, 0.25]] * 4


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (pd.NoGradient, r"gradients: n: int64\[\] is no float", "nx"),
        (pd.NoGradient, r"gradients: n: int64\[\] is no float", "xn"),
        (TypeError, "gradients: takes Variables, not 2.0", "2x"),
        (TypeError, "gradients: takes Variables, not 2.0", "x2"),
    ],
)
def test_what_has_no_gradient(error, message, arguments):
    known = {"x": pd.Variable("x", data=f32(1.0)), "n": pd.Variable("n", data=1), "2": 2.0}
    cost, variable = (known[k] for k in arguments)
    with pytest.raises(error, match=message):
        pd.gradients(cost, [variable])
