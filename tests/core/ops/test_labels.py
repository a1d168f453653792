"""Labels out of range are refused; none of them wraps around to another class."""

import numpy as np
import pytest

import pd_core as pd

COSTS = {
    "cross_entropy": lambda x, label: pd.cross_entropy(pd.softmax(x), label),
    "softmax_cross_entropy": pd.softmax_cross_entropy,
}
CLASSES = 5


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS.keys())
@pytest.mark.parametrize("classes", [CLASSES, None])
def test_labels_beyond_the_classes_are_refused(classes, cost, kind, device, rng):
    x = pd.Variable([None, classes])
    w = pd.Variable(data=np.ones(CLASSES))
    label = pd.Variable([None], dtype=kind)
    y = cost(x * w, label)
    update = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(y))
    session = pd.Session(device)
    data = rng.standard_normal((3, CLASSES))
    for wrong in (-1, -CLASSES, -CLASSES - 1, CLASSES, 2**31 - 1):
        with pytest.raises(pd.BackendError):
            session.eval([update, y], {x: data, label: [0, wrong, 2]})
        np.testing.assert_array_equal(session.eval(w), np.ones(CLASSES))
    found = session.eval(y, {x: data, label: [0, 4, 2]})
    shifted = np.exp(data)
    wanted = -np.log(shifted / shifted.sum(1, keepdims=True))[range(3), [0, 4, 2]]
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-4)


def rate(x, label):
    return pd.classification_error(pd.softmax(x), label)


OPS = {
    "softmax_cross_entropy": pd.softmax_cross_entropy,
    "ignoring": lambda x, label: pd.softmax_cross_entropy(x, label, ignore_index=-100),
    "cross_entropy": COSTS["cross_entropy"],
    "classification_error": rate,
    "embedding": lambda x, ids: pd.embedding(ids, (CLASSES, 3)),
    "Embedding": lambda x, ids: pd.nn.Embedding(CLASSES, 3)(ids),
    "column": lambda x, label: pd.softmax_cross_entropy(x, pd.reshape(label, [-1, 1])),
}


@pytest.mark.parametrize("wrong", [-1, -CLASSES, -CLASSES - 1, CLASSES, 2**31])
@pytest.mark.parametrize("compute", OPS.values(), ids=OPS)
def test_the_error_names_the_value_its_row_and_the_range(compute, wrong):
    x, label = pd.Variable([None, CLASSES]), pd.Variable([None], dtype="int64", name="label")
    y = compute(x, label)
    line = r"\n  node   \S+, built at .*test_labels.py:\d+$"
    feeds = {x: np.zeros((4, CLASSES)), label: [0, 4, wrong, -7]}
    for _ in range(2):  # the second time the program is there
        with pytest.raises(
            pd.OutOfRange, match=rf"^label: {wrong} in row 2 is outside 0 … 4 \(and 1 more\){line}"
        ):
            pd.eval(y, feeds)


@pytest.mark.parametrize("wrong", [-1, CLASSES])
@pytest.mark.parametrize("compute", OPS.values(), ids=OPS)
def test_the_same_where_values_are_at_hand(compute, wrong):
    with pd.guard(), pytest.raises(pd.OutOfRange, match=f": {wrong} in row 1 is outside 0 … 4\n"):
        compute(pd.Variable(data=np.zeros((3, CLASSES))), np.array([4, wrong, 0])).numpy()


def test_an_ignored_label_is_within():
    x, label = np.zeros((3, 2)), pd.Variable([None], dtype="int64", name="label")
    y = pd.softmax_cross_entropy(x, label, ignore_index=-100)
    with pytest.raises(pd.OutOfRange, match=r"^label: -5 in row 1 is outside 0 … 1"):
        pd.eval(y, {label: [-100, -5, 0]})


INDEXING = {
    "gather": (lambda x, k: pd.gather(x, k), [0, 3], "k: 3 in row 1 is outside -3 … 2"),
    "before": (lambda x, k: pd.gather(x, k, axis=1), [-5, 0], "k: -5 in row 0 is outside -4 … 3"),
    "x[k]": (lambda x, k: x[k], [0, -7], "k: -7 in row 1 is outside -3 … 2"),
    "x[:, k]": (lambda x, k: x[:, k], [0, 4], "k: 4 in row 1 is outside -4 … 3"),
    "computed": (lambda x, k: pd.gather(x, k * 2), [1, 2], "index of Gather: 4 in row 1"),
    "elements": (
        lambda x, k: pd.gather_elements(x, pd.reshape(k, [1, -1]), 1),
        [0, 9],
        "k: 9 in row 1 is outside -4 … 3",
    ),
    "pairs": (
        lambda x, k: pd.gather_nd(x, pd.reshape(k, [-1, 2])),
        [1, 4],
        r"index of GatherND: 4 at \[0, 1\] is outside -4 … 3",
    ),
}


@pytest.mark.parametrize("compute, k, words", INDEXING.values(), ids=INDEXING)
def test_indices_are_named_too(compute, k, words):
    x = pd.Variable([None, None], name="x")
    index = pd.Variable([None], dtype="int64", name="k")
    y = compute(x, index)
    with pytest.raises(IndexError, match=words):
        pd.eval(y, {x: np.zeros((3, 4)), index: k})


def test_several_steps_in_one_call_name_the_step():
    x, label = pd.Variable([None, 3]), pd.Variable([None], dtype="int64", name="label")
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(x, 4), label))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    feeds = {x: np.ones((3, 2, 3)), label: [[0, 1], [3, 4], [9, 9]]}
    with pytest.raises(pd.OutOfRange, match=r"^step 1: label: 4 in row 1 is outside 0 … 3"):
        pd.run_steps([step, cost], feeds)


def test_the_runtime_prints_nothing(capfd):
    x, label = pd.Variable([None, 3]), pd.Variable([None], dtype="int64")
    with pytest.raises(pd.OutOfRange):
        pd.eval(pd.softmax_cross_entropy(x, label), {x: np.zeros((1, 3)), label: [3]})
    assert capfd.readouterr().err == ""
