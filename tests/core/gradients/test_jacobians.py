"""Jacobians, Hessians and vmap against closed forms, for feeds and for values at hand."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.graph.node import ancestors

W = np.array([[0.5, -1.0, 0.2], [0.3, 0.8, -0.6]], "float32")
A = np.array([[2.0, 1.0, 0.0], [0.0, -1.0, 0.5], [0.3, 0.0, 1.0]], "float32")
X = np.array([[0.4, -0.7], [1.1, 0.2]], "float32")
V = np.array([[1.0, -0.5], [0.25, 2.0]], "float32")


def network(x):
    return pd.tanh(pd.matmul(x, W)) * pd.reduce_sum(x)


def jacobian_of_network(x):
    """d tanh(x W)[i, j] s / d x[k, l] with s = sum(x)."""
    t = np.tanh(x @ W)
    j = np.einsum("ij,lj,ik->ijkl", (1 - t * t) * x.sum(), W, np.eye(len(x)))
    return j + t[:, :, None, None]


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [[2, 2], [None, 2], [None, None]], ids=str)
def test_jacobian_and_jvp(shape):
    x = pd.Variable(shape)
    y = network(x)
    j, along = pd.jacobian(y, x), pd.jvp(y, [x], [V])
    assert j.shape == (*y.shape, *x.shape)
    assert along.shape == y.shape
    got, product = pd.eval([j, along], feeds={x: X})
    close(got, jacobian_of_network(X))
    close(product, np.einsum("ijkl,kl->ij", jacobian_of_network(X), V))


def test_passes_of_a_jacobian_are_one_batch():
    x = pd.Variable([2, 2])
    graph = program.build([pd.jacobian(pd.tanh(pd.matmul(x, W)), x)], [], [x], False, {})
    assert not {"Scan", "Loop"} & {node.op_type for node in ancestors(graph.outputs)}


def cubic(x):
    """xᵀ A x + sum(x^3)."""
    return pd.reduce_sum(x * pd.matmul(x, A.T)) + pd.reduce_sum(x**3)


def test_hessian_and_its_products():
    x, z = pd.Variable([3]), pd.Variable([2])
    cost = cubic(x) + pd.reduce_sum(z)
    at, v = np.array([0.5, -1.0, 2.0], "float32"), np.array([1.0, 0.0, -2.0], "float32")
    outputs = [pd.hessian(cost, x), *pd.hessian_vector_product(cost, [x, z], [v, [1.0, 1.0]])]
    outputs.append(pd.hessian(cost, z))
    h, product, zero, zeros = pd.eval(outputs, feeds={x: at, z: np.zeros(2, "float32")})
    want = A + A.T + np.diag(6 * at)
    close(h, want)
    close(product, want @ v)
    assert zero.tolist() == [0, 0]
    assert zeros.tolist() == [[0, 0], [0, 0]]


def test_gradient_of_a_jacobian():
    """The trace of the Jacobian of x^3 is 3 sum(x^2)."""
    x = pd.Variable([3])
    trace = pd.reduce_sum(pd.jacobian(x**3, x) * np.eye(3))
    (g,) = pd.gradients(trace, [x])
    close(pd.eval(g, feeds={x: np.array([1.0, -2.0, 0.5], "float32")}), [6, -12, 3])


def test_jacobian_of_a_network_with_a_kink_and_a_softmax(rng):
    image = rng.standard_normal((1, 1, 4, 4)).astype("float32")
    kernel = rng.standard_normal((2, 1, 2, 2)).astype("float32")
    x = pd.Variable([1, 1, 4, 4])
    y = pd.softmax(pd.global_max_pool(pd.relu(pd.conv(x, kernel))), axis=1)
    j = pd.eval(pd.jacobian(y, x), feeds={x: image})
    step = 1e-2
    for place in np.ndindex(4, 4):
        ends = []
        for sign in (1, -1):
            moved = image.copy()
            moved[0, 0][place] += sign * step
            ends.append(pd.eval(y, feeds={x: moved}))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(j[..., 0, 0, place[0], place[1]], slope, atol=2e-3)


def test_where_nothing_depends():
    x, other = pd.Variable([2]), pd.Variable([2])
    y = x * 2.0
    outputs = [
        pd.jacobian(y, other),
        pd.jvp(y, [other], [[1.0, 1.0]]),
        pd.jacobian(pd.reduce_sum(y), x),
    ]
    values = pd.eval(outputs, feeds={x: [1.0, 2.0]})
    assert [v.tolist() for v in values] == [[[0, 0], [0, 0]], [0, 0], [2, 2]]


def test_values_at_hand():
    with pd.guard():
        x = pd.to_variable(X)
        x.stop_gradient = False
        y = network(x)
        close(np.asarray(pd.jacobian(y, x)), jacobian_of_network(X))
        along = np.einsum("ijkl,kl->ij", jacobian_of_network(X), V)
        close(np.asarray(pd.jvp(y, [x], [V])), along)
        v = pd.to_variable(np.array([0.5, -1.0, 2.0], "float32"))
        v.stop_gradient = False
        want = A + A.T + np.diag([3.0, -6.0, 12.0])
        close(np.asarray(pd.hessian(cubic(v), v)), want)
        (product,) = pd.hessian_vector_product(cubic(v), [v], [[1.0, 2.0, 3.0]])
        close(np.asarray(product), want @ [1, 2, 3])


def test_vmap_gives_the_gradient_of_each_example():
    x, w = pd.Variable([None, 2]), pd.Variable(data=W, name="w")

    def gradient(row):
        return pd.gradients(pd.reduce_sum(pd.square(pd.matmul(row, w))), [w])[0]

    each = pd.vmap(gradient)(x)
    assert each.shape == (None, 2, 3)
    close(pd.eval(each, feeds={x: X}), [2 * np.outer(row, row @ W) for row in X])
    (total,) = pd.gradients(pd.reduce_sum(pd.square(pd.vmap(lambda r: pd.matmul(r, w))(x))), [w])
    close(pd.eval(total, feeds={x: X}), sum(2 * np.outer(row, row @ W) for row in X))


def test_axes_of_vmap(rng):
    a, b, c = (rng.standard_normal(s).astype("float32") for s in ((3, 4), (4, 3), (3,)))

    def both(x, y, z):
        return [pd.cum_sum(x + z), pd.reduce_sum(x * y)]

    x = pd.Variable([3, None])
    sums, products = pd.vmap(both, in_axes=(1, 0, None), out_axes=-1)(x, b, c)
    got = pd.eval([sums, products], feeds={x: a})
    close(got[0], np.cumsum(a + c[:, None], 0))
    close(got[1], (a.T * b).sum(1))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x: pd.jacobian(1.0, x), TypeError, "jacobian: takes Variables, not 1.0"),
        (lambda x: pd.hessian(x, x), pd.ShapeError, "hessian: the cost has one element, unlike"),
        (lambda x: pd.jvp(x, [x], []), pd.GraphError, "jvp: 0 vectors for 1 variables"),
        (lambda x: pd.jvp(x, [x], [[1.0]]), pd.ShapeError, r"vector 0 is float32\[1\]"),
        (lambda x: pd.vmap(abs, None)(x), pd.GraphError, "vmap: no argument has a batch"),
        (lambda x: pd.vmap(abs, [0, 0])(x), pd.GraphError, "vmap: 2 in_axes for 1 arguments"),
        (lambda x: pd.vmap(abs, 2)(x), pd.ShapeError, "axis 2 of"),
        (lambda x: pd.vmap(max)(x, np.ones(3)), pd.ShapeError, "batches of different sizes"),
    ],
)
def test_mistakes(build, error, message):
    with pytest.raises(error, match=message):
        build(pd.Variable([2]))
