"""Batches without elements: moving statistics stay, and gradients are finite."""

import numpy as np
import pytest

import pd_core as pd

FEW = {  # shapes with elements, and without
    "rows": [(4, 3), (0, 3)],
    "sequences": [(4, 3, 5), (0, 3, 5), (4, 3, 0)],
    "images": [(2, 3, 20, 20), (0, 3, 20, 20)],
    "images of any size": [(2, 3, 5, 4), (0, 3, 5, 4), (2, 3, 0, 4)],
}


def network(kind):
    """A batch normalization and its input; the convolutions are kept position-major."""
    shape = FEW[kind][0]
    x = pd.Variable([None, 3, *(shape[2:] if kind == "images" else [None] * (len(shape) - 2))])
    y = pd.conv2d(x, 16, 3, padding=1) if kind == "images" else x
    y = pd.layer.batch_norm(y, mean="mean", variance="variance")
    return x, pd.relu(pd.conv2d(y, 16, 3, padding=1) if kind == "images" else y)


@pytest.fixture(autouse=True)
def small_images_too(monkeypatch):
    monkeypatch.setattr("pd_core.backend.layout.choice.gain_of", lambda *_: 1e9)


@pytest.mark.parametrize("kind", FEW)
def test_batch_normalization_keeps_its_statistics(kind, rng):
    x, y = network(kind)
    step = pd.MomentumOptimizer(0.1).minimize(pd.reduce_sum(pd.square(y)))
    full, *empty = FEW[kind]
    pd.eval(step, {x: rng.normal(size=full)})
    state = [*pd.trainable_variables(), pd.get_variable("mean"), pd.get_variable("variance")]
    before = [v.val() for v in state[-2:]]
    assert (before[0] != 0).any() and (before[1] != 1).any()
    for size in empty:
        with pd.check_numerics():
            pd.eval(step, {x: np.zeros(size)})
        for v, value in zip(state[-2:], before, strict=True):
            np.testing.assert_array_equal(v.val(), value, err_msg=str(size))
        assert all(np.isfinite(v.val()).all() for v in state)


def test_a_batch_that_is_known_to_be_empty():
    y = pd.layer.batch_norm(np.zeros((0, 3)), mean="mean", variance="variance")
    pd.eval(pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y)))
    assert pd.get_variable("mean").val().tolist() == [0, 0, 0]
    assert pd.get_variable("variance").val().tolist() == [1, 1, 1]


def test_one_row_is_a_batch():
    """Its variance is 0, as in 2017; PyTorch refuses it."""
    x = pd.Variable([None, 3])
    y = pd.layer.batch_norm(x, mean="mean", variance="variance")
    pd.eval(pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y)), {x: [[1.0, 2.0, 3.0]]})
    np.testing.assert_allclose(pd.get_variable("mean").val(), [0.1, 0.2, 0.3], rtol=1e-5)
    np.testing.assert_allclose(pd.get_variable("variance").val(), 0.9, rtol=1e-6)


def test_layers_of_values_at_hand(rng):
    norm = pd.nn.BatchNorm1d()
    seen = []
    for size in (4, 0, 0):
        with pd.guard():
            cost = pd.reduce_sum(norm(pd.to_variable(rng.normal(size=(size, 3)))))
            pd.SGDOptimizer(0.1).minimize(cost)
        seen.append([v.val() for v in (*norm.buffers(), *norm.parameters())])
    for first, *others in zip(*seen, strict=True):
        for other in others:
            np.testing.assert_array_equal(other, first)
