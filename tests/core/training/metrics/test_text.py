"""Perplexity by PyTorch's cross entropy, BLEU by sacrebleu on the whole corpus."""

import sys

import numpy as np
import pytest

from pd_core.training import metrics as m

TOKENS, CLASSES = (7, 9), 11


def value(metric, *batch):
    metric.update(*batch)
    return metric.result()


@pytest.fixture
def data(rng):
    """Logits, labels and weights of tokens."""
    logits = rng.normal(0, 3, (*TOKENS, CLASSES)).astype(np.float32)
    return logits, rng.integers(0, CLASSES, TOKENS), rng.random(TOKENS)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cross_entropy(logits, labels):
    probabilities = softmax(logits.astype(np.float64))
    return -np.log(np.take_along_axis(probabilities, labels[..., None], -1)[..., 0])


def test_perplexity_as_pytorch(data):
    torch = pytest.importorskip("torch")
    logits, labels, _ = data
    labels[:, 6:] = -100
    flat = torch.from_numpy(logits).double().reshape(-1, CLASSES), torch.from_numpy(labels.ravel())
    mean = torch.nn.functional.cross_entropy(*flat).item()
    costs = torch.nn.functional.cross_entropy(*flat, reduction="none").reshape(TOKENS).numpy()
    for inputs, predictions in (
        ("logits", logits),
        ("probabilities", softmax(logits)),
        ("cross_entropy", costs),
        ("cross_entropy", costs[..., None]),
    ):
        for y in (labels, labels[..., None], labels.astype(np.float32)):
            result = value(m.Perplexity(inputs, ignore_index=-100), predictions, y)
            assert result == pytest.approx(np.exp(mean), rel=1e-6)


def test_perplexity_by_formula(data):
    logits, labels, weight = data
    costs = cross_entropy(logits, labels)
    expected = np.exp(costs.mean())
    assert value(m.Perplexity("logits"), logits, labels) == pytest.approx(expected, rel=1e-6)
    assert value(m.Perplexity("cross_entropy"), costs) == pytest.approx(expected, rel=1e-12)
    by_rows = value(m.Perplexity("logits"), logits.reshape(-1, CLASSES), labels.reshape(-1, 1))
    assert by_rows == pytest.approx(expected, rel=1e-6)
    expected = np.exp(np.average(costs, weights=weight))
    assert value(m.Perplexity("logits"), logits, labels, weight) == pytest.approx(
        expected, rel=1e-6
    )
    result = value(m.Perplexity("cross_entropy"), costs, None, weight)
    assert result == pytest.approx(expected, rel=1e-12)
    lengths = np.array([3, 9, 0, 1, 5, 2, 8])
    mask = np.arange(9) < lengths[:, None]
    result = value(m.Perplexity("logits"), logits, labels, mask)
    assert result == pytest.approx(np.exp(costs[mask].mean()), rel=1e-6)


def test_equal_probabilities_are_as_many_classes():
    assert value(m.Perplexity(), np.full((4, 8), 1 / 8), [0, 1, 2, 3]) == pytest.approx(8)
    logits = np.full((4, 8), 30000, np.float16)
    assert value(m.Perplexity("logits"), logits, [0, 1, 2, 3]) == pytest.approx(8)


def test_perplexity_may_be_infinite_or_nan():
    assert value(m.Perplexity(), [[0.0, 1.0]], [0]) == np.inf
    assert value(m.Perplexity("cross_entropy"), [1000.0]) == np.inf
    assert value(m.Perplexity("logits"), [[-np.inf, 1.0]], [0]) == np.inf
    for metric in (m.Perplexity(), m.Perplexity("logits")):
        assert np.isnan(value(metric, [[np.nan, 1.0]], [0]))
    assert np.isnan(value(m.Perplexity("logits"), [[np.inf, 1.0]], [0]))
    assert np.isnan(value(m.Perplexity(ignore_index=0), [[0.5, 0.5]], [0]))


ERRORS = {
    "logits": ("probabilities", ([[1.0, 2.0]], [0]), r"no distribution, its sum is 3\n.*hint"),
    "negative": (
        "probabilities",
        ([[-1.0, 2.0]], [0]),
        "perplexity: prediction is no distribution",
    ),
    "shapes": ("logits", (np.zeros((2, 3)), [0]), r"logits have shape \(2, 3\), label .*\(1,\)"),
    "costs": ("cross_entropy", ([1.0], [0, 1]), r"cross_entropy have shape \(1,\), label .*\(2,\)"),
    "label": (
        "logits",
        (np.zeros((2, 3)), [0, 3]),
        "perplexity: label 3, not an integer from 0 to 2",
    ),
    "ignored": ("logits", (np.zeros((2, 3)), [0, -100]), "perplexity: label -100, not an integer"),
    "no label": ("logits", (np.zeros((2, 3)),), "perplexity: logits need labels"),
}


@pytest.mark.parametrize(("inputs", "batch", "text"), ERRORS.values(), ids=ERRORS)
def test_errors_of_perplexity(inputs, batch, text):
    metric = m.Perplexity(inputs)
    with pytest.raises((ValueError, TypeError), match=text):
        metric.update(*batch)
    assert np.isnan(metric.result())


def test_inputs_have_names():
    with pytest.raises(ValueError, match="perplexity: inputs are 'scores', not one of"):
        m.Perplexity("scores")


# ---- BLEU

TRANSLATIONS = [
    "The cat sat on the mat.",
    "A dog, which was small, ran away!",
    "It is raining cats and dogs",
    "",
    "hello there",
]
REFERENCES = [
    ["The cat is on the mat.", "There is a cat on the mat."],
    ["A small dog ran away!"],
    ["It is raining cats and dogs.", "It rains heavily", "It's raining cats and dogs"],
    ["Nothing was said."],
    ["Hello there, hello!"],
]
OPTIONS = {
    "default": {},
    "lower case": {"lowercase": True},
    "characters": {"tokenize": "char"},
    "bigrams": {"max_ngram_order": 2},
    "floor": {"smooth_method": "floor"},
    "add-k": {"smooth_method": "add-k"},
    "none": {"smooth_method": "none"},
    "effective order": {"effective_order": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_bleu_is_that_of_the_corpus(options):
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    columns = [[r[k] if k < len(r) else None for r in REFERENCES] for k in range(3)]
    expected = sacrebleu.BLEU(**options).corpus_score(TRANSLATIONS, columns).score
    assert 0 < expected < 100
    metric, other = m.BLEU(**options), m.BLEU(**options)
    metric.update(TRANSLATIONS[:1], REFERENCES[:1])
    metric.result()  # smoothing leaves no trace
    other.update(TRANSLATIONS[1:4], REFERENCES[1:4])
    other.update(np.array(TRANSLATIONS[4:]), REFERENCES[4:])
    metric.merge(other)
    assert metric.result() == expected
    assert metric.result() == expected


def test_bleu_of_one_reference_each():
    sacrebleu = pytest.importorskip("sacrebleu")
    first = [r[0] for r in REFERENCES]
    expected = sacrebleu.corpus_bleu(TRANSLATIONS, [first]).score
    assert value(m.BLEU(), TRANSLATIONS, first) == expected
    assert value(m.BLEU(), first, first) == pytest.approx(100)
    assert value(m.BLEU(), ["x y z"], ["a b c"]) == 0.0


def test_errors_of_bleu():
    pytest.importorskip("sacrebleu")
    metric = m.BLEU()
    with pytest.raises(ValueError, match="bleu: 2 predictions, 1 labels"):
        metric.update(["a", "b"], ["a"])
    with pytest.raises(TypeError, match="prediction and label are lists of sentences"):
        metric.update("a b", ["a b"])
    with pytest.raises(ValueError, match="bleu: label 1 is a list of no sentence"):
        metric.update(["a", "b"], ["a", []])
    with pytest.raises(TypeError, match="bleu: sentences have no weights"):
        metric.update(["a"], ["a"], [1.0])
    with pytest.raises(ValueError, match="bleu: 'words' is not one of none, zh, 13a"):
        m.BLEU("words")
    with pytest.raises(ValueError, match="bleu: 'more' is not one of none, floor"):
        m.BLEU(smooth_method="more")
    assert np.isnan(metric.result())


def test_bleu_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(ImportError, match="sacrebleu is missing\n  hint: pip install sacrebleu"):
        m.metric_by_name("bleu")
