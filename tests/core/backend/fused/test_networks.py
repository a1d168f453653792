"""Each fused operator of training steps alone, on the values of the unfused step.

A loss does not show a wrong kernel: training goes on with a slightly wrong gradient. By default the
networks and workloads are small; PD_FUSED_WORKLOADS=full takes all workloads of the benchmarks in
their own sizes.
"""

import os

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend.fused.build import available
from tests.benchmarks.child import load
from tests.benchmarks.measure import WORKLOADS
from tests.core.backend.fused.alone import alone
from tests.core.backend.fused.recorded import recorded

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

TOLERANCE = 5e-6
SMALL = {
    "maml": {"TASKS": 4, "POINTS": 5, "WIDTH": 8},
    "sparse_logistic": {"FEATURES": 1000, "ACTIVE": 5, "BATCH": 8},
    "scan_lstm": {},
}
FULL = os.environ.get("PD_FUSED_WORKLOADS") == "full"


def check(found):
    """Check all recorded programs; return how many results of fused operators were compared."""
    count = 0
    for program in found.values():
        model = onnx.load_from_string(program.model)
        for error, operator, value in alone(model, program.kinds, program.equal, program.values):
            count += 1
            assert error < TOLERANCE, f"{operator}: {value} is wrong by {error:.1e}"
    return count


def perceptron():
    """Fully connected layers with all activations, dropout and a softmax."""
    x, label = pd.Variable([None, 12]), pd.Variable([None], dtype="int64")
    y = x
    for activation in (pd.relu, pd.tanh, pd.sigmoid, pd.gelu, pd.softplus):
        y = activation(pd.fc(y, size=16))
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(y, size=5), label))
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(0, 1, [6, 12]).astype(np.float32), label: rng.integers(0, 5, 6)}
    return cost, pd.AdamOptimizer(1e-2), feeds


def attention():
    """Layer normalization and attention."""
    x = pd.Variable([None, 7, 16])
    q, k, v = (pd.fc(pd.nn.LayerNorm()(x), size=16) for _ in range(3))
    weights = pd.softmax(q @ pd.transpose(k, [0, 2, 1]) * 0.25)
    cost = pd.reduce_mean(pd.square(pd.nn.LayerNorm()(x + weights @ v)) * x)
    rng = np.random.default_rng(0)
    return (
        cost,
        pd.MomentumOptimizer(0.1, 0.9),
        {x: rng.normal(0, 1, [3, 7, 16]).astype(np.float32)},
    )


def convolution():
    """Convolutions with batch normalization, a residual and pooling."""
    x = pd.Variable([None, 3, 8, 8])
    y = pd.nn.Conv2d(8, 3, padding=1)(x)
    y = pd.relu(pd.nn.BatchNorm2d()(y))
    y = pd.relu(y + pd.nn.BatchNorm2d()(pd.nn.Conv2d(8, 3, padding=1)(y)))
    cost = pd.reduce_mean(pd.square(pd.reduce_mean(y, [2, 3])))
    rng = np.random.default_rng(0)
    return (
        cost,
        pd.MomentumOptimizer(0.1, 0.9),
        {x: rng.normal(0, 1, [4, 3, 8, 8]).astype(np.float32)},
    )


def embeddings():
    """Sums of rows of a table, with weight decay."""
    ids, target = pd.Variable([None, 4], dtype="int64"), pd.Variable([None, 6])
    table = pd.Variable("table", data=np.random.default_rng(1).normal(0, 1, (30, 6)))
    cost = pd.reduce_mean(pd.square(pd.reduce_sum(pd.gather(table, ids), [1]) - target))
    rng = np.random.default_rng(0)
    feeds = {ids: rng.integers(0, 30, [5, 4]), target: rng.normal(0, 1, [5, 6]).astype(np.float32)}
    return cost, pd.AdamOptimizer(1e-2), feeds


@pytest.mark.parametrize("network", [perceptron, attention, convolution, embeddings])
def test_networks(network):
    cost, optimizer, feeds = network()
    step = optimizer.minimize(cost)
    with recorded() as found:
        for _ in range(2):
            pd.eval([cost, step], feeds)
    assert check(found) > 3


def _workloads():
    names = [path.stem for path in sorted(WORKLOADS.glob("[!_]*.py"))]
    return [name for name in names if name not in ("table",)] if FULL else SMALL


@pytest.mark.parametrize("name", _workloads())
def test_workloads(name):
    workload = load(WORKLOADS / f"{name}.py")
    for key, value in ({} if FULL else SMALL[name]).items():
        setattr(workload, key, value)
    if name == "maml" and not FULL:
        n = workload.WIDTH
        workload.SHAPES = (1, n), (1, n), (n, n), (1, n), (n, 1), (1, 1)
    with recorded() as found:
        loop = workload.ours()
        loop = loop[0] if isinstance(loop, tuple) else loop
        list(loop(workload.batches()[:2]))
    assert check(found) > 0
