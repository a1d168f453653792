"""Gradients of loops inside loops, whose numbers of steps differ, by finite differences."""

import numpy as np
import pytest

import pd_core as pd

COUNTS = np.int64([2, 5, 0, 3])


def inner(kind, w, count, h):
    """h := tanh(h w) + h / 10, so many times."""

    def step(h):
        return pd.tanh(pd.matmul(pd.reshape(h, [1, 3]), w)[0]) + 0.1 * h

    if kind == "while":
        return pd.while_loop(lambda k, h: k < count, lambda k, h: [k + 1, step(h)], [0, h])[1]
    return pd.for_loop(count, lambda k, h: (step(h), None), h)[0]


def outer(kind, step, x):
    """s := step(count, s / 2 + row) for each row: the last state, and all of them."""
    zero = pd.constant(np.zeros(3), "float64")
    if kind == "scan":
        return pd.scan(lambda s, row: (step(row[1], s * 0.5 + row[0]),) * 2, zero, [x, COUNTS])

    def body(k, s):
        return (step(pd.gather(COUNTS, k), s * 0.5 + pd.gather(x, k)),) * 2

    if kind == "for":
        return pd.for_loop(len(COUNTS), body, zero)
    states = pd.while_loop(lambda k, s: k < 4, lambda k, s: [k + 1, body(k, s)[0]], [0, zero])
    return states[1], states[1]


def reference(kind, w, x):
    s, total = np.zeros(3), 0.0
    for count, row in zip(COUNTS, x, strict=True):
        s = s * 0.5 + row
        for _ in range(count):
            s = np.tanh(s @ w) + 0.1 * s
        total += (s * s).sum()
    return np.sin(s).sum() + (total if kind != "while" else (s * s).sum())


def slopes(function, a):
    """Central differences in every element."""
    g = np.zeros_like(a)
    for k in np.ndindex(a.shape):
        e = np.zeros_like(a)
        e[k] = 1e-6
        g[k] = (function(a + e) - function(a - e)) / 2e-6
    return g


@pytest.mark.parametrize("inside", ["while", "for"])
@pytest.mark.parametrize("outside", ["scan", "for", "while"])
def test_gradients(outside, inside, rng):
    w, x = (pd.Variable(shape, dtype="float64") for shape in ([3, 3], [4, 3]))
    last, states = outer(outside, lambda n, h: inner(inside, w, n, h), x)
    cost = pd.reduce_sum(pd.sin(last)) + pd.reduce_sum(states * states)
    first = pd.gradients(cost, [w, x])
    second = pd.gradients(pd.reduce_sum(pd.square(first[0])), [w])
    a, b = 0.4 * rng.normal(size=(3, 3)), rng.normal(size=(4, 3))
    value, dw, dx, ddw = pd.eval([cost, *first, *second], {w: a, x: b})
    np.testing.assert_allclose(value, reference(outside, a, b), rtol=1e-12)
    np.testing.assert_allclose(dw, slopes(lambda a: reference(outside, a, b), a), atol=1e-8)
    np.testing.assert_allclose(dx, slopes(lambda b: reference(outside, a, b), b), atol=1e-8)

    def squares(v):
        return (pd.eval(first[0], {w: v, x: b}) ** 2).sum()

    np.testing.assert_allclose(ddw, slopes(squares, a), rtol=1e-6, atol=1e-6)


def test_what_data_select_in_a_loop(rng):
    """Rows above a threshold are of another number in each step."""
    x, w = pd.Variable([4, 5], dtype="float64"), pd.Variable([], dtype="float64")

    def step(s, row):
        return s + pd.reduce_sum(pd.square(w * row[row > 0.0])), None

    total, _ = pd.scan(step, pd.constant(0.0, "float64"), x)
    a = rng.normal(size=(4, 5))
    dx, dw = pd.eval(pd.gradients(total, [x, w]), {x: a, w: 3.0})
    np.testing.assert_allclose(dx, np.where(a > 0, 18 * a, 0))
    np.testing.assert_allclose(dw, 6 * (a[a > 0] ** 2).sum())


def test_a_known_number_of_steps_is_not_computed_again():
    """Its values are stacked, as those of all other operators."""
    x = pd.Variable([4, 3])

    def row(s, x):
        return pd.for_loop(3, lambda k, h: (pd.tanh(h), None), s + x)[0], None

    last, _ = pd.scan(row, np.zeros(3, np.float32), x)
    (g,) = pd.gradients(pd.reduce_sum(last), [x])
    back = [node for node in pd.subgraph(g) if node.op_type == "Scan"][-1]
    inside = [n.op_type for n in pd.subgraph(back.blocks["body"].outputs)]
    assert inside.count("Loop") == 0
