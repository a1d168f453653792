"""CRF and CTC against enumerations of all labelings and alignments."""

import itertools

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from tests.thinned import thinned

from . import reference_structured as naive

WIDE = np.float64


def slot(dims, dtype=WIDE):
    return pd.Variable.of(dims, dtype, "x")


def project(feeds, target, variables, formula, rng):
    """Slope of a random projection of the target along random directions of the variables.

    (by gradients, by finite differences of formula(arrays), a reference for the target).
    """
    arrays = [feeds[v] for v in variables]
    seed = rng.standard_normal(pd.eval(target, feeds).shape)
    directions = [rng.standard_normal(a.shape) for a in arrays]
    gradients = pd.gradients(target, variables, seeds=[pd.constant(seed, WIDE)])
    slope = sum(np.sum(g * v) for g, v in zip(pd.eval(gradients, feeds), directions, strict=True))

    def perturbed(step):
        moved = [a + step * v for a, v in zip(arrays, directions, strict=True)]
        return np.sum(formula(moved) * seed)

    return slope, (perturbed(1e-5) - perturbed(-1e-5)) / 2e-5


# ---- CRF

BATCHES = {
    "none": [],
    "empty": [0, 0],
    "one step": [1],
    "equal": [3, 3, 3],
    "ragged": [2, 0, 4, 1],
}


class Chain:
    """A CRF of K labels over a batch, and what it is fed."""

    def __init__(self, lengths, rng, labels=3, borders=True):
        self.lengths, tokens = np.array(lengths, np.int64), sum(lengths)
        self.sequences = pd.Segments(slot(("B",), np.int64))
        self.scores = slot((self.sequences.tokens, labels))
        self.labels = slot((self.sequences.tokens,), np.int64)
        self.weights = [slot((labels,)), slot((labels,)), slot((labels, labels))]
        self.floats = [self.scores, *self.weights]
        self.feeds = {
            self.sequences.lengths: self.lengths,
            self.labels: rng.integers(0, labels, tokens),
            self.scores: rng.standard_normal((tokens, labels)),
            **{w: rng.standard_normal(w.shape) for w in self.weights},
        }
        start, end, moves = self.weights
        self.options = {"transitions": moves, **({"start": start, "end": end} if borders else {})}
        self.cost = pd.crf_loss(self.scores, self.labels, self.sequences, **self.options)

    def truth(self, arrays):
        scores, *weights = arrays
        return naive.crf(scores, self.feeds[self.labels], self.lengths, *weights)

    def arrays(self):
        return [self.feeds[v] for v in self.floats]


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
class TestCrf:
    def test_value(self, lengths, rng):
        chain = Chain(lengths, rng)
        actual = pd.eval(chain.cost, chain.feeds)
        assert actual.shape == (len(lengths), 1)
        np.testing.assert_allclose(actual, chain.truth(chain.arrays()), rtol=1e-12, atol=1e-12)

    def test_gradient(self, lengths, rng):
        chain = Chain(lengths, rng)
        actual, expected = project(chain.feeds, chain.cost, chain.floats, chain.truth, rng)
        assert actual == pytest.approx(expected, rel=1e-7, abs=1e-8)

    def test_decode(self, lengths, rng):
        chain = Chain(lengths, rng)
        y = pd.crf_decode(chain.scores, chain.sequences, **chain.options)
        scores, *weights = chain.arrays()
        actual = pd.eval(y, chain.feeds)
        assert actual.dtype == np.int64
        np.testing.assert_array_equal(actual, naive.crf_best(scores, chain.lengths, *weights))


def test_crf_without_borders(rng):
    chain = Chain([2, 3], rng, borders=False)
    for border in chain.weights[:2]:
        chain.feeds[border] = np.zeros(3)
    feeds = {v: a for v, a in chain.feeds.items() if v not in chain.weights[:2]}
    np.testing.assert_allclose(pd.eval(chain.cost, feeds), chain.truth(chain.arrays()))


def test_crf_of_large_scores_in_single_precision():
    """Nothing overflows: exp(1000) is no float32."""
    lengths = pd.Segments(np.array([3]))
    scores = pd.constant(np.float32([[1000, 0], [0, 1000], [-1000, 0]]))
    moves = pd.Variable("moves", data=np.float32([[0, -500], [500, 0]]))
    cost = pd.crf_loss(scores, [0, 0, 1], lengths, moves)
    (g,) = pd.gradients(cost, [moves])
    value, slope = pd.eval([cost, g])
    np.testing.assert_allclose(value, [[1000.0]])  # 0 1 1 against 0 0 1
    np.testing.assert_allclose(slope, [[-1, 0], [0, 1]])


def test_crf_decode_takes_the_lowest_of_equal_labels():
    sequences = pd.Segments(np.array([3, 1]))
    labels = pd.crf_decode(np.zeros((4, 3)), sequences, np.zeros((3, 3)))
    assert pd.eval(labels).tolist() == [0, 0, 0, 0]
    later = pd.crf_decode(np.zeros((4, 3)), sequences, -np.eye(3))
    assert pd.eval(later).tolist() == [0, 1, 0, 0]


# ---- CTC

# steps and labels of each sequence; the labels repeat often, as there are two
LABELLED = {
    "none": ([], []),
    "empty": ([0, 0], [0, 0]),
    "no labels": ([2, 0, 3], [0, 0, 0]),
    "one step": ([1, 1], [1, 0]),
    "equal": ([4, 4, 4], [2, 2, 2]),
    "ragged": ([5, 1, 4, 3, 5], [3, 1, 0, 2, 1]),
    "too short": ([1, 0, 2, 4], [2, 1, 3, 4]),
}


class Steps:
    """CTC over a batch, and what it is fed."""

    def __init__(self, steps, labels, rng, blank=0, classes=3):
        self.steps, self.label_lengths = np.array(steps, np.int64), np.array(labels, np.int64)
        self.blank = blank
        self.sequences = pd.Segments(slot(("B",), np.int64))
        self.label_sequences = pd.Segments(slot(("B",), np.int64))
        self.log_p = slot((self.sequences.tokens, classes))
        self.labels = slot((self.label_sequences.tokens,), np.int64)
        rows = rng.standard_normal((sum(steps), classes))
        places = rng.integers(0, classes - 1, sum(labels))
        self.feeds = {
            self.sequences.lengths: self.steps,
            self.label_sequences.lengths: self.label_lengths,
            self.log_p: rows - np.log(np.exp(rows).sum(1, keepdims=True)),
            self.labels: places + (places >= blank),
        }
        self.cost = pd.ctc_loss(
            self.log_p, self.labels, self.sequences, self.label_sequences, blank
        )

    def truth(self, arrays):
        labels = self.feeds[self.labels]
        return naive.ctc(arrays[0], labels, self.steps, self.label_lengths, self.blank)


@pytest.mark.parametrize("name, blank", thinned(itertools.product(LABELLED, [0, 1, 2]), 2))
class TestCtc:
    def test_value(self, name, blank, rng):
        batch = Steps(*LABELLED[name], rng, blank)
        actual = pd.eval(batch.cost, batch.feeds)
        assert actual.shape == (len(batch.steps), 1)
        expected = batch.truth([batch.feeds[batch.log_p]])
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)

    def test_gradient(self, name, blank, rng):
        batch = Steps(*LABELLED[name], rng, blank)
        actual, expected = project(batch.feeds, batch.cost, [batch.log_p], batch.truth, rng)
        assert actual == pytest.approx(expected, rel=1e-7, abs=1e-8)


def test_ctc_of_too_long_a_label_has_no_cost_and_no_gradient(rng):
    batch = Steps(*LABELLED["too short"], rng)
    batch.feeds[batch.labels][-4:] = [1, 1, 2, 2]  # four labels and two blanks in four steps
    value, slope = pd.eval(
        [batch.cost, *pd.gradients(batch.cost, [batch.log_p])],
        batch.feeds,
    )
    np.testing.assert_array_equal(value, np.zeros((4, 1)))
    np.testing.assert_array_equal(slope, np.zeros((7, 3)))


def test_ctc_of_impossible_steps_is_no_nan():
    """Where a class that is needed has probability 0, and where one that is not has."""
    lengths = pd.Segments(np.array([2]))
    log_p = pd.Variable("log_p", data=np.log([[1, 1e-300, 0.5], [1, 1e-300, 0.5]]), dtype=WIDE)
    cost = pd.ctc_loss(log_p + pd.constant([0.0, -np.inf, 0.0], WIDE), [1], lengths, ONE)
    other = pd.ctc_loss(log_p + pd.constant([0.0, -np.inf, 0.0], WIDE), [2], lengths, ONE)
    actual = pd.eval([cost, other, *pd.gradients(cost, [log_p]), *pd.gradients(other, [log_p])])
    assert all(np.isfinite(array).all() for array in actual)
    assert actual[0] > 1e29
    np.testing.assert_allclose(actual[1], -np.log(0.5 + 0.5 + 0.25), rtol=1e-12)


ONE = pd.Segments(np.array([1]))


def test_ctc_is_what_torch_computes(rng):
    torch = pytest.importorskip("torch")
    steps, labels, classes = rng.integers(20, 61, 8), rng.integers(0, 20, 8), 12
    batch = Steps(steps, labels, rng, classes=classes)
    padded = torch.zeros(max(steps), 8, classes, dtype=torch.float64)
    for k, (rows,) in enumerate(naive.pieces(steps, batch.feeds[batch.log_p])):
        padded[: len(rows), k] = torch.tensor(rows)
    logits = padded.requires_grad_()
    given = (torch.tensor(v) for v in (batch.feeds[batch.labels], steps, labels))
    expected = torch.nn.functional.ctc_loss(logits.log_softmax(2), *given, reduction="none")
    expected.sum().backward()
    scores = slot((batch.sequences.tokens, classes))
    cost = pd.ctc_loss(pd.log_softmax(scores), batch.labels, batch.sequences, batch.label_sequences)
    feeds = {scores: batch.feeds[batch.log_p], **batch.feeds}
    del feeds[batch.log_p]
    value, slope = pd.eval([cost, *pd.gradients(cost, [scores])], feeds)
    np.testing.assert_allclose(value[:, 0], expected.detach().numpy(), rtol=1e-9)
    of_rows = np.concatenate([logits.grad.numpy()[:n, k] for k, n in enumerate(steps)])
    np.testing.assert_allclose(slope, of_rows, rtol=1e-7, atol=1e-12)


def test_long_sequences_of_certain_steps_in_single_precision(rng):
    """300 steps of logits up to 600 apart: the cost is some 1e5, its gradient a difference of
    distributions."""
    sequences, label_sequences = pd.Segments(np.array([300])), pd.Segments(np.array([40]))
    logits = pd.constant(rng.uniform(-300, 300, (300, 8)), np.float32)
    cost = pd.ctc_loss(pd.log_softmax(logits), rng.integers(1, 8, 40), sequences, label_sequences)
    value, slope = pd.eval([cost, *pd.gradients(cost, [logits])])
    assert 1e4 < value.item() < 1e6
    np.testing.assert_allclose(slope.sum(1), np.zeros(300), atol=1e-4)
    assert np.abs(slope).max() <= 1.001


# ---- both


def test_exported_models_need_values_and_lengths_only(rng, tmp_path):
    chain, batch = Chain([2, 3], rng), Steps([4, 5], [2, 1], rng)
    decoded = pd.crf_decode(chain.scores, chain.sequences, **chain.options)
    targets, feeds = [chain.cost, decoded, batch.cost], {**chain.feeds, **batch.feeds}
    for k, v in enumerate(feeds):
        v.name = f"in{k}"
    path = str(tmp_path / "m.onnx")
    pd.export_onnx(path, targets, inputs=list(feeds))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    exported = session.run(None, {v.name: array for v, array in feeds.items()})
    for actual, expected in zip(exported, pd.eval(targets, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def rows(*dims, dtype="float32"):
    return pd.constant(np.zeros(dims), dtype)


TWO = pd.Segments(np.array([2]))
# fmt: off
MISTAKES = [
    (lambda: pd.crf_loss(rows(2), [0, 1], TWO, rows(3, 3)), pd.ShapeError,
     r"crf_loss: scores are floats \[T, K\], not float32\[2\]"),
    (lambda: pd.crf_loss(rows(2, 3, dtype="int64"), [0, 1], TWO, rows(3, 3)), pd.ShapeError,
     r"crf_loss: scores are floats \[T, K\], not int64\[2, 3\]"),
    (lambda: pd.crf_loss(rows(2, 3), [0, 1], TWO, rows(3, 4)), pd.ShapeError,
     r"crf_loss: transitions are \[3, 3\] as the scores, not float32\[3, 4\]"),
    (lambda: pd.crf_decode(rows(2, 3), TWO, rows(3, 3), start=rows(2)), pd.ShapeError,
     r"crf_decode: start are \[3\] as the scores, not float32\[2\]"),
    (lambda: pd.crf_loss(rows(2, 3), rows(2), TWO, rows(3, 3)), pd.DTypeError,
     r"crf_loss: labels are integers \[T\], not float32\[2\]"),
    (lambda: pd.ctc_loss(rows(2), [1], TWO, ONE), pd.ShapeError,
     r"ctc_loss: log probabilities are floats \[T, C\], not float32\[2\]"),
    (lambda: pd.ctc_loss(rows(2, 3), rows(1), TWO, ONE), pd.DTypeError,
     r"ctc_loss: labels are integers \[L\], not float32\[1\]"),
    (lambda: pd.ctc_loss(rows(2, 3), [1], TWO, ONE, blank=3), pd.ShapeError,
     "ctc_loss: the blank 3 is none of 3 classes"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake()
