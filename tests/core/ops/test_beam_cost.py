"""The cost over a beam against an enumeration of its paths, a sample at a time."""

import numpy as np
import pytest

import pd_core as pd

from . import reference_structured as naive

WIDE, WIDTH = np.float64, 3


class Search:
    """Expansions of random samples: packed, as the core takes them, and by sample."""

    def __init__(self, rng, golds, held=0.7):
        """`golds` are the numbers of expansions of each sample in which its gold is selected."""
        self.count = max((len(g) for g in golds), default=1)
        self.samples = [self._sample(rng, gold) for gold in golds]
        self.feeds, self.scores = {}, []
        self.expansions = [self._packed(k) for k in range(self.count)]

    def _sample(self, rng, held):
        """[(scores of each sequence, candidates of each, gold)] of one sample."""
        rows, gold_row, expansions = 1, 0, []
        for hit in held:
            lengths = rng.integers(1, 5, rows)
            lengths[gold_row] = max(2, lengths[gold_row])
            chosen = [list(rng.permutation(n)[: rng.integers(1, WIDTH + 1)]) for n in lengths]
            if not hit:
                chosen[gold_row] = chosen[gold_row][: lengths[gold_row] - 1]
            left = [c for c in range(lengths[gold_row]) if c not in chosen[gold_row]]
            gold = rng.choice(chosen[gold_row] if hit else left)
            expansions.append(([rng.standard_normal(n) for n in lengths], chosen, gold))
            pairs = [(row, c) for row, places in enumerate(chosen) for c in places]
            gold_row = pairs.index((gold_row, gold)) if hit else 0
            rows = len(pairs)
        return expansions

    def _packed(self, k):
        """Expansion k of all samples, and its feeds."""
        parts = [sample[k] for sample in self.samples]
        rows = [row for scores, _, _ in parts for row in scores]
        places = [row for _, chosen, _ in parts for row in chosen]
        sequences = pd.Segments(pd.Variable.of((f"R{k}",), np.int64, "lengths"))
        samples = None if k == 0 else pd.Segments(pd.Variable.of(("B",), np.int64, "rows"))
        scores = pd.Variable.of((sequences.tokens, 1), WIDE, "scores")
        candidates = pd.Variable.of((f"R{k}", WIDTH), np.float32, "candidates")
        gold = pd.Variable.of(("B",), np.int64, "gold")
        self.scores.append(scores)
        self.feeds |= {
            sequences.lengths: np.array([len(row) for row in rows], np.int64),
            scores: np.concatenate([*rows, np.zeros(0)])[:, None],
            candidates: np.array(
                [row + [-1] * (WIDTH - len(row)) for row in places], np.float32
            ).reshape(-1, WIDTH),
            gold: np.array([g for _, _, g in parts], np.int64),
        }
        if samples is not None:
            self.feeds[samples.lengths] = np.array([len(s) for s, _, _ in parts], np.int64)
        return pd.BeamExpansion(scores, sequences, candidates, gold, samples)

    def truth(self, arrays):
        """The costs for other scores."""
        costs, taken = [], [0] * self.count
        for sample in self.samples:
            expansions = []
            for k, (scores, chosen, gold) in enumerate(sample):
                rows = []
                for row in scores:
                    rows.append(arrays[k][taken[k] : taken[k] + len(row), 0])
                    taken[k] += len(row)
                expansions.append((rows, chosen, gold))
            costs.append(naive.beam(expansions))
        return np.reshape(costs, (-1, 1))


SEARCHES = {
    "no sample": [],
    "one expansion": [[True], [False]],
    "held to the end": [[True, True, True], [True, True, True]],
    "lost at once": [[False, True], [False, True]],
    "lost at last": [[True, False]],
    "lost here and there": [
        [True, True, True],
        [False, False, False],
        [True, False, True],
        [True, True, False],
        [False, True, True],
        [True, True, True],
    ],
}


@pytest.mark.parametrize("golds", SEARCHES.values(), ids=SEARCHES)
class TestBeam:
    def test_value(self, golds, rng):
        search = Search(rng, golds)
        actual = pd.eval(pd.cross_entropy_over_beam(search.expansions), search.feeds)
        expected = search.truth([search.feeds[s] for s in search.scores])
        assert actual.shape == (len(golds), 1)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)

    def test_gradient(self, golds, rng):
        search = Search(rng, golds)
        cost = pd.cross_entropy_over_beam(search.expansions)
        seed = rng.standard_normal((len(golds), 1))
        arrays = [search.feeds[s] for s in search.scores]
        directions = [rng.standard_normal(a.shape) for a in arrays]
        gradients = pd.gradients(cost, search.scores, seeds=[pd.constant(seed, WIDE)])
        values = pd.eval(gradients, search.feeds)
        slope = sum(np.sum(g * v) for g, v in zip(values, directions, strict=True))
        perturbed = [
            np.sum(
                search.truth([a + step * w for a, w in zip(arrays, directions, strict=True)]) * seed
            )
            for step in (1e-5, -1e-5)
        ]
        assert slope == pytest.approx((perturbed[0] - perturbed[1]) / 2e-5, rel=1e-7, abs=1e-9)


def test_a_sample_without_candidates_in_later_sequences(rng):
    """What is not followed may be empty: a sequence of no steps has no candidates."""
    lengths, samples = pd.Segments(np.array([2, 0])), pd.Segments(np.array([2]))
    first = pd.BeamExpansion(
        pd.constant([[1.0], [2.0]]),
        pd.Segments(np.array([2])),
        pd.constant([[1, 0]]),
        pd.constant([1]),
    )
    then = pd.BeamExpansion(
        pd.constant([[3.0], [4.0]]),
        lengths,
        pd.constant([[0, -1], [-1, -1]]),
        pd.constant([0]),
        samples,
    )
    assert pd.eval(pd.cross_entropy_over_beam([first, then])) == [[0.0]]
    then.gold = pd.constant([1])
    cost = pd.eval(pd.cross_entropy_over_beam([first, then]))
    np.testing.assert_allclose(cost, [[np.log1p(np.exp(5.0 - 6.0))]], rtol=1e-6)


def test_scores_far_apart_in_single_precision():
    scores = pd.Variable("scores", data=np.float32([[500.0], [-500.0], [0.0]]))
    sequences = pd.Segments(np.array([3]))
    expansion = pd.BeamExpansion(scores, sequences, pd.constant([[0, 1]]), pd.constant([2]))
    cost = pd.cross_entropy_over_beam([expansion])
    value, slope = pd.eval([cost, *pd.gradients(cost, [scores])])
    np.testing.assert_array_equal(value, [[500.0]])
    np.testing.assert_array_equal(slope, [[1.0], [0.0], [-1.0]])


def expansion(scores=(2, 1), candidates=(1, 3), gold=(1,), dtypes=("float32", "int64", "int64")):
    shapes = zip((scores, candidates, gold), dtypes, strict=True)
    x, y, z = (pd.constant(np.zeros(shape), dtype) for shape, dtype in shapes)
    return pd.BeamExpansion(x, pd.Segments(np.array([2])), y, z)


# fmt: off
MISTAKES = [
    (lambda: expansion(scores=(2, 3)), pd.ShapeError,
     r"BeamExpansion: scores are floats \[T, 1\], not float32\[2, 3\]"),
    (lambda: expansion(candidates=(3,)), pd.ShapeError,
     r"BeamExpansion: candidates are \[R, K\] of a known K, not int64\[3\]"),
    (lambda: expansion(dtypes=("float32", "int64", "float32")), pd.DTypeError,
     r"BeamExpansion: gold is integers \[B\], not float32\[1\]"),
    (lambda: pd.cross_entropy_over_beam([]), pd.ShapeError,
     "cross_entropy_over_beam: there is no expansion"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake()
