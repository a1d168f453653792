"""Noise-contrastive estimation and the hierarchical sigmoid, against their formulas."""

import numpy as np
import pytest

import pd_core as pd

from . import reference_structured as naive
from .random import stream

WIDE = np.float64


class Rows:
    """Rows that score C classes, or C - 1 nodes, and what they are fed; two inputs, two weights."""

    def __init__(self, rng, n=5, classes=6, nodes=None, label_dims=("N",)):
        count = classes if nodes is None else nodes
        self.inputs = [pd.Variable.of(("N", d), WIDE, f"x{d}") for d in (3, 2)]
        self.weights = [pd.Variable.of((count, d), WIDE, f"w{d}") for d in (3, 2)]
        self.bias = pd.Variable.of((1, count), WIDE, "b")
        self.label = pd.Variable.of(label_dims, np.int64, "label")
        self.floats = [*self.inputs, *self.weights, self.bias]
        self.feeds = {v: rng.standard_normal((n, v.dims[1])) for v in self.inputs}
        self.feeds |= {v: rng.standard_normal(v.dims) for v in (*self.weights, self.bias)}
        self.feeds[self.label] = rng.integers(0, classes, (n, *label_dims[1:]))

    def arguments(self):
        return self.inputs, self.label, self.weights, self.bias

    def arrays(self):
        return [self.feeds[v] for v in self.floats]

    def labels(self):
        return self.feeds[self.label].reshape(-1, 1)


def scores(arrays):
    """The score of every class or node, [N, count]."""
    x, z, w, v, b = arrays
    return x @ w.T + z @ v.T + b


def check_gradient(cost, rows, formula, rng):
    """In double precision: ONNX Runtime has no Softplus of that."""
    session = pd.Session("reference")
    directions = [rng.standard_normal(a.shape) for a in rows.arrays()]
    seed = rng.standard_normal((len(rows.labels()), 1))
    gradients = pd.gradients(cost, rows.floats, seeds=[pd.constant(seed, WIDE)])
    values = session.eval(gradients, rows.feeds)
    slope = sum(np.sum(g * v) for g, v in zip(values, directions, strict=True))
    perturbed = [
        np.sum(
            formula([a + step * w for a, w in zip(rows.arrays(), directions, strict=True)]) * seed
        )
        for step in (1e-5, -1e-5)
    ]
    assert slope == pytest.approx((perturbed[0] - perturbed[1]) / 2e-5, rel=1e-7)


# ---- draws


def test_uniform_classes():
    draws = pd.eval(pd.random_classes([4, 50], 7))
    assert draws.dtype == np.int64
    np.testing.assert_array_equal(draws, np.floor(stream("uniform_random_0", (4, 50)) * 7))


@pytest.mark.parametrize("distribution", [[0.5, 0.0, 0.2, 0.3], [1.0], [0.0, 1.0], [0.25] * 4])
def test_classes_of_a_distribution(distribution):
    classes, count = len(distribution), 100_000
    draws = pd.eval(pd.random_classes([count], classes, distribution))
    frequencies = np.bincount(draws, minlength=classes) / count
    spread = np.sqrt(np.array(distribution) * (1 - np.array(distribution)) / count)
    # the spread is 0 where the probability is 0: none is drawn
    assert (np.abs(frequencies - distribution) <= 4 * spread).all()


def test_every_evaluation_draws_anew():
    draws = pd.random_classes([100], 1000, np.full(1000, 1e-3))
    assert (pd.eval(draws) != pd.eval(draws)).any()


# ---- noise-contrastive estimation

UNEVEN = [0.4, 0.1, 0.1, 0.1, 0.3, 0.0]


@pytest.mark.parametrize("distribution", [None, UNEVEN], ids=["uniform", "uneven"])
@pytest.mark.parametrize("label_dims", [("N",), ("N", 1)], ids=["[N]", "[N, 1]"])
class TestNce:
    """The noise is read from the stream of random numbers, or drawn by the op of the same name."""

    def cost(self, rows, distribution):
        return pd.nce_loss(*rows.arguments(), samples=4, distribution=distribution)

    def truth(self, rows, distribution):
        n, classes = len(rows.labels()), 6
        rows.feeds[rows.label] = rows.feeds[rows.label] % 5  # the last one has no noise
        with pd.fresh():
            noise = pd.eval(pd.random_classes([n, 4], classes, distribution))
        both = np.concatenate([rows.labels(), noise], 1)
        shares = np.full(classes, 1 / classes) if distribution is None else np.array(distribution)

        def formula(arrays):
            picked = np.take_along_axis(scores(arrays), both, 1)
            return naive.nce(picked, 4 * shares[both])

        return formula

    @pytest.mark.parametrize("n", [5, 1, 0])
    def test_value(self, distribution, label_dims, n, rng):
        rows = Rows(rng, n, label_dims=label_dims)
        cost, formula = self.cost(rows, distribution), self.truth(rows, distribution)
        actual = pd.Session("reference").eval(cost, rows.feeds)
        assert actual.shape == (n, 1)
        np.testing.assert_allclose(actual, formula(rows.arrays()), rtol=1e-6)

    def test_gradient(self, distribution, label_dims, rng):
        rows = Rows(rng, label_dims=label_dims)
        cost = self.cost(rows, distribution)
        check_gradient(cost, rows, self.truth(rows, distribution), rng)


def test_nce_in_single_precision_is_safe(rng):
    """Scores of ±1000 saturate the sigmoid; a label that is no noise costs nothing."""
    x = pd.Variable("x", data=np.float32([[1000.0], [-1000.0], [3.0]]))
    weights = pd.constant(np.ones((3, 1)), "float32")
    cost = pd.nce_loss(x, [0, 0, 2], weights, samples=2, distribution=[0.5, 0.5, 0.0])
    value, slope = pd.eval([cost, *pd.gradients(cost, [x])])
    o = 1 / (1 + np.exp(-3.0))
    expected = [3 * np.log(2), 1000.0, 2 * np.log(1 + o)]
    np.testing.assert_allclose(value[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(slope[:, 0], [0, -1, 2 * o * (1 - o) / (1 + o)], atol=1e-6)


def test_noise_teaches_only_the_classes_that_are_drawn(rng):
    weights = pd.Variable("w", data=np.zeros((1000, 2), np.float32))
    cost = pd.nce_loss(np.ones((3, 2), np.float32), [1, 2, 3], weights, samples=5)
    slope = pd.eval(pd.gradients(cost, [weights])[0])
    assert 3 <= np.count_nonzero(slope.any(1)) <= 18


@pytest.mark.parametrize("distribution", [None, UNEVEN], ids=["uniform", "uneven"])
def test_several_labels_of_a_row_share_its_noise(distribution, rng):
    rows = Rows(rng, n=3)
    labels, counts = [4, 1, 1, 3], [2, 0, 2]
    columns = pd.Variable.of(("labels",), np.int64, "columns")
    number = pd.Variable.of(("N",), np.int64, "counts")
    several = pd.SparseRows(columns, number, 6)
    cost = pd.nce_loss(rows.inputs, several, rows.weights, rows.bias, 4, distribution)
    feeds = {v: a for v, a in rows.feeds.items() if v is not rows.label}
    with pd.fresh():
        noise = pd.eval(pd.random_classes([3, 4], 6, distribution))
    shares = np.full(6, 1 / 6) if distribution is None else np.array(distribution)
    all_scores = scores(rows.arrays())
    expected = np.zeros((3, 1))
    for i, own in enumerate(np.split(np.array(labels), np.cumsum(counts)[:-1])):
        for c in own:
            o = 1 / (1 + np.exp(-all_scores[i, c]))
            expected[i] -= np.log(o / (o + 4 * shares[c]))
        o, k = 1 / (1 + np.exp(-all_scores[i, noise[i]])), 4 * shares[noise[i]]
        expected[i] -= np.log(k / (o + k)).sum()
    session = pd.Session("reference")
    found = session.eval(cost, feeds | {columns: labels, number: counts})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_how_often_sparse_rows_name_a_column():
    columns, counts = pd.constant(np.array([2, 0, 2])), pd.constant(np.array([1, 0, 2]))
    rows = pd.SparseRows(columns, counts, 3, pd.constant(np.array([0.5, 0.0, -2.0])))
    expected = [[0, 0, 1], [0, 0, 0], [1, 0, 1]]
    np.testing.assert_array_equal(rows.occurrences().eval(), expected)


# ---- hierarchical sigmoid


@pytest.mark.parametrize("classes", [2, 3, 6, 8, 9])
class TestTree:
    def test_value(self, classes, rng):
        rows = Rows(rng, n=2 * classes, classes=classes, nodes=classes - 1)
        rows.feeds[rows.label] = np.arange(2 * classes) % classes
        cost = pd.hierarchical_sigmoid(*rows.arguments())
        actual = pd.Session("reference").eval(cost, rows.feeds)
        expected = naive.tree(scores(rows.arrays()), rows.labels())
        np.testing.assert_allclose(actual, expected, rtol=1e-12)

    def test_gradient(self, classes, rng):
        rows = Rows(rng, classes=classes, nodes=classes - 1)
        cost = pd.hierarchical_sigmoid(*rows.arguments())
        check_gradient(cost, rows, lambda a: naive.tree(scores(a), rows.labels()), rng)

    def test_probabilities_of_all_classes_add_up_to_1(self, classes, rng):
        x, weights = rng.standard_normal((1, 4)), rng.standard_normal((classes - 1, 4))
        x = np.repeat(x, classes, 0).astype(np.float32)
        cost = pd.hierarchical_sigmoid(x, np.arange(classes), weights.astype(np.float32))
        assert np.exp(-pd.eval(cost)).sum() == pytest.approx(1, rel=1e-6)


def test_no_rows(rng):
    rows = Rows(rng, n=0, nodes=5, label_dims=("N", 1))
    cost = pd.hierarchical_sigmoid(*rows.arguments())
    values = pd.Session("reference").eval([cost, *pd.gradients(cost, rows.floats)], rows.feeds)
    assert [a.shape for a in values] == [(0, 1), *(a.shape for a in rows.arrays())]
    assert not any(a.any() for a in values)


def test_scores_of_the_tree_are_held_and_still_learn():
    x = pd.Variable("x", data=np.float32([[90.0], [-90.0]]))
    cost = pd.hierarchical_sigmoid(x, [1, 1], np.ones((1, 1), np.float32))  # 1 is the odd child
    value, slope = pd.eval([cost, *pd.gradients(cost, [x])])
    np.testing.assert_allclose(value, [[0.0], [40.0]], atol=1e-6)
    np.testing.assert_allclose(slope, [[0.0], [-1.0]], atol=1e-6)


def array(*dims, dtype="float32"):
    return np.zeros(dims, dtype)


# fmt: off
MISTAKES = [
    (lambda: pd.nce_loss([array(2, 3)], [0, 1], [array(5, 3), array(5, 3)]), pd.ShapeError,
     "nce_loss: 1 inputs for 2 weights"),
    (lambda: pd.nce_loss(array(2, 3), [0, 1], array(5, 4)), pd.ShapeError,
     r"nce_loss: takes rows \[N, D\] and weights \[classes, D\], not float32\[2, 3\] and "
     r"float32\[5, 4\]"),
    (lambda: pd.nce_loss([array(2, 3)] * 2, [0, 1], [array(5, 3), array(6, 3)]), pd.ShapeError,
     r"nce_loss: the weights have \[5, 6\] rows"),
    (lambda: pd.nce_loss(array(2, 3), array(2), array(5, 3)), pd.DTypeError,
     r"nce_loss: labels are integers, not float32\[2\]"),
    (lambda: pd.nce_loss(array(2, 3), array(2, 2, dtype=int), array(5, 3)), pd.ShapeError,
     r"nce_loss: labels are \[N\] or \[N, 1\], not int64\[2, 2\]"),
    (lambda: pd.nce_loss(array(2, 3), [0, 1], array(5, 3), samples=0), ValueError,
     "nce_loss: at least one sample is drawn, not 0"),
    (lambda: pd.nce_loss(array(2, 3), [0, 1], array(5, 3), distribution=[0.5, 0.5]), ValueError,
     "nce_loss: a distribution is 5 probabilities that add up to 1, not 2 numbers of sum 1"),
    (lambda: pd.random_classes([2], 2, [0.5, 0.6]), ValueError,
     "random_classes: a distribution is 2 probabilities .* not 2 numbers of sum 1.1"),
    (lambda: pd.random_classes([2], 2, [-0.5, 1.5]), ValueError, "random_classes: a distribution"),
    (lambda: pd.hierarchical_sigmoid(array(2, 3), [0, 1], array(5)), pd.ShapeError,
     r"hierarchical_sigmoid: takes rows \[N, D\] and weights \[classes, D\]"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake()
