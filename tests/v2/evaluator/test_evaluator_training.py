"""All metrics of one training against their formulas: by batch, by pass and in tests.

The formulas get what a network in numpy gives, with the parameters from before each update.
"""

import numpy as np

import pd_v2 as paddle
from pd_v2 import event as events

from ..layer import reference_layers as naive
from .evaluator_checks import id_sequences, ids, row_sequences, rows, sparse_rows
from .test_evaluator import counted, f1, missed
from .test_evaluator import scores as rates_of
from .test_evaluator_detection import draw, slow_map
from .test_evaluator_ranking import area, pairs
from .test_evaluator_sequences import best_path, slow_chunks, slow_edits

A, E, L = paddle.activation, paddle.evaluator, paddle.layer

NAMES = [
    "classification_error_evaluator",
    "top2",
    "__classification_error_evaluator_0__",
    "__classification_error_evaluator_1__",
    "__auc_evaluator_0__",
    *(f"one.{part}" for part in ("precision", "recal", "F1-score")),
    "__pnpair_evaluator_0__",
    "__sum_evaluator_0__",
    "tokens",
    "__column_sum_evaluator_0__",
    "steps",
    *(f"__chunk_evaluator_0__.{part}" for part in ("precision", "recall", "F1-score")),
    "__ctc_error_evaluator_0__.error",
    *(f"__ctc_error_evaluator_0__.{kind}_error" for kind in ("deletion", "insertion")),
    *(f"__ctc_error_evaluator_0__.{kind}_error" for kind in ("substitution", "sequence")),
    "boxes",
]


def declared():
    """The trainer of a network with evaluators of every kind, and its pool."""
    x, label, w, query = rows("x", 6), ids(), rows("w", 1), ids("query", 3)
    sparse, wanted = sparse_rows("sparse"), rows("wanted")
    steps, tags, text = row_sequences("steps", 5), id_sequences("tags", 5), id_sequences("text")
    found, boxes = row_sequences("found", 7), row_sequences("boxes", 6)
    p = L.fc(x, size=4, act=A.Softmax(), name="p", bias_attr=False)
    q = L.fc(steps, size=5, act=A.Softmax(), name="q", bias_attr=False)
    s = L.fc(x, size=1, act=A.Sigmoid(), name="s", bias_attr=False)
    costs = [
        L.classification_cost(input=p, label=label, weight=w),
        L.cross_entropy_cost(input=q, label=tags),
        L.sum_cost(s),
    ]
    E.classification_error(p, label, name="top2", top_k=2)
    E.classification_error(p, sparse, threshold=0.3)
    E.classification_error(p, wanted, threshold=0.2)
    E.auc(s, label, weight=w)
    E.precision_recall(p, label, positive_label=1, weight=w, name="one")
    E.pnpair(s, label, query)
    E.sum(p, weight=w)
    E.sum(tags, name="tokens")
    E.column_sum(p)
    E.classification_error(q, tags, name="steps")
    best = L.max_id(input=q)
    E.chunk(best, tags, chunk_scheme="IOB", num_chunk_types=2)
    E.ctc_error(q, text)
    E.detection_map(found, boxes, name="boxes")
    E.value_printer(found)
    pool = paddle.parameters.create(costs)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.05)
    evaluated = [query, sparse, wanted, text, found, boxes, best]
    return paddle.trainer.SGD(costs, pool, optimizer, extra_layers=evaluated), pool


def samples(rng, n):
    """{data layer: its values} for a batch of n samples."""
    lengths = rng.integers(1, 6, n)
    images = draw(rng, n)
    return {
        "x": list(rng.standard_normal((n, 6))),
        "label": rng.integers(0, 4, n).tolist(),
        "w": list(rng.uniform(0.1, 2, (n, 1)).astype(np.float32)),
        "query": rng.integers(0, 3, n).tolist(),
        "sparse": [np.flatnonzero(row).tolist() for row in rng.integers(0, 2, (n, 4))],
        "wanted": list(rng.uniform(0, 1, (n, 4)).astype(np.float32)),
        "steps": [rng.standard_normal((k, 5)) for k in lengths],
        "tags": [rng.integers(0, 5, k).tolist() for k in lengths],
        "text": [rng.integers(0, 4, rng.integers(1, 4)).tolist() for _ in range(n)],
        "found": [d for d, _ in images],
        "boxes": [b for _, b in images],
    }


def computed(batch, values):
    """A batch and what the network makes of it, with parameters {name: (value, shape)}."""
    w = {name: value.reshape(shape) for name, (value, shape) in values.items()}
    steps = [naive.softmax(np.asarray(s) @ w["_q.w0"]) for s in batch["steps"]]
    x = np.array(batch["x"])
    s = 1 / (1 + np.exp(-(x @ w["_s.w0"])))
    return batch | {"p": list(naive.softmax(x @ w["_p.w0"])), "q": steps, "s": list(s[:, 0])}


def expected(batches):
    """The values of all metrics over some batches, in the order of NAMES."""
    of = {name: [v for b in batches for v in b[name]] for name in batches[0]}
    p, label, w = np.array(of["p"]), np.array(of["label"]), np.array(of["w"])[:, 0]
    n = len(p)
    on = np.array([[c in row for c in range(4)] for row in of["sparse"]])
    tags, q = np.concatenate(of["tags"]), np.concatenate(of["q"])
    precision, recall = rates_of(*counted(p, label, w, 1))
    return [
        w[missed(p, label, 1)].sum() / w.sum(),
        len(missed(p, label, 2)) / n,
        ((p >= 0.3) != on).mean(),
        ((p > 0.2) != (np.array(of["wanted"]) > 0.2)).sum() / n,
        area(of["s"], label, w),
        *(precision, recall, f1(precision, recall)),
        pairs(of["s"], label, of["query"], np.ones(n)),
        (p.sum(1) * w).sum() / w.sum(),
        tags.mean(),
        p[:, -1].mean(),
        len(missed(q, tags, 1)) / len(tags),
        *chunk_scores(of["q"], of["tags"]),
        *ctc_errors(of["q"], of["text"]),
        slow_map(list(zip(of["found"], of["boxes"], strict=True)), "11point"),
    ]


def chunk_scores(q, tags):
    right = found = wanted = 0
    for best, labels in zip((scores.argmax(1) for scores in q), tags, strict=True):
        a, b = (slow_chunks(s, "IOB", 2) for s in (best, labels))
        right, found, wanted = right + len(a & b), found + len(a), wanted + len(b)
    precision, recall = right / found, right / wanted
    return precision, recall, f1(precision, recall)


def ctc_errors(q, text):
    """The means of all errors and of each kind, and the share of wrong sequences."""
    rates = []
    for best, labels in zip((tuple(scores.argmax(1)) for scores in q), text, strict=True):
        path = best_path(best, 4)
        rates.append(np.array(slow_edits(labels, path)) / max(len(labels), len(path)))
    totals = np.sum(rates, axis=1)
    return totals.mean(), *np.mean(rates, axis=0), (totals > 0).mean()


def check(metrics, batches):
    assert list(metrics) == NAMES
    assert {type(value) for value in metrics.values()} == {float}
    np.testing.assert_allclose(list(metrics.values()), expected(batches), rtol=1e-4)


def test_metrics_of_batches_passes_and_tests_match_formulas(rng):
    trainer, pool = declared()
    batches = [samples(rng, n) for n in (20, 12)]
    lists = [list(zip(*b.values(), strict=True)) for b in batches]
    feeding = {name: k for k, name in enumerate(batches[0])}
    seen, checked = [], []

    def parameters():
        return {name: (pool[name].astype(np.float64), pool.get_shape(name)) for name in pool}

    def handler(event):
        if isinstance(event, events.BeginPass):
            seen.clear()
        if isinstance(event, events.BeginIteration):
            seen.append(computed(batches[event.batch_id], parameters()))
        if isinstance(event, events.EndIteration):
            check(event.metrics, seen[-1:])
        if isinstance(event, events.EndPass):
            check(event.metrics, seen)
        if hasattr(event, "metrics"):
            checked.append(event.metrics)

    trainer.train(lambda: iter(lists), num_passes=2, event_handler=handler, feeding=feeding)
    assert len(checked) == 6 and checked[0] != checked[3]
    result = trainer.test(lambda: iter(lists), feeding=feeding)
    check(result.metrics, [computed(b, parameters()) for b in batches])
