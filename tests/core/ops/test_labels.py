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


def test_the_error_says_where_the_cost_was_built():
    x, label = pd.Variable([None, CLASSES]), pd.Variable([None], dtype="int64")
    y = pd.softmax_cross_entropy(x, label)
    with pytest.raises(pd.BackendError, match=r"(?s)idx=5.*range \[-5,4\].*test_labels.py"):
        pd.eval(y, {x: np.zeros((1, CLASSES)), label: [-1]})
