"""What is special in 2017's costs: labels, certain probabilities, empty sequences, gradients."""

import itertools

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def data(name="x", size=3):
    return L.data(name=name, type=T.dense_vector(size))


def sequences(name="x", size=3):
    return L.data(name=name, type=T.dense_vector_sequence(size))


def id_sequences(name="label", size=3):
    return L.data(name=name, type=T.integer_value_sequence(size))


def with_gradient(y, x, feeds):
    """Values of a cost, and the gradient of their sum in x."""
    return pd.eval([y, *pd.gradients(y, [x])], feeds)


# ---- cross-entropy


def test_a_probability_of_0_and_that_of_a_softmax():
    x, label = data(), L.data(name="label", type=T.integer_value(3))
    fed = L.cross_entropy_cost(input=x, label=label)
    value, slope = with_gradient(fed, x, {x: [[0.0, 0.5, 0.5]], label: [0]})
    assert value == np.inf and slope[0, 0] == -np.inf and (slope[0, 1:] == 0).all()
    y = L.cross_entropy_cost(input=L.addto(x, act=A.Softmax()), label=label)
    value, slope = with_gradient(y, x, {x: [[-1000.0, 0.0, -1000.0]], label: [0]})
    np.testing.assert_allclose(value, [[1000.0]])
    np.testing.assert_allclose(slope, [[-1.0, 1.0, 0.0]], atol=1e-6)


# ---- multi-binary-label cross-entropy


def of_named(p, named):
    """-ln(1 - p) of all columns, and -ln(p / (1 - p)) for each time that one is named."""
    value = -np.log(1 - p).sum() - named @ np.log(p / (1 - p))
    return value, 1 / (1 - p) - named / (p * (1 - p))


@pytest.mark.parametrize("kind", [T.sparse_vector, T.sparse_binary_vector])
def test_the_numbers_of_a_sparse_label_do_not_count(kind):
    x, label = data(), L.data(name="label", type=kind(3))
    y = L.multi_binary_label_cross_entropy_cost(input=x, label=label)
    p = np.array([0.3, 0.6, 0.9])
    feeds = {x: p[None], label: [0, 2, 0], label.sparse.counts: [3]}
    value, slope = with_gradient(y, x, feeds)
    expected, expected_slope = of_named(p, np.array([2, 0, 1]))
    np.testing.assert_allclose(value, [[expected]], rtol=1e-6)
    np.testing.assert_allclose(slope, [expected_slope], rtol=1e-5)


def test_a_certain_and_right_probability_costs_nothing():
    x, label = data(), data("label")
    y = L.multi_binary_label_cross_entropy_cost(input=x, label=label)
    feeds = {x: [[1.0, 0.0, 0.5]], label: [[0.6, 0.5, 0.4]]}  # above 1/2 is positive
    value, slope = with_gradient(y, x, feeds)
    np.testing.assert_allclose(value, [[np.log(2)]], rtol=1e-6)
    np.testing.assert_allclose(slope, [[-1.0, 1.0, 2.0]])


def test_training_with_a_sparse_label_of_numbers():
    x = data("x", 2)
    p = L.fc(x, size=3, act=A.Sigmoid(), name="p", bias_attr=False)
    label = L.data(name="label", type=T.sparse_vector(3))
    cost = L.multi_binary_label_cross_entropy_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    pool["_p.w0"] = np.zeros((2, 3))
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    trainer.train(lambda: iter([[(np.array([1.0, 2.0]), [(0, 0.1), (2, -5.0)])]]))
    slope = np.outer([1.0, 2.0], 0.5 - np.array([1, 0, 1]))
    np.testing.assert_allclose(pool["_p.w0"].reshape(2, 3), -slope, rtol=1e-6)


# ---- several labels of nce


def test_each_column_of_a_sparse_label_is_a_class_of_nce():
    """The noise is drawn from a distribution of one class, so that the cost is known."""
    x, label = data("x", 2), L.data(name="label", type=T.sparse_binary_vector(4))
    noise = [0.0, 0.0, 1.0, 0.0]
    y = L.nce(x, label, num_neg_samples=3, neg_distribution=noise, name="n", weight=data("w", 1))
    w, b = (pd.get_variable(name) for name in ("_n.w0", "_n.wbias"))
    rng = np.random.default_rng(0)
    weights, bias = rng.standard_normal((4, 2)), rng.standard_normal((1, 4))
    rows, scale = rng.standard_normal((3, 2)), np.array([[2.0], [1.0], [0.5]])
    labels = [[0, 1], [], [2]]
    feeds = {
        x: rows,
        "w": scale,
        label: [c for row in labels for c in row],
        label.sparse.counts: [2, 0, 1],
        w: weights,
        b: bias,
    }
    found, *slopes = pd.eval([y, *pd.gradients(y, [w])], feeds)
    expected, expected_slope = np.zeros((3, 1)), np.zeros((4, 2))
    for i, row in enumerate(rows):
        o = 1 / (1 + np.exp(-(weights @ row + bias[0])))
        b_of = 3 * np.array(noise)
        for c in labels[i]:
            with np.errstate(divide="ignore"):
                expected[i] += -np.log(o[c] / (o[c] + b_of[c]))
            outer = -b_of[c] / (o[c] * (o[c] + b_of[c])) * o[c] * (1 - o[c])
            expected_slope[c] += scale[i, 0] * outer * row
        expected[i] += 3 * -np.log(b_of[2] / (o[2] + b_of[2]))
        outer = 3 * 1 / (o[2] + b_of[2]) * o[2] * (1 - o[2])
        expected_slope[2] += scale[i, 0] * outer * row
    np.testing.assert_allclose(found, expected * scale, rtol=1e-5)
    np.testing.assert_allclose(slopes[0], expected_slope, rtol=1e-4, atol=1e-6)


def test_nce_trains_on_several_labels_and_without_a_bias():
    x, label = data("x", 2), L.data(name="label", type=T.sparse_binary_vector(5))
    cost = L.nce(x, label, num_neg_samples=4, bias_attr=False, name="n")
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.1))
    costs = []
    samples = [[(np.array([1.0, 0.0]), [0, 1]), (np.array([0.0, 1.0]), [3])]] * 60

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    trainer.train(lambda: iter(samples), event_handler=handler)
    assert np.mean(costs[-10:]) < np.mean(costs[:10])


# ---- sequences


def paths(labels, blank):
    """What is left of a path: repeats first, then blanks."""
    return [k for k, _ in itertools.groupby(labels) if k != blank]


def ctc(p, label, blank):
    """-ln of the probability of all paths that lead to a label; 0 if there is none."""
    total = sum(
        np.prod([p[t, c] for t, c in enumerate(path)])
        for path in itertools.product(range(p.shape[1]), repeat=len(p))
        if paths(path, blank) == label
    )
    return -np.log(total) if total else 0.0


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


LABELLED = [(3, [0, 1]), (2, []), (0, []), (2, [1, 1]), (1, [1]), (0, [0])]


@pytest.mark.parametrize("kind", ["ctc", "warp_ctc"])
def test_empty_and_too_short_sequences_of_ctc(kind, rng):
    """No path leads to a label that is too long: it costs 0 and has no gradient."""
    x, label = sequences(), id_sequences(size=2)
    if kind == "ctc":
        y, blank = L.ctc(input=L.addto(x, act=A.Softmax()), label=label, size=3), 2
    else:
        y, blank = L.warp_ctc(input=x, label=label, size=3, blank=2), 2
    z = [rng.standard_normal((n, 3)) for n, _ in LABELLED]
    feeds = {
        "x": np.concatenate(z),
        "x.lengths": [n for n, _ in LABELLED],
        "label": [c for _, ids in LABELLED for c in ids],
        "label.lengths": [len(ids) for _, ids in LABELLED],
    }
    value, slope = with_gradient(y, x, feeds)
    expected = [ctc(softmax(rows), ids, blank) for rows, (_, ids) in zip(z, LABELLED, strict=True)]
    np.testing.assert_allclose(value[:, 0], expected, rtol=1e-5, atol=1e-6)
    assert (slope[5:7] == 0).all() and (slope[:5] != 0).all()


def test_labels_of_warp_ctc_reach_the_last_class():
    """So the label has as many classes as its data layer was declared with, and one more."""
    x, label = sequences(), id_sequences(size=2)
    cost = L.warp_ctc(input=L.fc(x, size=3, name="p"), label=label)
    pool = paddle.parameters.create(cost)
    pool["_p.w0"] = np.eye(3)
    pool["_p.wbias"] = np.zeros((1, 3))
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
    z = np.array([[0.1, 0.2, 0.3], [0.5, -0.4, 0.3]])
    found = trainer.test(lambda: iter([[(z, [1, 2])]])).cost
    assert found == pytest.approx(ctc(softmax(np.tanh(z)), [1, 2], 0), rel=1e-5)
    with pytest.raises(ValueError, match="label"):
        trainer.test(lambda: iter([[(z, [3])]]))


def chain(x, label, w):
    """-ln of the score of one path over the sum of all."""
    a, b, t = w[0], w[1], w[2:]

    def score(path):
        steps = sum(x[k, c] for k, c in enumerate(path))
        pairs = sum(t[i, j] for i, j in itertools.pairwise(path))
        return np.exp(a[path[0]] + b[path[-1]] + steps + pairs)

    total = sum(map(score, itertools.product(range(x.shape[1]), repeat=len(x))))
    return -np.log(score(label) / total)


def test_coeff_and_weight_of_crf_reach_its_parameter(rng):
    x, label, weight = sequences(), id_sequences(), data("w", 1)
    y = L.crf(input=x, label=label, weight=weight, coeff=0.5, name="c")
    w = pd.get_variable("_c.w0")
    values, steps = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    feeds = {x: steps, "x.lengths": [2, 3], label: [0, 2, 1, 1, 0], "w": [[2.0], [0.25]], w: values}
    found, slope = pd.eval([y, *pd.gradients(y, [w])], feeds)

    def total(values):
        return np.array(
            [
                [2.0 * chain(steps[:2], [0, 2], values)],
                [0.25 * chain(steps[2:], [1, 1, 0], values)],
            ]
        )

    np.testing.assert_allclose(found, total(values), rtol=1e-5)
    for place in np.ndindex(5, 3):
        d = np.zeros((5, 3))
        d[place] = 1e-5
        numeric = (total(values + d) - total(values - d)).sum() / 2e-5
        assert slope[place] == pytest.approx(0.5 * numeric, abs=2e-5)


def test_an_empty_sequence_of_crf(rng):
    """2017 read memory that was not its own; here it is ln of the sum of e^(start + end)."""
    x, label = sequences(), id_sequences()
    y = L.crf(input=x, label=label, name="c")
    w, values = pd.get_variable("_c.w0"), rng.standard_normal((5, 3))
    feeds = {x: rng.standard_normal((2, 3)), "x.lengths": [2, 0], label: [0, 1], w: values}
    found = pd.eval(y, feeds)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], chain(feeds[x], [0, 1], values), rtol=1e-5)


# ---- lists


def test_short_lists_and_those_without_relevance():
    """2017 stopped at both."""
    x, score = sequences(size=1), sequences("score", 1)
    y = L.lambda_cost(input=x, score=score, NDCG_num=2)
    feeds = {
        x: np.array([[1.0], [2.0], [3.0], [1.0], [0.5]]),
        "x.lengths": [2, 1, 0, 2],
        score: np.array([[0.0], [1.0], [2.0], [0.0], [0.0]]),
    }
    value, slope = with_gradient(y, x, feeds)
    np.testing.assert_allclose(value[:, 0], [1.0, 1.0, 1.0, 0.0, 0.0])
    push = np.log(2) * (1 / np.log(2) - 1 / np.log(3)) / (1 + np.exp(1.0))
    np.testing.assert_allclose(slope[:, 0], [push, -push, 0, 0, 0], atol=1e-7)


# ---- all costs


def test_each_cost_scales_its_own_gradient():
    """In 2017 a cost scaled what the costs after it had left in the gradient as well."""
    x, label = data(), data("label")
    first = L.square_error_cost(input=x, label=label, coeff=0.5)
    second = L.smooth_l1_cost(input=x, label=label, coeff=4.0)
    feeds = {x: [[0.5, 2.0, 0.0]], label: [[0.0, 0.0, 0.0]]}
    (slope,) = pd.eval(pd.gradients([first, second], [x]), feeds)
    np.testing.assert_allclose(slope, [[0.5 + 4.0 * 0.5, 0.5 * 4.0 + 4.0, 0.0]])


def test_a_weighted_cost_need_not_be_the_last(rng):
    x, label, weight = data(), data("label"), data("w", 1)
    weighted = L.square_error_cost(input=x, label=label, weight=weight)
    plain = L.square_error_cost(input=x, label=label)
    feeds = {x: rng.standard_normal((2, 3)), label: np.zeros((2, 3)), weight: [[2.0], [-1.0]]}
    (slope,) = pd.eval(pd.gradients([weighted, plain], [x]), feeds)
    np.testing.assert_allclose(slope, 2 * feeds[x] * [[3.0], [0.0]], rtol=1e-5, atol=1e-6)


def test_labels_beyond_0_and_1_of_the_huber_classification():
    """The sign of the margin is 2 label - 1, whatever the label is."""
    x, label = data("x", 1), L.data(name="label", type=T.integer_value(3))
    y = L.huber_classification_cost(input=x, label=label)
    value, slope = with_gradient(y, x, {x: [[0.1], [-0.5]], label: [2, 2]})
    np.testing.assert_allclose(value, [[(1 - 0.3) ** 2], [4 * 1.5]], rtol=1e-6)
    np.testing.assert_allclose(slope, [[-2 * 0.7 * 3], [-4 * 3]], rtol=1e-6)


@pytest.mark.parametrize("score", [100.0, -100.0])
def test_scores_of_hsigmoid_are_held_and_still_learn(score):
    x, label = data("x", 1), L.data(name="label", type=T.integer_value(4))
    y = L.hsigmoid(x, label, name="h", bias_attr=False)
    feeds = {x: [[1.0]], label: [3], "_h.w0": [[score], [0.0], [score]]}
    value, slope = with_gradient(y, pd.get_variable("_h.w0"), feeds)
    held = 40.0 if score < 0 else 0.0  # both children of class 3 are odd
    np.testing.assert_allclose(value, [[2 * held]], atol=1e-6)
    np.testing.assert_allclose(slope[:, 0], [-(score < 0), 0, -(score < 0)], atol=1e-6)
