"""classification_error: its value against a count by hand, its name, and what it refuses."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.evaluator import Accumulator, classification_error
from pd_v2.topology import Topology

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def rows(name="x", size=4):
    return L.data(name=name, type=T.dense_vector(size))


def ids(size=4):
    return L.data(name="label", type=T.integer_value(size))


def metrics(batches):
    """The metrics of all evaluators of this build over some batches of feeds."""
    evaluators = paddle.build.current().evaluators
    accumulator = Accumulator(evaluators)
    for feeds in batches:
        accumulator.update(pd.eval([list(e.statistics) for e in evaluators], feeds))
    return accumulator.metrics()


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
    x, label = (rng.uniform(0, 1, (20, 4)).astype(np.float32) for _ in range(2))
    limit = 0.5 if threshold is None else threshold
    (found,) = metrics([{"x": x, "label": label}]).values()
    assert found == pytest.approx(((x > limit) != (label > limit)).sum() / 20)


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


def test_what_does_not_fit():
    x, label = rows(), ids(3)
    with pytest.raises(pd.ShapeError, match="'x' is 4 wide, its label 'label' 3"):
        classification_error(x, label)
    with pytest.raises(pd.ShapeError, match="the weight 'w' is 2 wide, not 1"):
        classification_error(x, rows("z"), weight=rows("w", 2))
    with pytest.raises(TypeError, match="classification_error: takes layers, not 3"):
        classification_error(x, 3)
    assert paddle.build.current().evaluators == []
