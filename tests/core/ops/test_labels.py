"""Labels out of range are refused; none of them wraps around to another class."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import thinned

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


def packed(*lengths):
    return pd.Segments(np.array(lengths))


def steps_of(x):
    return pd.log_softmax(pd.concat([x, x, x], 0))


def boxes(x, label):
    """SSD's loss of a prior beside four true boxes of these classes."""
    rows = pd.unsqueeze(pd.cast(label, "float32"), 1)
    truth = pd.concat(
        [rows, np.float32([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]])], 1
    )
    prior = np.float32([[0, 0, 1, 1]])
    logits = pd.reshape(x[:1], [1, 1, CLASSES])
    return pd.multibox_loss(np.zeros((1, 1, 4), "f"), logits, prior, prior + 0.1, truth, packed(4))


OPS = {
    "softmax_cross_entropy": pd.softmax_cross_entropy,
    "along the first axis": lambda x, label: pd.softmax_cross_entropy(
        pd.transpose(x), label, axis=0
    ),
    "weighted": lambda x, label: pd.softmax_cross_entropy(x, label, np.ones(CLASSES, "f")),
    "likelihood": lambda x, label: pd.nn.NLL(np.ones(CLASSES, "f"))(pd.log_softmax(x), label),
    "weights": lambda x, label: pd.label_weights(label, np.ones(CLASSES, "f")),
    "weights but one": lambda x, label: pd.label_weights(label, np.ones(CLASSES, "f"), -100),
    "noise-contrastive": lambda x, label: pd.nce_loss(x, label, np.zeros((CLASSES, CLASSES), "f")),
    "tree": lambda x, label: pd.hierarchical_sigmoid(
        x, label, np.zeros((CLASSES - 1, CLASSES), "f")
    ),
    "chain": lambda x, label: pd.crf_loss(x, label, packed(4), np.zeros((CLASSES, CLASSES), "f")),
    "alignments": lambda x, label: pd.ctc_loss(
        steps_of(x), label, packed(12), packed(4), CLASSES - 1
    ),
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


KINDS = ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("op, kind", thinned(itertools.product(OPS, KINDS), 3))
def test_labels_and_ids_are_of_any_integer_type(op, kind, rng):
    compute = OPS[op]
    data = rng.standard_normal((4, CLASSES))

    def value(kind, *labels):
        with pd.fresh():
            x, label = pd.Variable([None, CLASSES]), pd.Variable([None], dtype=kind, name="label")
            feeds = {x: data, label: np.array(labels, kind)}
            return pd.Session(seed=3).eval(compute(x, label), feeds)

    np.testing.assert_array_equal(value(kind, 0, 4, 2, 4), value("int64", 0, 4, 2, 4))
    for wrong in (CLASSES, np.iinfo(kind).max):
        with pytest.raises(pd.OutOfRange, match=f": {wrong} in row 3 is outside 0 … 4"):
            value(kind, 0, 4, 2, wrong)


@pytest.mark.parametrize("wrong", [-1, CLASSES])
@pytest.mark.parametrize("compute", OPS.values(), ids=OPS)
def test_the_same_where_values_are_at_hand(compute, wrong):
    with pd.guard(), pytest.raises(pd.OutOfRange, match=f": {wrong} in row 1 is outside 0 … 4\n"):
        compute(pd.Variable(data=np.zeros((4, CLASSES))), np.array([4, wrong, 0, 1])).numpy()


@pytest.mark.parametrize("wrong", [-1, CLASSES])
@pytest.mark.parametrize("compute", OPS.values(), ids=OPS)
def test_the_same_of_constants(compute, wrong):
    y = compute(pd.constant(np.zeros((4, CLASSES), "f")), np.array([4, wrong, 0, 1]))
    with pytest.raises(pd.OutOfRange, match=f": {wrong} in row 1 is outside 0 … 4\n"):
        y.eval()


@pytest.mark.parametrize("wrong", [-1, CLASSES])
def test_a_class_of_true_boxes_is_checked(wrong):
    label = pd.Variable([None], dtype="int64")
    y = boxes(pd.constant(np.zeros((1, CLASSES), "f")), label)
    assert np.isfinite(pd.eval(y, {label: [1, 2, 3, 4]}))
    with pytest.raises(pd.OutOfRange, match=f": {wrong} in row 2 is outside 0 … 4"):
        pd.eval(y, {label: [1, 2, wrong, 4]})


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
    "batches": (
        lambda x, k: pd.gather_nd(x[:2], pd.reshape(k, [-1, 1]), batch_dims=1),
        [1, 4],
        "index of GatherND: 4 in row 1 is outside -4 … 3",
    ),
    "x[0, k]": (lambda x, k: x[np.array([0, 2]), k], [0, 4], "index of GatherND: 4 in row 1"),
    "scatter": (
        lambda x, k: pd.scatter(x[:, :2], pd.reshape(k, [1, -1]), np.ones((1, 2), "f")),
        [0, 3],
        "k: 3 in row 1 is outside -3 … 2",
    ),
    "scatter_add": (
        lambda x, k: pd.scatter_add(x[:, :2], pd.reshape(k, [1, -1]), np.ones((1, 2), "f")),
        [-4, 0],
        "k: -4 in row 0 is outside -3 … 2",
    ),
    "scatter_nd": (
        lambda x, k: pd.scatter_nd(x, pd.reshape(k, [-1, 2]), np.ones(1, "f")),
        [3, 0],
        r"index of ScatterND: 3 at \[0, 0\] is outside -3 … 2",
    ),
    "sums": (
        lambda x, k: pd.scatter_nd(x, pd.reshape(k, [-1, 2]), np.ones(1, "f"), "add"),
        [3, 0],
        "index of GatherND: 3 in row 0 is outside -3 … 2",
    ),
    "update": (lambda x, k: pd.index_update(x, k, 1.0), [0, 3], "k: 3 in row 1 is outside -3 … 2"),
    "loop": (
        lambda x, k: pd.scan(lambda state, i: (state, pd.gather(x, i)), np.zeros(1, "f"), k)[1],
        [0, 5],
        "index: 5 is outside -3 … 2",
    ),
}


@pytest.mark.parametrize("compute, k, words", INDEXING.values(), ids=INDEXING)
def test_indices_are_named_too(compute, k, words):
    x = pd.Variable([None, None], name="x")
    index = pd.Variable([None], dtype="int64", name="k")
    y = compute(x, index)
    with pytest.raises(pd.OutOfRange, match=words):
        pd.eval(y, {x: np.zeros((3, 4)), index: k})


@pytest.mark.parametrize("compute, k, words", INDEXING.values(), ids=INDEXING)
def test_indices_are_named_where_values_are_at_hand(compute, k, words):
    for times in (1, 2):  # the second time the plan is there
        with pd.guard(), pytest.raises(pd.OutOfRange, match=words.partition(":")[2]):
            compute(
                pd.Variable(data=np.full((3, 4), float(times), "f")), pd.to_variable(np.array(k))
            ).numpy()


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


@pytest.mark.parametrize("columns", [1, 2])
def test_an_index_of_unknown_width_is_named(columns):
    """A ScatterND has such an index: how many columns it has is that of the feed."""
    x, k = pd.Variable([None, None], dtype="float32"), pd.Variable([None, None], dtype="int64")
    y = pd.apply("ScatterND", x, k, pd.Variable([None] * (3 - columns), name="new"))
    feeds = {
        x: np.ones((3, 2)),
        k: np.array([[0, 1], [3, 0]])[:, :columns],
        "new": np.ones((2, 2)[: 3 - columns]),
    }
    with pytest.raises(pd.OutOfRange, match=r": 3 (in row 1|at \[1, 0\]) is outside -3 … 2"):
        pd.eval(y, feeds)
