"""As in 2017 gradients begin at the cost layers, whatever the outputs of the trainer are."""

import warnings

import numpy as np
import pytest

import pd_v2 as paddle

L, A = paddle.layer, paddle.activation
X = np.float32([[1.0, 2.0], [-0.5, 1.5], [0.25, -1.0]])
Y = np.float32([[0.5], [2.0], [-1.0]])
W = np.float32([[0.3], [-0.7]])
U = np.float32([[1.1], [0.4]])


def linear(x, name):
    attr = paddle.attr.Param(name=name)
    return L.fc(x, size=1, act=A.Linear(), bias_attr=False, param_attr=attr)


def trained(make, extra=None):
    """(the change of w, that of u, the reported cost, the warnings) of one step at rate 1.

    `make(p, q, y)` gives the outputs for two predictions, of the parameters w and u, and a label.
    """
    x = L.data(name="x", type=paddle.data_type.dense_vector(2))
    y = L.data(name="y", type=paddle.data_type.dense_vector(1))
    p, q = linear(x, "w"), linear(x, "u")
    outputs = make(p, q, y)
    extra = None if extra is None else extra(p, q, y)
    pool = paddle.parameters.create([p, q])
    pool["w"], pool["u"] = W, U
    seen = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = paddle.trainer.SGD(
            outputs, pool, paddle.optimizer.Momentum(learning_rate=1.0), extra_layers=extra
        )
        trainer.train(
            lambda: iter([list(zip(X, Y, strict=True))]),
            event_handler=lambda e: seen.append(getattr(e, "cost", None)),
            feeding=["x", "y"],
        )
    cost = next(c for c in seen if c is not None)
    after = [pool[name].reshape(-1, 1) - start for name, start in (("w", W), ("u", U))]
    return *after, cost, [str(w.message) for w in caught]


def of_square(weight, values):
    """The change by the square error of a prediction."""
    return -X.T @ (2 * (X @ weight - values))


NOTHING = np.zeros((2, 1))
OF_W, OF_U, OF_SUM = of_square(W, Y), of_square(U, Y), -X.T @ np.ones((3, 1))
SQUARE_W, SQUARE_U = ((X @ W - Y) ** 2).sum(), ((X @ U - Y) ** 2).sum()


def square(x, y, **options):
    return L.square_error_cost(input=x, label=y, **options)


CASES = {
    # what the trainer is given, the changes of w and u, the sum that is reported, those warned of
    "a cost": (lambda p, q, y: square(p, y), OF_W, NOTHING, SQUARE_W, 0),
    "two costs": (lambda p, q, y: [square(p, y), square(q, y)], OF_W, OF_U, SQUARE_W + SQUARE_U, 0),
    "a sum": (
        lambda p, q, y: L.addto(input=[square(p, y), square(q, y)]),
        *(OF_W, OF_U, SQUARE_W + SQUARE_U, 0),
    ),
    "an operator": (
        lambda p, q, y: square(p, y) + square(q, y, coeff=3.0),
        *(OF_W, 3 * OF_U, SQUARE_W + SQUARE_U, 0),
    ),
    "a sum_cost of a cost": (
        lambda p, q, y: L.sum_cost(input=square(p, y)),
        *(OF_W, NOTHING, SQUARE_W, 0),
    ),
    "a number times a cost": (
        lambda p, q, y: L.slope_intercept(input=square(p, y), slope=0.5, intercept=1.0),
        *(OF_W, NOTHING, SQUARE_W / 2 + 3, 1),
    ),
    "a weighted sum": (
        lambda p, q, y: [
            L.addto(input=[square(p, y), L.slope_intercept(input=square(q, y), slope=0.1)])
        ],
        *(OF_W, OF_U, SQUARE_W + SQUARE_U / 10, 1),
    ),
    "a prediction beside": (
        lambda p, q, y: [square(p, y), q],
        *(OF_W, NOTHING, SQUARE_W + (X @ U).sum(), 1),
    ),
    "ids beside": (
        lambda p, q, y: [square(p, y), L.max_id(input=p)],
        *(OF_W, NOTHING, SQUARE_W, 0),
    ),
    "a cost of which nothing has a gradient": (
        lambda p, q, y: [L.max_id(input=square(p, y)), L.sum_cost(input=q)],
        *(OF_W, OF_SUM, (X @ U).sum(), 0),
    ),
    "no cost at all": (lambda p, q, y: [p, q], OF_SUM, OF_SUM, (X @ W).sum() + (X @ U).sum(), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_each_cost_layer_is_minimized_as_it_is(name):
    make, of_w, of_u, cost, count = CASES[name]
    w, u, found, messages = trained(make)
    np.testing.assert_allclose(w, of_w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(u, of_u, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, cost / len(X), rtol=1e-5)
    assert [m.partition(" ")[0] for m in messages] == ["SGD:"] * count


def test_the_warning_names_the_layers():
    *_, messages = trained(lambda p, q, y: [square(p, y, name="error"), square(q, y) * 0.5])
    assert "in the reported cost only" in messages[0]
    assert "cost layers themselves: 'error', '__square_error_cost_0__'" in messages[0]


def test_costs_behind_extra_layers_are_trained_on():
    w, u, cost, _ = trained(
        lambda p, q, y: square(p, y),
        lambda p, q, y: L.slope_intercept(input=square(q, y), slope=0.0),
    )
    np.testing.assert_allclose(w, OF_W, rtol=1e-5)
    np.testing.assert_allclose(u, OF_U, rtol=1e-5)
    np.testing.assert_allclose(cost, SQUARE_W / len(X), rtol=1e-5)


@pytest.mark.parametrize("summed", [False, True])
def test_costs_in_the_steps_of_a_group(summed):
    """Those in the steps beside another cost: the whole group is minimized."""
    x = L.data(name="x", type=paddle.data_type.dense_vector_sequence(2))
    y = L.data(name="y", type=paddle.data_type.dense_vector_sequence(1))

    def step(row, label):
        return square(linear(row, "w"), label)

    in_steps = L.recurrent_group(step=step, input=[x, y])
    out = L.sum_cost(input=in_steps) if summed else in_steps
    beside = square(linear(x, "u"), y)
    pool = paddle.parameters.create([out, beside])
    pool["w"], pool["u"] = W, U
    sgd = paddle.trainer.SGD([out, beside], pool, paddle.optimizer.Momentum(learning_rate=1.0))
    sgd.train(lambda: iter([[(X, Y)]]), feeding=["x", "y"])
    np.testing.assert_allclose(pool["w"].reshape(-1, 1) - W, OF_W, rtol=1e-5)
    np.testing.assert_allclose(pool["u"].reshape(-1, 1) - U, OF_U, rtol=1e-5)
