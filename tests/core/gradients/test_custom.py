"""Derivatives of one's own, against PyTorch's formulas, finite differences and plain ONNX."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd


def straight_through(x):
    return pd.custom_gradient(pd.round, lambda x, y, dy: dy)(x)


def reversal(x, strength=2.0):
    return pd.custom_gradient(lambda x: x, lambda x, y, dy: -strength * dy)(x)


@pd.custom_gradient(vjp=lambda a, b, y, z, dy, dz: [dy * b + dz, dy * a - dz * b])
def product_and_difference(a, b):
    """A product, and what is not its derivative's integral: only the formula tells."""
    return {"product": a * b, "difference": a - b}


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize(
    ("function", "value", "slope"),
    [
        (straight_through, np.round, np.ones_like),
        (reversal, lambda a: a, lambda a: np.full_like(a, -2)),
    ],
    ids=["straight_through", "reversal"],
)
def test_forward_is_the_function_backward_the_formula(function, value, slope, is_dynamic):
    a = np.float32([-1.6, 0.2, 2.5])
    if is_dynamic:
        with pd.guard():
            x = pd.to_variable(a)
            x.stop_gradient = False
            y = function(x)
            pd.reduce_sum(y * np.float32([1, 2, 3])).backward()
            found = y.numpy(), x.gradient()
    else:
        x = pd.Variable([3])
        y = function(x)
        g = pd.gradients(pd.reduce_sum(y * np.float32([1, 2, 3])), [x])[0]
        found = pd.eval([y, g], {x: a})
    np.testing.assert_array_equal(found[0], value(a))
    np.testing.assert_array_equal(found[1], slope(a) * np.float32([1, 2, 3]))


def test_several_inputs_and_outputs():
    a, b = pd.Variable([2]), pd.Variable([2])
    result = product_and_difference(a, b)
    assert product_and_difference.__name__ == "product_and_difference"
    cost = pd.reduce_sum(result["product"]) + 3 * pd.reduce_sum(result["difference"])
    da, db = pd.gradients(cost, [a, b])
    feeds = {a: np.float32([1, 2]), b: np.float32([5, 7])}
    found = pd.eval([result["product"], da, db], feeds)
    np.testing.assert_array_equal(found, [[5, 14], [8, 10], [-14, -19]])
    alone = pd.gradients(pd.reduce_sum(result["difference"]), [a])[0]  # dy is zeros
    np.testing.assert_array_equal(pd.eval(alone, feeds), [1, 1])


def test_second_derivatives_go_through_the_formula(rng):
    """Those of a stable log(1 + e^x) are those of the plain one."""
    stable = pd.custom_gradient(
        lambda x: pd.maximum(x, 0.0) + pd.log(1.0 + pd.exp(-abs(x))),
        lambda x, y, dy: dy * pd.sigmoid(x),
    )
    x = pd.Variable([5])
    first = pd.gradients(pd.reduce_sum(stable(x)), [x])[0]
    second = pd.gradients(pd.reduce_sum(first), [x])[0]
    a = rng.normal(size=5).astype(np.float32)
    s = 1 / (1 + np.exp(-a.astype(float)))
    np.testing.assert_allclose(pd.eval([first, second], {x: a}), [s, s * (1 - s)], rtol=1e-5)


def test_implicit_differentiation(rng):
    """The fixed point z = tanh(W z + x), differentiated without the iterations that found it."""
    w0 = (0.2 * rng.normal(size=(4, 4))).astype(np.float32)

    def fixed_point(function, start):
        step = lambda k, z: [k + 1, function(z)]  # noqa: E731
        return pd.while_loop(lambda k, z: k < 60, step, [0, start])[1]

    def solve(w, x):
        return fixed_point(lambda z: pd.tanh(pd.matmul(w, z) + x), x * 0.0)

    def vjp(w, x, z, dz):
        slope, back = 1.0 - pd.square(z), pd.transpose(w, [1, 0])
        u = slope * fixed_point(lambda v: dz + pd.matmul(back, slope * v), dz)
        return [pd.matmul(pd.reshape(u, [4, 1]), pd.reshape(z, [1, 4])), u]

    w, x = pd.Variable([4, 4]), pd.Variable([4])
    feeds = {w: w0, x: rng.normal(size=4).astype(np.float32)}
    plain = pd.gradients(pd.reduce_sum(solve(w, x)), [w, x])
    custom = pd.gradients(pd.reduce_sum(pd.custom_gradient(solve, vjp)(w, x)), [w, x])
    for a, b in zip(pd.eval(plain, feeds), pd.eval(custom, feeds), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_parameters_as_inputs_are_trained():
    pd.reset(seed=0)
    w = pd.get_variable("w", [3], initializer=pd.constant_initializer(1.0))
    x = pd.Variable([3])
    half = pd.custom_gradient(lambda w, x: w * x, lambda w, x, y, dy: [0.5 * dy * x, None])
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(half(w, x)))
    pd.eval(step, {x: np.float32([2, 4, 6])})
    np.testing.assert_array_equal(pd.default_session().get(w), [0, -1, -2])


def test_exports_have_the_operators_of_the_function_only(tmp_path):
    x = pd.Variable("x", shape=[3])
    pd.export_onnx(str(tmp_path / "m.onnx"), [straight_through(x)], inputs=[x])
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    a = np.float32([-1.6, 0.2, 2.6])
    np.testing.assert_array_equal(session.run(None, {"x": a})[0], np.round(a))


def test_a_loop_compiles_once():
    """A formula that is written in the loop is equal code."""
    with pd.guard():
        session = pd.default_session()
        counts = []
        for k in range(4):
            x = pd.to_variable(np.float32([k, 1]))
            x.stop_gradient = False
            pd.reduce_sum(reversal(x)).backward()
            assert x.gradient().tolist() == [-2, -2]
            counts.append(session.stats()["compiled"])
        x = pd.to_variable(np.float32([1, 1]))
        x.stop_gradient = False
        pd.reduce_sum(reversal(x, 3.0)).backward()
        assert x.gradient().tolist() == [-3, -3]
    assert counts[1] == counts[3]


@pytest.mark.parametrize(
    ("function", "vjp", "error", "message"),
    [
        (lambda x: x * 2, lambda x, y, dy: [dy, dy], pd.GraphError, "2 gradients for 1 input"),
        (lambda x: x * 2, lambda x, y, dy: pd.reduce_sum(dy), pd.ShapeError, "its vjp gave float"),
        (lambda x: x > 2, lambda x, y, dy: dy, pd.GraphError, "returned no float"),
        (lambda x: x * OUTSIDE[0], lambda x, y, dy: dy, pd.GraphError, "none of its inputs"),
    ],
    ids=["count", "shape", "no_float", "captured"],
)
def test_misuse(function, vjp, error, message):
    x = pd.Variable([3])
    OUTSIDE[:] = [pd.tanh(pd.Variable([3]))]
    with pytest.raises(error, match=f"custom_gradient: <lambda>.*{message}"):
        pd.gradients(pd.reduce_sum(pd.custom_gradient(function, vjp)(x)), [x])


OUTSIDE: list = []


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="vjp is a function of inputs, outputs"):
        pd.custom_gradient(pd.round)
    with pytest.raises(TypeError, match=r"as a decorator it is @pd\.custom_gradient"):

        @pd.custom_gradient
        def rounded(x):
            return pd.round(x)

    with pytest.raises(TypeError, match="takes a function, not 3"):
        pd.custom_gradient(3, lambda x, y, dy: dy)


def test_a_detached_value_may_be_read():
    x, mask = pd.Variable([3]), pd.tanh(pd.Variable("m", shape=[3]))
    masked = pd.custom_gradient(lambda x: x * pd.stop_gradient(mask), lambda x, y, dy: dy)
    g = pd.gradients(pd.reduce_sum(masked(x)), [x])[0]
    np.testing.assert_array_equal(pd.eval(g, {x: np.ones(3, np.float32)}), [1, 1, 1])
