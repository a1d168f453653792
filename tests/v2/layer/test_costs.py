"""The costs beyond squared error and classification, each against its formula."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

from . import layer_checks as layers
from . import reference_layers as naive
from .layer_rows import A, Dense, Ids, L, Row, T

X, ONE = Dense(4), Dense(1)


def positive(x):
    return L.fc(input=x, size=4, name="p", act=A.Exp(), bias_attr=False)


def sigmoid(x):
    return L.fc(input=x, size=4, name="p", act=A.Sigmoid(), bias_attr=False)


def product(v):
    return v["x"] @ v["_p.w0"]


def selfnorm(v, alpha=0.1):
    rows = np.exp(product(v))
    log_sum = np.log(rows.sum(1, keepdims=True))
    return naive.cross_entropy(rows, v["label"]) + log_sum + alpha * log_sum**2


def binary(v, holds):
    p = 1 / (1 + np.exp(-product(v)))
    return -np.log(np.where(holds, p, 1 - p)).sum(1, keepdims=True)


def ranked(v, label):
    order = v["left"] - v["right"]
    return np.log1p(np.exp(order)) - label * order


def huber(v, delta):
    away = np.abs(v["x"] - v["label"])
    cells = np.where(away <= delta, away**2 / 2, delta * (away - delta / 2))
    return cells.sum(1, keepdims=True)


def huber_class(v):
    margins = (2 * v["label"] - 1) * v["x"][:, 0]
    return np.array([[-4 * a if a < -1 else (1 - a) ** 2 if a < 1 else 0.0] for a in margins])


PAIR = {"left": ONE, "right": ONE}
ROWS = [
    Row(
        "selfnorm",
        {"x": X, "label": Ids(4)},
        lambda x, label: L.cross_entropy_with_selfnorm_cost(
            input=positive(x), label=label, name="y"
        ),
        selfnorm,
    ),
    Row(
        "selfnorm-alpha-coeff",
        {"x": X, "label": Ids(4)},
        lambda x, label: L.cross_entropy_with_selfnorm_cost(
            input=positive(x), label=label, name="y", coeff=0.5, softmax_selfnorm_alpha=0.7
        ),
        lambda v: selfnorm(v, 0.7),
        coeff=0.5,
    ),
    Row(
        "multi-binary-id",
        {"x": X, "label": Ids(4)},
        lambda x, label: L.multi_binary_label_cross_entropy_cost(
            input=sigmoid(x), label=label, name="y", coeff=2.0
        ),
        lambda v: binary(v, np.eye(4, dtype=bool)[v["label"]]),
        coeff=2.0,
    ),
    Row(
        "multi-binary-dense",
        {"x": X, "label": X},
        lambda x, label: L.multi_binary_label_cross_entropy_cost(
            input=sigmoid(x), label=label, name="y"
        ),
        lambda v: binary(v, v["label"] > 0.5),
    ),
    Row(
        "rank",
        {**PAIR, "label": ONE},
        lambda left, right, label: L.rank_cost(left=left, right=right, label=label, name="y"),
        lambda v: ranked(v, v["label"]),
    ),
    Row(
        "rank-id-weight-coeff",
        {**PAIR, "label": Ids(2), "weight": ONE},
        lambda left, right, label, weight: L.rank_cost(
            left=left, right=right, label=label, weight=weight, name="y", coeff=3.0
        ),
        lambda v: ranked(v, v["label"][:, None]) * v["weight"],
    ),
    Row(
        "sum",
        {"x": X},
        lambda x: L.sum_cost(input=x, name="y"),
        lambda v: v["x"].sum(1, keepdims=True),
    ),
    Row(
        "huber-regression",
        {"x": X, "label": X},
        lambda x, label: L.huber_regression_cost(input=x, label=label, name="y"),
        lambda v: huber(v, 1.0),
    ),
    Row(
        "huber-regression-delta-coeff",
        {"x": X, "label": X},
        lambda x, label: L.huber_regression_cost(
            input=x, label=label, name="y", delta=0.3, coeff=0.25
        ),
        lambda v: huber(v, 0.3),
        coeff=0.25,
    ),
    Row(
        "smooth-l1",
        {"x": X, "label": X},
        lambda x, label: L.smooth_l1_cost(input=x, label=label, name="y", coeff=2.0),
        lambda v: huber(v, 1.0),
        coeff=2.0,
    ),
    Row(
        "huber-classification",
        {"x": ONE, "label": Ids(2)},
        lambda x, label: L.huber_classification_cost(input=x, label=label, name="y", coeff=2.0),
        huber_class,
        coeff=2.0,
    ),
]


class TestRows(layers.LayerChecks):
    """Costs, each against its formula."""

    rows = ROWS


def data(name, size):
    return L.data(name=name, type=T.dense_vector(size))


def ids(name, size):
    return L.data(name=name, type=T.integer_value(size))


@pytest.fixture
def net():
    """x [4], z [3], one [1], ids (4), p: a sigmoid of x [4]."""
    x = data("x", 4)
    p = L.fc(input=x, size=4, name="p", act=A.Sigmoid())
    return {"x": x, "z": data("z", 3), "one": data("one", 1), "ids": ids("ids", 4), "p": p}


def test_every_piece_of_the_classification_loss():
    x, label = data("x", 1), ids("label", 2)
    y = L.huber_classification_cost(input=x, label=label)
    values = {-2.0: 8.0, -1.0: 4.0, 0.0: 1.0, 0.5: 0.25, 1.0: 0.0, 3.0: 0.0}
    rows = np.array([[v] for v in values], np.float32)
    expected = [[v] for v in values.values()]
    np.testing.assert_allclose(pd.eval(y, {x: rows, label: np.ones(6, int)}), expected)
    np.testing.assert_allclose(pd.eval(y, {x: -rows, label: np.zeros(6, int)}), expected)


@pytest.mark.parametrize("described", [1, 3, 9])
def test_a_label_of_ids_may_be_described_with_another_range(described):
    """Programs of 2017 got away with it: what counts is whether an id is a class."""
    x, label = data("x", 4), ids("label", described)
    p = L.fc(input=x, size=4, name="p", act=A.Softmax(), bias_attr=False)
    cost = L.classification_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    pool["_p.w0"] = np.zeros((4, 4))
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
    found = trainer.test(lambda: iter([[(np.ones(4), 2)], [(np.ones(4), 0)]]))
    assert found.cost == pytest.approx(np.log(4))
    assert found.metrics == {"classification_error_evaluator": 0.5}
    with pytest.raises(pd.BackendError if described == 9 else ValueError):
        trainer.test(lambda: iter([[(np.ones(4), -1 if described == 1 else 5)]]))


def test_a_distant_pair_is_held_at_40_and_still_learns():
    left, right, label = (data(n, 1) for n in ("left", "right", "label"))
    y = L.rank_cost(left=left, right=right, label=label)
    found = pd.gradients(y, [left, right])
    feeds = {left: [[50.0], [-60.0]], right: [[0.0], [0.0]], label: [[0.25], [1.0]]}
    value, *slopes = pd.eval([y, *found], feeds)
    np.testing.assert_allclose(value, [[30.0], [40.0]])
    np.testing.assert_allclose(slopes, [[[0.75], [-1.0]], [[-0.75], [1.0]]], rtol=1e-6)


def test_a_certain_sigmoid_has_a_finite_cost():
    """The activation holds its argument within [-40, 13]; float32 has no 1 - sigmoid(40)."""
    x = data("x", 2)
    p = L.addto(x, act=A.Sigmoid())
    y = L.multi_binary_label_cross_entropy_cost(input=p, label=data("label", 2))
    cost = pd.eval(y, {"x": [[200.0, -200.0]], "label": [[0.0, 1.0]]})
    np.testing.assert_allclose(cost, [[13.0 + 40.0]], rtol=1e-6)


def test_no_gradient_goes_to_a_label():
    x = data("x", 1)
    label = L.fc(x, size=1, name="label")
    makers = [L.huber_regression_cost, L.smooth_l1_cost, L.multi_binary_label_cross_entropy_cost]
    costs = [make(input=x, label=label) for make in makers]
    costs.append(L.rank_cost(left=x, right=x, label=label))
    for cost in costs:
        assert pd.gradients(cost, [pd.get_variable("_label.w0")]) == [None]


def test_names_and_records(net):
    x, one, label, p = (net[k] for k in ("x", "one", "ids", "p"))
    made = [
        L.cross_entropy_with_selfnorm_cost(input=p, label=label, softmax_selfnorm_alpha=0.5),
        L.multi_binary_label_cross_entropy_cost(input=p, label=label),
        L.rank_cost(left=one, right=one, label=one, coeff=2.0),
        L.sum_cost(input=x),
        L.huber_regression_cost(input=x, label=x, delta=0.5),
        L.huber_classification_cost(input=one, label=label),
        L.smooth_l1_cost(input=x, label=x, coeff=3.0),
    ]
    assert [y.name for y in made] == [
        *("__cross_entropy_with_selfnorm_0__", "__multi_binary_label_cross_entropy_0__"),
        *("__rank_cost_0__", "__sum_cost_0__", "__huber_regression_cost_0__"),
        *("__huber_classification_cost_0__", "__smooth_l1_cost_0__"),
    ]
    assert {y.size for y in made} == {1}
    assert [y.config.HasField("size") for y in made] == [False, *[True] * 6]
    assert [y.config.coeff for y in made] == [1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0]
    assert made[0].config.softmax_selfnorm_alpha == 0.5
    assert made[4].config.delta == 0.5


# fmt: off
MISTAKES = [
    (lambda p, z, **_: L.cross_entropy_with_selfnorm_cost(input=p, label=z), pd.ShapeError,
     r"selfnorm layer '__cross_entropy_with_selfnorm_0__', inputs \['p', 'z'\]: "
     "'p' has 4 probabilities, the label 3 classes"),
    (lambda p, z, **_: L.multi_binary_label_cross_entropy_cost(input=p, label=z), pd.ShapeError,
     "multi_binary_label_cross_entropy_cost layer .*: 'p' is 4 wide, its label is z: float32"),
    (lambda z, ids, **_: L.multi_binary_label_cross_entropy_cost(input=z, label=ids),
     pd.ShapeError, "'z' has 3 probabilities, the label 4 classes"),
    (lambda x, one, **_: L.rank_cost(left=one, right=x, label=one), pd.ShapeError,
     r"rank_cost layer .*, inputs \['one', 'x', 'one'\]: the input is one number a row, not x"),
    (lambda x, one, **_: L.rank_cost(left=one, right=one, label=x), pd.ShapeError,
     "'one' is 1 wide, its label is x"),
    (lambda x, one, **_: L.rank_cost(left=one, right=one, label=one, weight=x), pd.ShapeError,
     "the weight 'x' is 4 wide, not 1"),
    (lambda ids, one, **_: L.rank_cost(left=ids, right=one, label=one), pd.DTypeError,
     "'ids' holds ids, no rows of numbers"),
    (lambda ids, **_: L.sum_cost(input=ids), pd.DTypeError, "'ids' holds ids"),
    (lambda x, z, **_: L.huber_regression_cost(input=x, label=z), pd.ShapeError,
     "huber_regression_cost layer .*: 'x' is 4 wide, its label is z"),
    (lambda x, **_: L.huber_regression_cost(input=x, label=x, delta=0), pd.GraphError,
     "delta is positive, not 0"),
    (lambda x, z, **_: L.smooth_l1_cost(input=x, label=z), pd.ShapeError,
     "smooth_l1_cost layer .*: 'x' is 4 wide, its label is z"),
    (lambda x, ids, **_: L.huber_classification_cost(input=x, label=ids), pd.ShapeError,
     "the input is one number a row, not x"),
    (lambda one, **_: L.huber_classification_cost(input=one, label=one), pd.DTypeError,
     "the label 'one' holds ids, 0 or 1, not one: float32"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(net, mistake, error, message):
    known = set(paddle.build.current().layers)
    with pytest.raises(error, match=message):
        mistake(**net)
    assert set(paddle.build.current().layers) == known
