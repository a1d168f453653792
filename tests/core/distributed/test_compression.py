"""Compressed gradients: what they lose comes later, and trainings find the same minimum."""

from functools import cache

import numpy as np
import pytest

import pd_core as pd
from pd_core import distributed
from pd_core.distributed.top_k import Chosen, largest
from pd_core.distributed.wires import quantized
from tests.core.distributed.in_process import run

f32 = np.float32
OPTIONS = {
    "int8": {"compression": "int8"},
    "top_k": {"compression": "top_k", "top_k": 0.1},
}


def test_the_largest_elements():
    array = np.array([[0.5, -3.0, 1.0], [np.nan, 0.0, -2.0]], f32)
    assert largest(array, 0.5).tolist() == [1, 3, 5]
    assert largest(array, 1e-9).tolist() == [3]
    assert largest(array[:0], 0.5).tolist() == []
    chosen = Chosen([array, np.array(7.0, f32)], 0.4)
    assert chosen.items["place"].tolist() == [1, 3, 6]
    assert [rest.tolist() for rest in chosen.rests] == [[[0.5, 0.0, 1.0], [0.0, 0.0, -2.0]], 0.0]


def test_integers_of_blocks():
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal((4, 256)).astype(f32) * np.array(
        [[1e-3], [1.0], [1e-30], [1e30]], f32
    )
    blocks[0, 0], blocks[1, 1] = np.inf, np.nan
    scale, levels = quantized(blocks)
    assert np.isposinf(scale[0]) and np.isnan(scale[1]) and levels.dtype == np.int8
    back = levels[2:] * scale[2:, None]
    assert (np.abs(back - blocks[2:]) <= scale[2:, None] * 0.51).all()
    assert quantized(np.zeros((1, 256), f32))[0] == 0


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("size", [2, 3])
def test_what_is_lost_comes_later(name, size):
    """After each step what the ranks have updated with, and have lost, are the gradients so far."""
    pd.reset(seed=3)
    x, w = pd.Variable([300]), pd.Variable("w", data=np.zeros(300))
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(x * w))
    gradients = np.random.default_rng(1).standard_normal((4, size, 300)).astype(f32)

    def program(rank, session, exchange):
        seen = []
        for own in gradients[:, rank]:
            session.eval(step, {x: own})
            seen.append((session.get(w), np.array(exchange.part(session).errors[w])))
        return seen

    results = run(size, program, check_every=None, **OPTIONS[name])
    for k in range(4):
        assert len({own[k][0].tobytes() for own in results}) == 1
        whole = gradients[: k + 1].sum((0, 1), np.float64) / size
        lost = sum(own[k][1].astype(np.float64) for own in results)
        np.testing.assert_allclose(lost - results[0][k][0], whole, rtol=1e-4, atol=1e-5)
        assert np.abs(lost).max() > 0


def digits():
    """Rows and labels: a part of scikit-learn's, else clusters of ten kinds."""
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    return (images / 16).astype(f32)[:720], labels.astype(np.int64)[:720]


@pytest.fixture(scope="module")
def accuracy():
    """The share of digits that 4 ranks get right after 2 passes, and their messages' bytes."""
    images, labels = digits()

    @cache
    def of(**options):
        pd.reset(seed=3)
        x, y = pd.Variable([None, 64]), pd.Variable([None], dtype="int64")
        scores = pd.fc(pd.fc(x, 32, act="tanh"), 10)
        cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
        step = pd.MomentumOptimizer(0.2, 0.9).minimize(cost)

        def program(rank, session, exchange):
            for k in range(2 * 15):
                rows = slice(k % 15 * 48 + rank * 12, k % 15 * 48 + rank * 12 + 12)
                session.eval(step, {x: images[rows], y: labels[rows]})
            part = exchange.part(session)
            if part.local.count:
                part.average()
            right = session.eval(scores, {x: images}).argmax(1) == labels
            values = b"".join(session.get(v).tobytes() for v in pd.trainable_variables())
            return right.mean(), exchange.world.comm.sent, values

        results = run(4, program, **options)
        assert len({values for _, _, values in results}) == 1
        return results[0][:2]

    return of


@pytest.mark.parametrize(
    "options, traffic",
    [
        (OPTIONS["int8"], 0.45),
        (OPTIONS["top_k"], 1.0),
        ({"local_steps": 5}, 0.6),
    ],
    ids=["int8", "top_k", "local_steps"],
)
def test_digits_are_learned(accuracy, options, traffic):
    exact, whole = accuracy()
    found, sent = accuracy(**options)
    assert exact > 0.94 and found > (0.87 if options is OPTIONS["top_k"] else exact - 0.03)
    assert sent < traffic * whole


def test_state_is_that_of_this_process():
    distributed.init(compression="int8")
    try:
        pd.reset()
        w = pd.Variable("w", data=np.zeros((2, 3)))
        assert distributed.state() == {}
        distributed.restore({"w": np.ones((2, 3), f32)})
        assert distributed.state()["w"].tolist() == [[1.0] * 3] * 2
        with pytest.raises(pd.ShapeError, match=r"restore: .*w.* cannot take the shape \[3\]"):
            distributed.restore({"w": np.ones(3, f32)})
        with pytest.raises(pd.DTypeError, match="cannot take float64"):
            distributed.restore({"w": np.ones((2, 3))})
        with pytest.raises(pd.GraphError, match="there is no parameter 'v'"):
            distributed.restore({"v": np.ones(3, f32)})
        assert distributed.state()["w"].shape == w.dims
    finally:
        distributed.shutdown()
    distributed.init()
    try:
        with pytest.raises(pd.GraphError, match="restore: gradients are not compressed"):
            distributed.restore({"w": np.ones((2, 3), f32)})
        distributed.average_parameters()  # of no steps
        with pytest.raises(RuntimeError, match=r"already initialized with .*compression=None"):
            distributed.init(compression="int8")
    finally:
        distributed.shutdown()
