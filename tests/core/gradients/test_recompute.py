"""Recomputed segments: the same values and derivatives, in less memory."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from pd_core import nn


def gradients_of(cost, variables):
    """First gradients, and those of their squared sum."""
    first = [g for g in pd.gradients(cost, variables) if g is not None]
    squares = sum(pd.reduce_sum(pd.square(g)) for g in first)
    second = pd.gradients(squares, variables)
    return [*first, *(g for g in second if g is not None)]


def nested(segment):
    """A cost with an input that depends on another, a read from outside, dropout and nesting."""
    with pd.fresh_names():
        x = pd.Variable([None, 6], name="x")
        weights = [
            pd.get_variable(f"w{k}", [6, 6], initializer=pd.gaussian_initializer()) for k in "abc"
        ]
        outside = pd.tanh(pd.matmul(x, weights[2]))

        def inner(h):
            h = pd.dropout(pd.tanh(pd.matmul(h, weights[0])), 0.5)
            return pd.tanh(pd.matmul(h, weights[1]) + outside) * outside

        y = segment(inner, outside)
        y = segment(lambda h: segment(inner, h) + h, y)
        cost = pd.reduce_sum(pd.square(y))
    return x, [cost, *gradients_of(cost, [x, *weights])]


def test_values_and_derivatives_are_the_same(rng):
    """Also of a dropout inside, which draws the same mask, and in second derivatives."""
    image = rng.normal(size=(5, 6)).astype("float32")
    results = []
    for segment in (lambda function, *inputs: function(*inputs), pd.recompute):
        x, targets = nested(segment)
        step = pd.Update(training=True)
        results.append(pd.Session(seed=3).eval([*targets, step], {x: image})[:-1])
    assert len(results[0]) == len(results[1]) == 9
    for plain, recomputed in zip(*results, strict=True):
        np.testing.assert_allclose(recomputed, plain, rtol=1e-4, atol=1e-5)


def train(segment, image, dynamic):
    """Losses, parameters and statistics of three steps of a layer with dropout and batch norm."""
    pd.reset(seed=0)
    net = nn.Sequential(nn.FC(6), nn.Dropout(0.5), nn.BatchNorm1d(), nn.FC(3))
    optimizer, losses = pd.AdamOptimizer(0.1), []
    if dynamic:
        with pd.guard():
            for _ in range(3):
                cost = pd.reduce_mean(pd.square(segment(net, pd.to_variable(image))))
                optimizer.minimize(cost)
                losses.append(float(cost.numpy()))
    else:
        x = pd.Variable([None, 6], name="x")
        cost = pd.reduce_mean(pd.square(segment(net, x)))
        step = optimizer.minimize(cost)
        losses = [float(pd.eval([cost, step], {x: image})[0]) for _ in range(3)]
    return losses, [v.val() for v in [*net.parameters(), *net.buffers()]]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_layers_train_alike(dynamic, rng):
    """A layer with parameters, dropout and moving statistics, which are updated once."""
    image = rng.normal(size=(8, 6)).astype("float32")
    losses, values = train(lambda net, x: net(x), image, dynamic)
    other_losses, others = train(pd.recompute, image, dynamic)
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert losses[0] != losses[2]
    for a, b in zip(values, others, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_values_that_are_not_finite_pass(rng):
    """NaN and infinities give the gradients that they give without recomputation."""
    x = pd.Variable([4], name="x")
    samples = np.array([np.nan, np.inf, -np.inf, 2.0], "float32")
    plain = pd.gradients(pd.reduce_sum(pd.exp(x) * x), [x])[0]
    y = pd.recompute(lambda v: pd.exp(v) * v, x)
    a, b = pd.eval([plain, pd.gradients(pd.reduce_sum(y), [x])[0]], {x: samples})
    np.testing.assert_array_equal(b, a)


def test_integers_and_nested_results():
    """Token ids as an input; a dict of results, of which one has no gradient."""
    ids = pd.Variable([None], dtype="int64", name="ids")
    table = pd.get_variable("table", [5, 2], initializer=pd.gaussian_initializer())
    found = pd.recompute(lambda i: {"rows": pd.exp(pd.gather(table, i)), "ids": i}, ids)
    assert found["ids"] is ids
    g = pd.gradients(pd.reduce_sum(found["rows"]), [table])[0]
    expected = np.zeros((5, 2), "float32")
    values, gradient = pd.eval([table, g], {ids: [1, 3, 1]})
    np.add.at(expected, [1, 3, 1], np.exp(values)[[1, 3, 1]])
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_a_result_without_a_computed_float_is_refused():
    x = pd.Variable([3], name="x")
    with pytest.raises(pd.GraphError, match="recompute: <lambda> returned no float"):
        pd.recompute(lambda v: v, x)


def test_exported_steps_compute_again(tmp_path, rng):
    """A segment of a static graph in a file, and on ONNX's reference evaluator."""
    image = rng.normal(size=(5, 4)).astype("float32")
    x = pd.Variable([None, 4], name="x")
    w = pd.get_variable("w", data=np.eye(4, dtype="float32"))
    y = pd.recompute(lambda h: pd.tanh(pd.matmul(pd.exp(h), w)), x)
    cost = pd.reduce_sum(pd.square(y))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    model = pd.export_step(None, step, [cost])
    assert [n.op_type for n in model.graph.node].count("Exp") == 2
    run = onnxruntime.InferenceSession(model.SerializeToString())
    expected = np.tanh(np.exp(image))
    new = np.eye(4) - 0.1 * np.exp(image).T @ (2 * expected * (1 - expected**2))
    np.testing.assert_allclose(run.run(["w_next"], {"x": image})[0], new, rtol=1e-4, atol=1e-5)
    session = pd.Session(device="reference")
    session.eval(step, {x: image})
    np.testing.assert_allclose(session.get(w), new, rtol=1e-4, atol=1e-5)


def test_what_is_not_finite_is_found():
    x = pd.Variable([None], name="x")
    y = pd.recompute(lambda h: pd.sqrt(pd.log(h)), x)
    cost = pd.reduce_sum(y)
    with pytest.raises(pd.NumericError, match="Sqrt"), pd.check_numerics():
        pd.eval([cost, pd.gradients(cost, [x])[0]], {x: [0.5]})


def test_summaries_count_a_segment_once():
    x = pd.Variable([None, 3], name="x")
    layer = nn.FC(4)
    table = pd.summary(layer(x), {x: (2, 3)})
    assert pd.summary(pd.recompute(layer, x), {x: (2, 3)}) == table


PEAK = """
import re, sys, numpy as np, pd_core as pd
def peak():  # of this process alone: that of getrusage begins with what its parent has
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
x = h = pd.Variable([None, 256], name="x")
def block(h, i):
    for k in range(4):
        weight = pd.get_variable(f"w{i}{k}", [256, 256], initializer=pd.Xavier())
        h = pd.gelu(pd.tanh(pd.matmul(h, weight)))
    return h
for i in range(6):
    h = pd.recompute(block, h, i) if sys.argv[1] == "1" else block(h, i)
cost = pd.reduce_mean(pd.square(h))
step = pd.SGDOptimizer(0.1).minimize(cost)
image = np.ones([2048, 256], "float32")
pd.eval(cost, {x: image})
before = peak()
pd.eval(step, {x: image})
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak")
def test_the_peak_of_a_deep_network_is_lower():
    """Resident memory that the first step adds, in a process of its own."""
    run = partial(subprocess.run, capture_output=True, check=True, text=True)
    peaks = [int(run([sys.executable, "-c", PEAK, flag]).stdout) for flag in "01"]
    assert peaks[1] < 0.6 * peaks[0]
