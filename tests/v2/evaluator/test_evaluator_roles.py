"""Layers of evaluators by position: those of a list first, then the label and the weight."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.topology import Topology
from pd_v2.unfit import UnfitWarning

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

E, L = paddle.evaluator, paddle.layer


def area(scores, label, weight):
    """Area under the ROC curve as the probability that a positive row scores higher."""
    pairs = total = 0.0
    for s, w in zip(scores[label != 0], weight[label != 0], strict=True):
        for t, v in zip(scores[label == 0], weight[label == 0], strict=True):
            pairs += w * v * ((s > t) + 0.5 * (s == t))
            total += w * v
    return pairs / total


def drawn(rng, count=12):
    return {
        "a": rng.random((count, 2), np.float32),
        "b": rng.integers(0, 2, (count, 1)).astype(np.float32),
        "w": rng.random((count, 1), np.float32),
    }


def test_the_second_layer_of_a_list_is_the_label(rng):
    E.auc(input=[rows("a", 2), rows("b", 1)], label=rows("w", 1))
    feeds = drawn(rng)
    expected = area(feeds["a"][:, 1], feeds["b"][:, 0], feeds["w"][:, 0])
    assert metric(feeds) == pytest.approx(expected, rel=1e-5)


def test_a_weight_of_ids_makes_the_area_0(rng):
    a, b, label = rows("a", 2), rows("b", 2), ids("label", 2)
    with pytest.warns(UserWarning, match="auc: the metric is 0, because the weight 'label' holds"):
        E.auc(input=[a, b], label=label)
    feeds = {"a": np.eye(2), "b": np.eye(2), "label": [0, 1]}
    assert metrics([{}]) == {"__auc_evaluator_0__": 0.0}
    cost = L.classification_cost(L.fc(a, size=2, act=paddle.activation.Softmax()), label)
    trainer = paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(), extra_layers=[b]
    )
    found = trainer.test(
        lambda: iter([[(x, x, y) for x, y in zip(feeds["a"], [0, 1], strict=True)]])
    )
    assert found.metrics["__auc_evaluator_0__"] == 0.0


@pytest.mark.parametrize("which", ["scores", "label", "weight"])
def test_pairs_of_the_wrong_kind_are_0(which):
    """The label must be ids, as that of `rank_cost` must not."""
    query, label = ids("query", 5), ids("label", 2)
    with pytest.warns(UserWarning, match="pnpair: the metric is 0"):
        if which == "scores":
            E.pnpair(ids("x", 2), label, query)
        elif which == "label":
            E.pnpair(rows("x", 2), rows("label", 1), query)
        else:
            E.pnpair([rows("x", 2), label], query, query_id=ids("w", 5))
    assert metrics([{}]) == {"__pnpair_evaluator_0__": 0.0}


def test_a_list_of_pnpair_begins_with_scores_labels_and_queries(rng):
    x, label, query = rows("x", 1), ids("label", 3), ids("query", 2)
    E.pnpair([x, label], query, query_id=rows("w", 1))
    feeds = {
        "x": np.array([[0.1], [0.9], [0.5]], np.float32),
        "label": [0, 1, 2],
        "query": [1, 1, 1],
        "w": np.array([[1.0], [2.0], [4.0]], np.float32),
    }
    right = (1 + 2) / 2 + (1 + 4) / 2  # the pair of rows 1 and 2 is the wrong way round
    assert metric(feeds) == pytest.approx(right / ((2 + 4) / 2))


def test_lists_of_other_metrics(rng):
    x, label, w = rows(), ids(), rows("w", 1)
    E.classification_error([x, label], w, name="error")
    E.precision_recall([x, label], w, positive_label=1, name="p")
    E.sum([x, w], name="sum")
    E.column_sum([x, w], name="column")
    feeds = {
        "x": rng.random((9, 4), np.float32),
        "label": rng.integers(0, 4, 9),
        "w": rng.random((9, 1), np.float32),
    }
    weight, found = feeds["w"][:, 0].astype(float), feeds["x"].argmax(1)
    wrong, predicted = found != feeds["label"], found == 1
    got = metrics([feeds])
    assert got["error"] == pytest.approx((wrong * weight).sum() / weight.sum(), rel=1e-5)
    right = (weight * predicted * ~wrong).sum()
    assert got["p.precision"] == pytest.approx(right / (weight * predicted).sum(), rel=1e-5)
    assert got["sum"] == pytest.approx((feeds["x"].sum(1) @ weight) / weight.sum(), rel=1e-5)
    assert got["column"] == pytest.approx((feeds["x"][:, 3] @ weight) / weight.sum(), rel=1e-5)


def test_a_list_alone_has_its_label(rng):
    E.auc([rows("a", 2), rows("b", 1)], None)
    feeds = drawn(rng)
    del feeds["w"]
    ones = np.ones(12)
    assert metric(feeds) == pytest.approx(area(feeds["a"][:, 1], feeds["b"][:, 0], ones), rel=1e-5)


def test_a_list_keeps_its_layers():
    """2017 appended label and weight to it, so that the next evaluator had them twice."""
    inputs, label = [rows()], ids()
    E.classification_error(inputs, label)
    E.precision_recall(inputs, label)
    assert len(inputs) == 1
    found = Topology([*inputs, label]).proto().evaluators
    assert [list(e.input_layers) for e in found] == [["x", "label"]] * 2


def test_layers_of_sequences():
    x, label = L.max_id(row_sequences()), id_sequences()
    E.chunk([x, label], None, "plain", 3, name="chunk")
    E.ctc_error([row_sequences("y"), label], None, name="ctc")
    one = np.eye(4)[[0, 1]]
    feeds = packed("x", [one]) | packed("y", [one]) | packed("label", [[0, 1]])
    found = metrics([feeds])
    assert found["chunk.F1-score"] == 1.0 and found["ctc.error"] == 0.0


def test_the_printer_of_errors_takes_a_weight(caplog):
    E.classification_error_printer([rows(size=2), ids(size=2)], rows("w", 1))
    with caplog.at_level("INFO", logger="paddle"):
        metrics([{"x": np.eye(2), "label": [0, 0], "w": [[3.0], [5.0]]}])
    assert "Classification Error:\n0 \n5 \n" in caplog.text


def test_boxes_of_a_list():
    label = L.data(name="label", type=paddle.data_type.dense_vector_sequence(6))
    E.detection_map([rows("x", 7), label], label)
    (found,) = Topology([L.get_layer("x"), label]).proto().evaluators
    assert list(found.input_layers) == ["x", "label", "label", "label"]


def test_in_the_step_of_a_group(rng):
    def step(x, w):
        E.sum([x, w], name="inside")
        return L.addto(x)

    x, w = row_sequences("x", 2), row_sequences("w", 1)
    y = L.recurrent_group(step=step, input=[x, w], name="g")
    cost = L.sum_cost(y)
    trainer = paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(), extra_layers=w
    )
    values, weight = rng.random((5, 2), np.float32), rng.random((5, 1), np.float32)
    batch = [(values[:2], weight[:2]), (values[2:], weight[2:])]
    found = trainer.test(lambda: iter([batch])).metrics["inside@g"]
    assert found == pytest.approx(float((values * weight).sum() / weight.sum()), rel=1e-5)


# fmt: off
MISTAKES = [
    (lambda x, y: E.auc([x, y, x], y), "auc: takes the layers input, label, weight, and has 'x', "),
    (lambda x, y: E.auc(x, None), "auc: takes the layers input, label, weight, and has 'x'"),
    (lambda x, y: E.sum([x, y, x]), "sum: takes the layers input, weight, and has"),
    (lambda x, y: E.chunk([x, y], y, "plain", 3), "chunk: takes the layers input, label, and has"),
    (lambda x, y: E.precision_recall([x, y], y), "the weight 'y' is 4 wide, not 1"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_layer_without_a_role_is_an_error(mistake, message):
    x, y = rows(), ids("y")
    with pytest.warns(UnfitWarning, match=message):
        mistake(x, y)
    with pytest.raises(pd.GraphError, match=message):
        Topology([x, y]).check_fit()


# ---- ids and columns that are special


def test_a_label_that_is_no_class_is_an_error():
    E.classification_error(rows(), ids(size=9))
    with pytest.raises(pd.OutOfRange, match="7"):
        metrics([{"x": np.eye(4)[:1], "label": [7]}])


def test_of_equal_columns_the_first_are_the_largest():
    for k in (1, 2, 3):
        E.classification_error(rows(), ids(), top_k=k, name=f"top{k}")
    equal = {"x": np.full((4, 4), 0.25, np.float32), "label": [0, 1, 2, 3]}
    assert metrics([equal]) == {"top1": 0.75, "top2": 0.5, "top3": 0.25}


def test_a_row_of_nan_is_wrong():
    E.classification_error(rows(), ids(), top_k=3)
    assert metric({"x": np.full((2, 4), np.nan, np.float32), "label": [0, 3]}) == 1.0


def test_more_than_all_columns_are_an_error():
    x, label = rows(), ids()
    with pytest.warns(UnfitWarning, match="'x' has 4 columns, not the 5 of top_k"):
        E.classification_error(x, label, top_k=5)


def test_a_sparse_label_counts_the_columns_it_names(rng):
    """The numbers of sparse rows do not count: a column is named, whatever its number is."""
    x = rows()
    label = L.data(name="label", type=paddle.data_type.sparse_vector(4))
    E.classification_error(x, label, name="error")
    E.precision_recall(x, label, name="p")
    scores = np.array([[0.9, 0.2, 0.7, 0.1]], np.float32)
    feeds = {"x": scores, "label": [0, 0, 1], "label.counts": [3]}
    named = np.array([2, 1, 0, 0])
    on = scores[0] >= 0.5
    found = metrics([feeds])
    assert found["error"] == pytest.approx((on + named * (1 - 2 * on)).sum() / 4)
    true, false, missed = named * on, on - named * on, named * ~on
    assert found["p.micro-average-precision"] == pytest.approx(true.sum() / (true + false).sum())
    assert found["p.micro-average-recall"] == pytest.approx(true.sum() / (true + missed).sum())


def test_columns_of_a_binary_label(rng):
    E.classification_error(rows(), sparse_rows())
    dense = np.array([[1, 0, 0, 1]])
    feeds = {"x": [[0.5, 0.5, 0.4, 0.4]], **columns("label", dense)}
    assert metric(feeds) == 0.5  # the threshold itself is on: columns 1 and 3 are wrong
