"""Custom gradients: the formula is recorded with the call, for any nesting, state and program."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import pd_core as pd

A = np.float32([0.3, -1.2, 2.0])


def cube(x):
    return x * x * x


def true_vjp(x, y, dy):
    return pd.gradients(cube(x), [x], [dy])[0]


def within(kind, f):
    """A cost of x [2, 3] with a function of its rows in it."""

    def of(x):
        if kind == "vmap":
            return pd.vmap(f)(x)
        if kind == "scan":
            return pd.scan(lambda s, r: (pd.tanh(s) + f(r), f(s)), x[0], x)
        if kind == "while":
            return pd.while_loop(lambda k, s: k < 2, lambda k, s: [k + 1, f(s)], [0, x])[1:]
        if kind == "cond":
            return pd.cond(pd.reduce_sum(x) > 0.0, lambda: f(x), lambda: x)
        if kind == "recompute":
            return pd.recompute(lambda v: f(pd.sin(v)), x)
        return f(x)

    def cost(x):
        found = of(x)
        parts = found if isinstance(found, (list, tuple)) else [found]
        return sum(pd.reduce_sum(pd.sin(p)) for p in parts)

    return cost


KINDS = ["plain", "vmap", "scan", "while", "cond", "recompute"]


def derivatives(cost, x, v):
    """The gradient, its product with a vector in both orders, and those of the rows."""
    (g,) = pd.gradients(cost(x), [x])
    (h,) = pd.hessian_vector_product(cost(x), [x], [v])
    return [g, h, pd.jvp(g, [x], [v]), pd.jvp(cost(x), [x], [v])]


@pytest.mark.parametrize("kind", KINDS)
def test_true_formulas_give_the_same_derivatives(kind):
    """First and second derivatives are equal in loops and branches, static and in a guard."""
    a, b = np.stack([A, 0.3 * A + 0.4]), np.float32([[1, 2, 3], [-1, 0.5, 2]])
    custom = pd.custom_gradient(cube, true_vjp)
    x, v = pd.Variable([2, 3]), pd.Variable([2, 3])
    costs = [within(kind, cube), within(kind, custom)]
    want, found = pd.eval([derivatives(c, x, v) for c in costs], {x: a, v: b})
    with pd.guard():
        x, v = pd.to_variable(a), pd.to_variable(b)
        x.stop_gradient = False
        (g,) = pd.gradients(costs[1](x), [x])
        at_hand = [g.numpy(), pd.gradients(g, [x], [v])[0].numpy()]
    for w, f in zip([*want, *want[:2]], [*found, *at_hand], strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


FACTOR = 1.0


def test_a_formula_reads_what_there_is_at_the_call():
    """Numbers of modules, objects and closures, and Variables, which change in each step."""
    global FACTOR
    kept = SimpleNamespace(factor=1.0, mask=None)

    class Scaled:
        factor = 1.0

        def vjp(self, x, y, dy):
            return dy * self.factor

    scaled = Scaled()
    vjps = {
        "global": lambda x, y, dy: dy * FACTOR,
        "object": lambda x, y, dy: dy * kept.factor,
        "method": scaled.vjp,
        "partial": partial(lambda o, x, y, dy: dy * o.factor, kept),
        "variable": lambda x, y, dy: dy * kept.mask,
    }
    found = {name: [] for name in vjps}
    with pd.guard():
        for k in range(3):
            FACTOR = kept.factor = scaled.factor = 1.0 + k
            kept.mask = pd.to_variable(np.full(3, 1.0 + k, "float32")) * 1.0
            for name, vjp in vjps.items():
                x = pd.to_variable(A)
                x.stop_gradient = False
                y = pd.custom_gradient(cube, vjp)(x)
                kept.factor = 7.0  # later: not read
                pd.reduce_sum(y).backward()
                found[name].append(float(x.gradient()[0]))
                kept.factor = 1.0 + k
    assert found == {name: [1.0, 2.0, 3.0] for name in vjps}


def test_data_in_a_formula_compile_once():
    with pd.guard():
        counts = []
        for k in range(4):
            x, mask = pd.to_variable(A), pd.to_variable(np.full(3, k, "float32"))
            x.stop_gradient = False
            pd.reduce_sum(pd.custom_gradient(cube, lambda x, y, dy, m=mask: dy * m)(x)).backward()
            assert x.gradient().tolist() == [k, k, k]
            counts.append(pd.stats()["compiled"])
    assert counts[1] == counts[3]


def test_nested_inputs_settings_and_outputs_that_are_no_floats():
    def function(p, mode, i):
        y = p["a"] * p["b"][0] if mode == "product" else p["a"]
        return y, pd.arg_max(y, 0), y

    def vjp(p, mode, i, y, at, z, dy, no, dz):
        assert mode == "product" and no is None and at.dtype == np.int64
        g = dy + 10.0 * dz
        return [{"a": g * p["b"][0], "b": [g * p["a"]]}, None, None]

    a, b, i = pd.Variable([3]), pd.Variable([3]), pd.Variable([2], dtype="int64")
    y, _, z = pd.custom_gradient(function, vjp)({"a": a, "b": [b]}, "product", i)
    slopes = pd.gradients(pd.reduce_sum(y) + pd.reduce_sum(z), [a, b])
    found = pd.eval(slopes, {a: A, b: A + 1, i: [0, 1]})
    np.testing.assert_allclose(found, [11 * (A + 1), 11 * A], rtol=1e-6)


class Rounded(pd.nn.Layer):
    @pd.custom_gradient(vjp=lambda self, x, y, dy: dy * self.slope)
    def rounded(self, x):
        return pd.round(x * self.slope)

    def forward(self, x):
        self.slope = 2.0
        return self.rounded(x)


def test_methods_are_decorated():
    x = pd.Variable([3])
    y = Rounded()(x)
    found = pd.eval([y, *pd.gradients(pd.reduce_sum(y), [x])], {x: A})
    np.testing.assert_array_equal(found, [np.round(2 * A), [2, 2, 2]])


def test_second_derivatives_reach_what_the_formula_reads():
    """And minimize() leaves it, for the first ones do not."""
    pd.reset(seed=0)
    x, b = pd.Variable([3]), pd.get_variable("b", [3], initializer=pd.constant_initializer(2.0))
    y = pd.custom_gradient(lambda x: x * 2.0, lambda x, y, dy: dy * b * x)(x)
    (g,) = pd.gradients(pd.reduce_sum(y), [x])
    np.testing.assert_array_equal(pd.eval(pd.gradients(pd.reduce_sum(g), [b])[0], {x: A}), A)
    assert pd.gradients(pd.reduce_sum(y), [b]) == [None]


def test_gradients_of_what_only_the_function_reads_are_errors():
    x, slot = pd.Variable([3]), pd.Variable([None])
    y = pd.custom_gradient(lambda x: x * slot, lambda x, y, dy: dy * slot)(x)
    cost = pd.reduce_sum(y)
    np.testing.assert_array_equal(pd.eval(pd.gradients(cost, [x])[0], {x: A, slot: A}), A)
    with pytest.raises(pd.NoGradient, match="none of its inputs, so that its gradient"):
        pd.gradients(cost, [slot])
    with pd.guard():
        x, data = pd.to_variable(A), pd.to_variable(A)
        x.stop_gradient = data.stop_gradient = False
        with pytest.raises(pd.GraphError, match=r"reads value .* none of its inputs"):
            pd.custom_gradient(lambda x: x * data, lambda x, y, dy: dy)(x)


@pytest.mark.parametrize(
    ("vjp", "error", "message"),
    [
        (lambda x, dy: dy, TypeError, r"its vjp\(x, dy\) does not take 1 inputs, 1 outputs and 1"),
        (lambda x, y, dy: "no", pd.DTypeError, "its vjp gave 'no' for the input"),
        (lambda x, y, dy: pd.cast(dy, "float64"), pd.DTypeError, "gave float64.* for the input"),
        (lambda x, y, dy: [dy, dy, dy], pd.GraphError, "3 gradients for 1 input"),
    ],
)
def test_formulas_that_do_not_fit(vjp, error, message):
    with pytest.raises(error, match=message):
        pd.custom_gradient(cube, vjp)(pd.Variable([3]))


def test_a_formula_has_no_values():
    with pd.guard(), pytest.raises(pd.NotComputed, match="custom_gradient: cube: its vjp is rec"):
        pd.custom_gradient(cube, lambda x, y, dy: dy * y.numpy().max())(pd.to_variable(A))


def test_data_whose_graph_has_ended_may_be_read_by_a_formula():
    with pd.guard():
        w = pd.Variable(data=A)
        mask = pd.sigmoid(w)
        pd.reduce_sum(mask).backward()
        w.clear_gradient()
        f = pd.custom_gradient(cube, lambda x, y, dy: dy * mask)
        pd.reduce_sum(f(w)).backward()
        np.testing.assert_allclose(w.gradient(), 1 / (1 + np.exp(-A)), rtol=1e-6)


def test_functions_in_bodies_read_data():
    """Arrays, changing numbers and slices of data have no gradient, and none is refused."""
    masks = np.float32([[1, 0, 2], [0, 1, 3]])

    def masked(x, mask, factor):
        vjp = lambda v, y, dy: dy * mask * (2.0 * factor)  # noqa: E731
        return pd.custom_gradient(lambda v: v * mask * factor, vjp)(x)

    def costs(x, factor):
        yield pd.vmap(lambda r, m: masked(r, m, factor))(x, masks)
        yield pd.vmap(lambda r: masked(r, masks[0], factor))(x)
        yield pd.cond(pd.reduce_sum(x) > 0.0, lambda: masked(x, masks, factor), lambda: x)
        yield pd.recompute(lambda v: masked(pd.tanh(v), masks, factor), x)

    a = np.stack([A, A])
    for factor in (1.5, 2.5, 3.5, 4.5):
        with pd.guard():
            x = pd.to_variable(a)
            x.stop_gradient = False
            found = [pd.gradients(c, [x])[0].numpy() for c in map(pd.reduce_sum, costs(x, factor))]
        want = 2 * factor * np.stack([masks, masks[[0, 0]], masks, masks / np.cosh(a) ** 2])
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_one_of_several_results_is_held_later():
    """A second result, that was computed with the first, is another program than one that is."""
    add = pd.custom_gradient(
        lambda a, b: (pd.sin(a) * b, a + b), lambda a, b, y, z, dy, dz: (dy * b + dz, dy * a + dz)
    )
    with pd.guard(immediate=True):
        a, b = pd.to_variable(A), pd.to_variable(A)
        a.stop_gradient = False
        y, z = add(a, b)
        last = pd.sin(add(y + pd.sin(z), b)[-1])
        want = np.sin(np.sin(A) * A + np.sin(2 * A) + A)
        np.testing.assert_allclose(last.numpy(), want, rtol=1e-5)
