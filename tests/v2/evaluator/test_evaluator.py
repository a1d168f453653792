"""Evaluators of rows: values against counts by hand, names, and what they refuse."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import evaluator as E
from pd_v2.evaluator import Accumulator, classification_error
from pd_v2.topology import Topology

from .evaluator_checks import (
    columns,
    id_sequences,
    ids,
    metric,
    metrics,
    packed,
    row_sequences,
    rows,
    sparse_rows,
)

A, L = paddle.activation, paddle.layer


def missed(x, label, k):
    """Rows whose label is not among the k largest columns, by sorting."""
    order = np.argsort(-x, axis=1)[:, :k]
    return [
        n for n, (row, wanted) in enumerate(zip(order, label, strict=True)) if wanted not in row
    ]


@pytest.mark.parametrize("k", [None, 1, 2, 3, 4])
def test_share_of_rows_without_their_label(k, rng):
    classification_error(input=rows(), label=ids(), top_k=k)
    x = rng.standard_normal((50, 4)).astype(np.float32)
    label = rng.integers(0, 4, 50)
    (found,) = metrics([{"x": x, "label": label}]).values()
    assert found == pytest.approx(len(missed(x, label, k or 1)) / 50)


@pytest.mark.parametrize("k", [1, 2])
def test_weights(k, rng):
    weight = rows("weight", 1)
    classification_error(input=rows(), label=ids(), weight=weight, top_k=k)
    x = rng.standard_normal((50, 4)).astype(np.float32)
    label, w = rng.integers(0, 4, 50), rng.uniform(0, 2, (50, 1)).astype(np.float32)
    (found,) = metrics([{"x": x, "label": label, "weight": w}]).values()
    assert found == pytest.approx(w[missed(x, label, k)].sum() / w.sum(), rel=1e-5)


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_wrong_columns_of_a_dense_label(threshold, rng):
    classification_error(input=rows(), label=rows("label"), threshold=threshold)
    x, label = (rng.integers(0, 5, (20, 4)).astype(np.float32) / 4 for _ in range(2))
    limit = 0.5 if threshold is None else threshold
    (found,) = metrics([{"x": x, "label": label}]).values()
    assert found == pytest.approx(((x > limit) != (label > limit)).sum() / 20)


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_wrong_columns_of_a_sparse_label(threshold, rng):
    classification_error(input=rows(), label=sparse_rows(), threshold=threshold)
    x = rng.integers(0, 5, (20, 4)).astype(np.float32) / 4
    label = rng.integers(0, 2, (20, 4))
    limit = 0.5 if threshold is None else threshold
    found = metric({"x": x} | columns("label", label))
    assert found == pytest.approx(((x >= limit) != label).mean())


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_weights_of_labels_of_columns(kind, rng):
    label = sparse_rows() if kind == "sparse" else rows("label")
    classification_error(rows(), label, weight=rows("weight", 1))
    batches, wrong, total = [], 0.0, 0.0
    for n in (7, 4):
        x, y = rng.uniform(0, 1, (n, 4)).astype(np.float32), rng.integers(0, 2, (n, 4))
        w = rng.uniform(0, 2, (n, 1)).astype(np.float32)
        fed = columns("label", y) if kind == "sparse" else {"label": y}
        batches.append({"x": x, "weight": w} | fed)
        wrong += (((x > 0.5) != y) * w).sum() / (4 if kind == "sparse" else 1)
        total += w.sum()
    assert metric(*batches) == pytest.approx(wrong / total, rel=1e-5)


def test_sums_go_over_batches(rng):
    classification_error(input=rows(), label=ids(), name="error")
    x, label = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 0])
    assert metrics([{"x": x, "label": label}, {"x": x[:1], "label": label[:1]}]) == {"error": 0.4}
    assert metrics([]) == {"error": 0.0}


def test_reset_forgets():
    classification_error(input=rows(), label=ids(), name="error")
    accumulator = Accumulator(paddle.build.current().evaluators)
    accumulator.update([[3, 4]])
    assert accumulator.metrics() == {"error": 0.75}
    accumulator.reset()
    assert accumulator.metrics() == {"error": 0.0}


def test_names_and_configuration():
    x, label = rows(), ids()
    assert classification_error(input=x, label=label) is None
    classification_error(x, label, top_k=3, threshold=0.25)
    classification_error(x, label, name="own")
    found = Topology([x, label]).proto().evaluators
    assert [e.name for e in found] == [
        "__classification_error_evaluator_0__",
        "__classification_error_evaluator_1__",
        "own",
    ]
    assert (found[1].top_k, found[1].classification_threshold) == (3, 0.25)
    assert list(found[0].input_layers) == ["x", "label"] and found[0].type == "classification_error"


def test_of_two_with_one_name_the_first_counts():
    x, label = rows(), ids()
    classification_error(x, label, name="error")
    classification_error(x, label, name="error", top_k=4)
    assert metrics([{"x": np.eye(4)[:1], "label": [1]}]) == {"error": 1.0}


def test_what_classification_cost_adds():
    x, label = rows(), ids()
    p = L.fc(x, size=4, act=A.Softmax())
    L.classification_cost(input=p, label=label, evaluator=[])
    assert paddle.build.current().evaluators == []
    L.classification_cost(input=p, label=label, evaluator=[classification_error])
    L.classification_cost(input=p, label=label)
    names = [e.name for e in paddle.build.current().evaluators]
    assert names == ["classification_error_evaluator"] * 2
    L.classification_cost(input=p, label=label, evaluator=[E.auc, E.precision_recall])
    names = [e.name for e in paddle.build.current().evaluators[2:]]
    assert names == ["auc_evaluator", "precision_recall_evaluator"]


def test_other_costs_add_none():
    x, label = rows(), ids()
    L.cross_entropy_cost(input=L.fc(x, size=4, act=A.Softmax()), label=label)
    L.nce(input=x, label=label, num_classes=4)
    L.hsigmoid(input=x, label=label, num_classes=4)
    assert paddle.build.current().evaluators == []


def test_what_does_not_fit():
    x, label = rows(), ids(size=3)
    with pytest.raises(pd.ShapeError, match="'x' is 4 wide, its label 'y' 3"):
        classification_error(x, rows("y", 3))
    with pytest.raises(pd.ShapeError, match="the weight 'w' is 2 wide, not 1"):
        classification_error(x, rows("z"), weight=rows("w", 2))
    with pytest.raises(TypeError, match="classification_error: takes layers, not 3"):
        classification_error(x, 3)
    with pytest.raises(pd.DTypeError, match="'label' holds ids, no rows of numbers"):
        classification_error(label, label)
    assert paddle.build.current().evaluators == []


def test_labels_that_are_computed():
    x, y = rows(), rows("y")
    classification_error(x, L.max_id(input=y), name="error")
    assert metrics([{"x": np.eye(4), "y": np.eye(4)[[0, 1, 3, 3]]}]) == {"error": 0.25}


def test_sequences_count_by_their_rows():
    classification_error(row_sequences(), id_sequences(), name="error")
    x = packed("x", [np.eye(4)[:3], np.eye(4)[3:]]) | packed("label", [[0, 1, 1], [3]])
    assert metrics([x]) == {"error": 0.25}


# ---- sum, column_sum


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["rows", "ids", "column"])
def test_sums(kind, weighted, rng):
    x = ids("x", 9) if kind == "ids" else rows()
    weight = rows("weight", 1) if weighted else None
    (E.column_sum if kind == "column" else E.sum)(x, weight=weight)
    batches, total, count = [], 0.0, 0.0
    for n in (5, 3):
        value = rng.integers(0, 9, n) if kind == "ids" else rng.standard_normal((n, 4))
        w = rng.uniform(0.5, 2, (n, 1)).astype(np.float32) if weighted else np.ones((n, 1))
        batches.append({"x": value} | ({"weight": w} if weighted else {}))
        part = {"rows": lambda v: v.sum(1), "ids": lambda v: v, "column": lambda v: v[:, -1]}[kind]
        total, count = total + (part(value) * w[:, 0]).sum(), count + w.sum()
    assert metric(*batches) == pytest.approx(total / count, rel=1e-5)


def test_sums_of_nothing():
    E.sum(rows(), name="sum")
    E.column_sum(ids_as_rows(), name="column")
    assert metrics([]) == {"sum": 0.0, "column": 0.0}
    empty = {"x": np.zeros((0, 4)), "z": np.zeros((0, 2))}
    assert metrics([empty]) == {"sum": 0.0, "column": 0.0}


def ids_as_rows():
    return rows("z", 2)


def test_large_ids_are_summed_exactly():
    E.sum(ids("x", 2**30))
    assert metric({"x": np.array([2**29 + 1, 2**29 + 2])}) == 2**29 + 1.5


# ---- precision_recall


def counted(x, label, w, c):
    """Weights of true positives, false positives and false negatives of one class."""
    found = x.argmax(1)
    return tuple(
        sum(w[n] for n in range(len(x)) if (found[n] == c, label[n] == c) == case)
        for case in ((True, True), (True, False), (False, True))
    )


def scores(true, false, missed):
    precision = true / (true + false) if true + false else 1.0
    recall = true / (true + missed) if true + missed else 1.0
    return precision, recall


def f1(p, r):
    return 2 * p * r / (p + r) if p + r else 0.0


@pytest.fixture
def batches(rng):
    """Rows, labels and weights of two batches; class 3 is never right, class 4 never there."""
    found = []
    for n in (40, 20):
        x = rng.standard_normal((n, 5)).astype(np.float32)
        x[:, 4] = -9
        label = rng.integers(0, 3, n)
        found.append({"x": x, "label": label, "w": rng.uniform(0, 2, (n, 1)).astype(np.float32)})
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_precision_and_recall(weighted, batches):
    x, label = rows(size=5), ids(size=5)
    weight = rows("w", 1) if weighted else None
    for c in range(5):
        E.precision_recall(x, label, positive_label=c, weight=weight, name=f"c{c}")
    E.precision_recall(x, label, weight=weight, name="all")
    found = metrics(batches if weighted else [{k: b[k] for k in ("x", "label")} for b in batches])
    value, wanted, w = (np.concatenate([b[k] for b in batches]) for k in ("x", "label", "w"))
    w = w[:, 0] if weighted else np.ones(len(w))
    counts = [counted(value, wanted, w, c) for c in range(5)]
    for c in range(5):
        p, r = scores(*counts[c])
        expected = {f"c{c}.precision": p, f"c{c}.recal": r, f"c{c}.F1-score": f1(p, r)}
        assert {k: v for k, v in found.items() if k.startswith(f"c{c}.")} == near(expected)
    p, r = np.mean([scores(*c) for c in counts], axis=0)
    micro = scores(*np.sum(counts, axis=0))[0]
    assert {k: v for k, v in found.items() if "average" in k} == near(
        {
            "all.macro-average-precision": p,
            "all.macro-average-recall": r,
            "all.macro-average-F1-score": f1(p, r),
            "all.micro-average-precision": micro,
        }
    )
    own = [found[f"all.{k}"] for k in ("precision", "recal", "F1-score")]
    assert len(found) == 15 + 7 and np.isnan(own).all()


def near(expected):
    return {k: pytest.approx(v, rel=1e-5, abs=1e-9) for k, v in expected.items()}


@pytest.mark.parametrize("weighted", [False, True])
def test_precision_and_recall_of_sparse_labels(weighted, rng):
    weight = rows("w", 1) if weighted else None
    E.precision_recall(rows(), sparse_rows(), weight=weight, name="all")
    E.precision_recall(rows("z"), sparse_rows("sparse"), positive_label=1, name="one")
    x = rng.integers(0, 5, (30, 4)).astype(np.float32) / 4
    label, w = rng.integers(0, 2, (30, 4)), rng.uniform(0, 2, (30, 1)).astype(np.float32)
    feeds = {"x": x, "z": x} | columns("label", label) | columns("sparse", label)
    found = metrics([feeds | ({"w": w} if weighted else {})])
    cases = [(x >= 0.5) & (label == 1), (x >= 0.5) & (label == 0), (x < 0.5) & (label == 1)]
    one = scores(*(c[:, 1].sum() for c in cases))
    counts = [(c * (w if weighted else 1)).sum(0) for c in cases]
    micro = scores(*(c.sum() for c in counts))
    macro = np.mean([scores(*c) for c in zip(*counts, strict=True)], axis=0)
    expected = {"one.precision": one[0], "one.recal": one[1], "one.F1-score": f1(*one)}
    for kind, (p, r) in {"macro": macro, "micro": micro}.items():
        pairs = {"precision": p, "recall": r, "F1-score": f1(p, r)}
        expected |= {f"all.{kind}-average-{part}": value for part, value in pairs.items()}
    assert {k: v for k, v in found.items() if not np.isnan(v)} == near(expected)
    assert len(found) == len(expected) + 3


def test_precision_without_rows():
    E.precision_recall(rows(), ids(), positive_label=1, name="p")
    assert metrics([]) == {"p.precision": 1.0, "p.recal": 1.0, "p.F1-score": 1.0}


def test_the_default_positive_label_is_none():
    E.precision_recall(rows(), ids(), positive_label=-1, name="p")
    found = metrics([{"x": np.eye(4), "label": [0, 1, 1, 3]}])
    assert np.isnan(found["p.precision"]) and found["p.micro-average-precision"] == 0.75


def test_what_precision_recall_refuses():
    x, label = rows(), ids()
    with pytest.raises(ValueError, match="the positive label 4 is none of the 4 classes"):
        E.precision_recall(x, label, positive_label=4)
    with pytest.raises(pd.DTypeError, match="precision_recall: 'y' holds rows of numbers, no ids"):
        E.precision_recall(x, rows("y"))


# ---- all of them


def test_configurations():
    x, label, query = rows(), ids(), ids("query", 9)
    E.auc(x, label)
    E.auc(x, label)
    E.pnpair(x, label, query)
    E.precision_recall(x, label, positive_label=0)
    E.sum(x)
    E.column_sum(x)
    found = Topology([x, label, query]).proto().evaluators
    assert [(e.name, e.type, list(e.input_layers)) for e in found] == [
        ("__auc_evaluator_0__", "last-column-auc", ["x", "label"]),
        ("__auc_evaluator_1__", "last-column-auc", ["x", "label"]),
        ("__pnpair_evaluator_0__", "pnpair", ["x", "label", "query"]),
        ("__precision_recall_evaluator_0__", "precision_recall", ["x", "label"]),
        ("__sum_evaluator_0__", "sum", ["x"]),
        ("__column_sum_evaluator_0__", "last-column-sum", ["x"]),
    ]
    assert found[3].HasField("positive_label") and found[3].positive_label == 0
    assert not found[0].HasField("positive_label")


def test_evaluators_of_other_layers_are_left_out():
    x, label, query = rows(), ids(), ids("query", 9)
    E.pnpair(x, label, query)
    E.sum(x)
    assert [e.config.type for e in Topology([x, label]).evaluators] == ["sum"]
