"""Derivatives of recorded graphs of which values were computed before."""

import numpy as np
import pytest

import pd_core as pd

A = np.float32([0.3, -1.2, 2.0])


@pytest.mark.parametrize("looks", [False, True])
def test_looking_at_values_changes_no_derivative(looks):
    with pd.guard(immediate=looks):
        x = pd.to_variable(A)
        x.stop_gradient = False
        h = x * x
        y = pd.reduce_sum(h * x + pd.transpose(h, [0]))
        (g,) = pd.gradients(y, [x])
        v = np.ones(3, "float32")
        along = [pd.jvp(y, [x], [v]), pd.jvp(g, [x], [v]), *pd.hessian_vector_product(y, [x], [v])]
        first, second = 3 * A**2 + 2 * A, 6 * A + 2
        for d, want in zip([g, *along], [first, first.sum(), second, second], strict=True):
            np.testing.assert_allclose(d.numpy(), want, rtol=1e-5)


def test_ways_that_are_lost_are_errors():
    """They gave the gradient of what was left."""
    with pd.guard():
        x = pd.to_variable(A)
        h = x * x
        np.testing.assert_allclose(pd.gradients(h + x, [x])[0].numpy(), 2 * A + 1, rtol=1e-5)
        h.numpy()
        with pytest.raises(
            pd.GraphError, match=r"has stop_gradient = True, and mul.* was computed"
        ):
            pd.gradients(h + x, [x])
        x.stop_gradient = False
        h = x * x
        pd.reduce_sum(h).backward()
        x.clear_gradient()
        with pytest.raises(pd.GraphError, match=r"the graph behind mul.* ended with an earlier"):
            pd.gradients(h + x, [x])
        assert pd.gradients(h * 3.0, [h])[0].numpy().tolist() == [3, 3, 3]


def _leaf(value):
    """A Variable of a line whose sizes differ from call to call: they have names."""
    x = pd.to_variable(value)
    x.stop_gradient = False
    return x


def test_derivatives_pass_where_sizes_get_other_names():
    """They ended at what was built again with other sizes, and jvp was zeros."""
    x, v = np.arange(6, dtype="float32").reshape(2, 3) / 4, np.ones((2, 3), "float32")
    with pd.guard():
        _leaf(v[:, :2])
        a, w = _leaf(x), pd.to_variable(v)
        (g,) = pd.gradients(pd.reduce_sum(pd.square(pd.einsum("ij,kj->ik", a, w))), [a])
        np.testing.assert_allclose(pd.jvp(g, [a], [v]).numpy(), 2 * v @ v.T @ v, rtol=1e-5)
        h = a * a  # unstack has to know the sizes
        (g,) = pd.gradients(pd.unstack(h, 1)[2] * 3.0, [h])
        np.testing.assert_array_equal(g.numpy(), v * [0, 0, 3])
        h.stop_gradient = True
        assert pd.unstack(h, 1)[2].stop_gradient
    a, b, u = [pd.Variable([None, None]) for _ in range(3)]
    seed = pd.tanh(u)
    back = pd.gradients(a + b, [a, b], [seed])
    (g,) = pd.gradients([back[0] * back[0], back[1]], [seed])
    np.testing.assert_allclose(pd.eval(g, {a: v, b: v, u: x}), 2 * np.tanh(x) + 1, rtol=1e-5)


def test_several_variables_and_results():
    a, b = pd.Variable([2]), pd.Variable([3])
    cost = pd.reduce_sum(a**3) * pd.reduce_sum(b * b)
    ones = np.ones(3, "float32")
    h = pd.hessian(cost, [a, b])
    outputs = [*h[0], *h[1], *pd.jacobian(a * pd.reduce_sum(b), [a, b])]
    outputs += pd.jvp([a * pd.reduce_sum(b), b], [a, b], [None, ones])
    outputs += pd.hessian_vector_product(cost, [a, b], [None, ones])
    x, y = np.float32([0.5, -1.0]), np.float32([2, 1, 0.5])
    mixed = np.outer(3 * x * x, 2 * y)
    want = [np.diag(6 * x) * (y @ y), mixed, mixed.T, np.eye(3) * 2 * (x**3).sum()]
    want += [np.eye(2) * y.sum(), np.outer(x, ones), 3 * x, ones, mixed @ ones, want[3] @ ones]
    for found, w in zip(pd.eval(outputs, {a: x, b: y}), want, strict=True):
        np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("product", [pd.jvp, pd.hessian_vector_product])
def test_vectors_that_do_not_fit(product):
    x = pd.Variable([3])
    cost = pd.reduce_sum(pd.Variable([2]))  # depends on nothing of it
    with pytest.raises(pd.ShapeError, match=r"vector 0 is float32\[7\] for"):
        product(cost, [x], [np.ones(7)])
    with pytest.raises(pd.DTypeError, match=r"vector 0 is int64\[3\] for"):
        product(cost, [x], [pd.Variable([3], dtype="int64")])
    with pytest.raises(TypeError, match="takes a list of Variables"):
        product(cost, x, [A])
    with pytest.raises(TypeError, match="takes a list of vectors"):
        product(cost, [x], x)


def test_mixed_second_derivatives_of_a_branch():
    """Both branches hold the same operators; what is equal in one is not computed in the other."""
    x, z, v = pd.Variable([3]), pd.Variable([3]), np.ones(3, "float32")
    some = pd.cond(pd.reduce_sum(x) > 0.0, lambda: pd.sin(x) * z, lambda: pd.cos(z) + x)
    cost = pd.reduce_sum(pd.square(some))
    found = pd.eval(pd.hessian_vector_product(cost, [x, z], [v, v]), {x: A, z: A + 1})
    s, c, b = np.sin(A), np.cos(A), A + 1
    want = [2 * b * b * (c * c - s * s) + 4 * s * c * b, 4 * s * c * b + 2 * s * s]
    np.testing.assert_allclose(found, want, rtol=1e-4)
