"""Sums with a scaled summand as one operator of ONNX Runtime's for the CPU."""

from collections import Counter

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.backend.passes import CPU, scaled_sums
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors
from pd_core.run import programs

KERNEL = scaled_sums.KERNEL
THERE = frozenset([KERNEL])


def operators(targets, feeds=(), contributed=THERE):
    """How many operators of each type a program for the CPU has."""
    graph = program.build(targets, [], list(feeds), False, {})
    outputs = for_device(graph, CPU, contributed=contributed).outputs
    return Counter(node.op_type for node in ancestors(outputs))


# name: function of x, y, z and a scalar c; operators besides the kernel, its factor and -c
SUMS = {
    "x + c y": (lambda x, y, z, c: x + c * y, {}),
    "c y + x": (lambda x, y, z, c: y * c + x, {}),
    "x + 0.25 y": (lambda x, y, z, c: x + 0.25 * y, {}),
    "x - c y": (lambda x, y, z, c: x - c * y, {}),
    "x - 0.25 y": (lambda x, y, z, c: x - 0.25 * y, {}),
    "a running mean": (lambda x, y, z, c: 0.75 * x + 0.25 * y, {"Mul": 1}),
    "x - c y / z": (lambda x, y, z, c: x - c * y / z, {"Div": 1}),
    "after another": (lambda x, y, z, c: x - c * (y + 0.5 * z) / z, {"Div": 1, KERNEL: 2}),
}


@pytest.mark.parametrize("shape", [(70,), (5, 16), (2, 3, 33)], ids=str)
def test_sums_with_a_scaled_summand_are_one_operator(shape, rng, monkeypatch):
    slots = [pd.Variable(list(shape), name=name) for name in "xyz"] + [pd.Variable([], name="c")]
    arrays = [rng.uniform(0.5, 2.0, shape).astype("float32") for _ in "xyz"] + [np.float32(0.3)]
    targets = [function(*slots) for function, _ in SUMS.values()]
    monkeypatch.setattr(ort, "contributed", lambda: THERE)
    monkeypatch.setattr(programs, "_caches", {})
    found = pd.eval(targets, dict(zip(slots, arrays, strict=True)))
    for (name, (function, rest)), y, value in zip(SUMS.items(), targets, found, strict=True):
        count = operators([y], slots)
        without = operators([y], slots, contributed=frozenset())
        assert without[KERNEL] == 0, name
        assert count - Counter(["Expand", "Neg"]) == Counter({KERNEL: 1} | rest), name
        wanted = function(*(a.astype("float64") for a in arrays))
        np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-6, err_msg=name)


def test_other_sums_stay_as_they_are():
    x, y = pd.Variable([8, 32]), pd.Variable([8, 32])
    product = y * 0.5
    narrow, batch = pd.Variable([64, 8]), pd.Variable([None, 32])
    double, row = pd.Variable([8, 32], dtype="float64"), pd.Variable([32])
    stays = {
        "read twice": [x + product, product],
        "short rows": [narrow + narrow * 0.5],
        "rows of a batch": [batch + batch * 0.5],
        "float64": [double + double * 0.5],
        "broadcast": [x + row * 0.5],
        "a product of tensors": [x + x * y],
        "minus at the left": [y * 0.5 - x],
        "a product of the quotient": [x + (x / y) * y],
        "divided by the scaled": [x - y / (y * 0.5)],
    }
    for name, targets in stays.items():
        inputs = (x, y, narrow, batch, double, row)
        assert operators(targets, inputs)[KERNEL] == 0, name


OPTIMIZERS = {
    "adam": (lambda: pd.AdamOptimizer(0.01, regularizer=pd.L2(0.1)), 4),
    "adamw": (lambda: pd.AdamWOptimizer(0.01, weight_decay=0.1), 3),
    "rmsprop": (lambda: pd.RMSPropOptimizer(0.01), 2),
    "adagrad": (lambda: pd.AdaGradOptimizer(0.01), 1),
    "momentum": (lambda: pd.MomentumOptimizer(0.01, regularizer=pd.L2(0.1)), 1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trainings_are_the_same_with_and_without(name, rng, monkeypatch):
    make, kernels = OPTIMIZERS[name]
    start, images = drawn(rng, 20, 16), drawn(rng, 6, 20)
    trained = []
    for contributed in (THERE, frozenset()):
        monkeypatch.setattr(ort, "contributed", lambda found=contributed: found)
        monkeypatch.setattr(programs, "_caches", {})
        w = pd.Variable(f"w{len(contributed)}", data=start)
        step = make().minimize(pd.reduce_sum(pd.tanh(pd.tanh(images) @ w)))
        changes = [a.value for a in step.assignments]
        assert operators(changes, contributed=contributed)[KERNEL] == kernels * len(contributed)
        for _ in range(5):
            pd.eval(step)
        trained.append(w.val())
    np.testing.assert_allclose(*trained, rtol=2e-5, atol=2e-6)
    assert abs(trained[0] - start).max() > 0.01


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def test_a_runtime_without_the_operator_gets_none(monkeypatch):
    model, x = scaled_sums.probe()
    unknown = model.replace(KERNEL.encode(), b"GatesAdd")
    monkeypatch.setattr(scaled_sums, "probe", lambda: (unknown, x))
    assert ort.contributed.__wrapped__() == frozenset()


def test_exported_steps_do_not_hold_the_operator():
    w = pd.Variable("w", data=np.ones((20, 16)))
    step = pd.AdamOptimizer(0.01, regularizer=pd.L2(0.1)).minimize(pd.reduce_sum(w * w))
    graph = program.build([a.value for a in step.assignments], [], [], False, {})
    assert {node.domain for node in ancestors(graph.outputs)} == {""}


def test_sums_of_no_elements():
    """The kernel refuses vectors without elements, which the sum of two operators takes."""
    x, y, c = pd.Variable([0]), pd.Variable([0]), pd.Variable([])
    feeds = {x: np.ones(0), y: np.ones(0), c: 2.0}
    assert pd.eval(x + c * y, feeds=feeds).shape == (0,)
    assert operators([x + c * y], feeds)[KERNEL] == 0
