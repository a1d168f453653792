"""Loops over no steps: the initial state, empty outputs, and gradients that pass by."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors

H0 = np.array([[0.5, -1.0, 2.0], [0.1, 0.2, 0.3]], np.float32)


def one_state(h, x, w):
    return pd.tanh(pd.matmul(h, w) + x), pd.square(h)


def outputs_of_all_dtypes(h, x, w):
    h = pd.relu(pd.matmul(h, w) + x)
    return h, [pd.reduce_sum(h), h > 0.0, pd.cast(h, "int64"), pd.dropout(h)]


def sizes_of_its_own(h, x, w):
    both = pd.concat([h, pd.matmul(x, w)], 0)
    return pd.tanh(h + pd.reduce_sum(both)), [pd.square(both), pd.reshape(both, [-1, 1, 3])]


def reshaped(h, x, w):
    rows = pd.reshape(pd.matmul(x, w), [-1])
    return h + pd.reduce_sum(rows), [rows, pd.reshape(rows, [-1, 1])]


def nested(h, x, w):
    return pd.scan(lambda h, row: one_state(h, row, w), h, x)


BODIES = {f.__name__: f for f in (one_state, outputs_of_all_dtypes, sizes_of_its_own, reshaped)}


def listed(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def loop(body, dims, reverse=False):
    """A loop over x, and d(sum of sin of the final state and the outputs) / d(h0, w, x)."""
    x, h0 = pd.Variable([*dims, 3]), pd.Variable([None, 3])
    w = pd.Variable(data=np.eye(3) / 2)
    final, ys = pd.scan(lambda h, v: body(h, v, w), h0, x, reverse)
    floats = [v for v in [final, *listed(ys)] if v.dtype.kind == "f"]
    slopes = pd.gradients(sum(pd.reduce_sum(pd.sin(v)) for v in floats), [h0, w, x])
    return x, h0, [final, *listed(ys), *slopes]


def check(got, like, size):
    """The state and its gradient are those of no loop; all shapes are those of one step."""
    final, *ys, dh0, dw, dx = got
    np.testing.assert_array_equal(final, H0)
    np.testing.assert_allclose(dh0, np.cos(H0), rtol=1e-6)
    assert dw.shape == (3, 3) and not dw.any()
    assert dx.shape == size
    for y, one in zip(ys, like[1:-3], strict=True):
        assert y.shape == (0, *one.shape[1:]) and y.dtype == one.dtype


@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("name", BODIES)
def test_no_steps(name, reverse):
    x, h0, targets = loop(BODIES[name], [None, None], reverse)
    one = pd.eval(targets, {x: np.ones((1, 2, 3)), h0: H0}, training=True)
    none = pd.eval(targets, {x: np.ones((0, 2, 3)), h0: H0}, training=True)
    check(none, one, (0, 2, 3))


def test_a_number_of_steps_that_is_known():
    x, h0, targets = loop(one_state, [0, 2])
    assert targets[1].shape == (0, None, 3)
    ones = np.ones((1, 2, 3), np.float32)
    check(pd.eval(targets, {x: ones[:0], h0: H0}), [H0, ones, 0, 0, 0], (0, 2, 3))


@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (0, 0)], ids=str)
def test_a_loop_in_a_loop(sizes):
    x, h0, targets = loop(nested, [None, None])
    final, ys, dh0, dw, dx = pd.eval(targets, {x: np.ones((*sizes, 3)), h0: H0})
    check([final, dh0, dw, dx], [final, dh0, dw, dx], (*sizes, 3))
    assert ys.shape == (*sizes, 2, 3)
    again = pd.eval(targets, {x: np.ones((2, 2, 3)), h0: H0})
    assert [a.shape for a in again] == [(2, 3), (2, 2, 2, 3), (2, 3), (3, 3), (2, 2, 3)]


def test_examples_of_an_empty_batch():
    x = pd.Variable([None, 3])
    y = pd.vmap(lambda v: pd.cum_sum(v)[pd.arg_max(v)])(x)
    got = pd.eval([y, *pd.gradients(pd.reduce_sum(y), [x])], {x: np.zeros((0, 3))})
    assert [a.shape for a in got] == [(0,), (0, 3)]


def test_no_steps_of_values_at_hand():
    with pd.guard():
        for steps in (0, 2, 0):
            h0, x = pd.to_variable(H0), pd.to_variable(np.ones((steps, 2, 3), np.float32))
            h0.stop_gradient = False
            final, ys = pd.scan(lambda h, v: (pd.tanh(h + v), h), h0, x)
            pd.reduce_sum(final).backward()
            assert ys.shape == (steps, 2, 3)
            assert (final.numpy() == H0).all() == (h0.gradient() == 1).all() == (steps == 0)


@pytest.mark.parametrize("sizes", [(2, 0), (0, 2), (0, 0)], ids=str)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layers_of_no_steps(kind, sizes):
    layer, x = getattr(pd.nn, kind)(4), pd.Variable([None, None, 3])
    states = [pd.Variable([1, None, 4]) for _ in range(1 + (kind == "LSTM"))]
    y, final = layer(x, states if len(states) == 2 else states[0])
    cost = pd.reduce_sum(y) + sum(pd.reduce_sum(pd.sin(v)) for v in listed(final))
    slopes = pd.gradients(cost, [*states, x, *layer.parameters()])
    start = np.linspace(-1, 1, sizes[0] * 4, dtype=np.float32).reshape(1, sizes[0], 4)
    feeds = {x: np.ones((*sizes, 3)), **dict.fromkeys(states, start)}
    y, dx, *rest = pd.eval([y, slopes[len(states)], *listed(final), *slopes], feeds)
    count = len(states)
    assert y.shape == (*sizes, 4) and dx.shape == (*sizes, 3)
    if not sizes[1]:
        for end, slope in zip(rest[:count], rest[count : 2 * count], strict=True):
            np.testing.assert_array_equal(end, start)
            np.testing.assert_allclose(slope, np.cos(start), rtol=1e-6)
    assert not any(g.any() for g in rest[2 * count + 1 :])


def test_a_branch_only_for_an_unknown_number():
    for steps in (None, 2):
        _, _, targets = loop(one_state, [steps, 2])
        feeds = [v for v in program.feed_slots(targets) if v.is_feed]
        graph = for_device(program.build(targets, [], feeds, False, {}), CPU)
        found = [node.op_type for node in ancestors(graph.outputs)]
        assert found.count("If") == (2 if steps is None else 0)
        assert "Scan" not in found or steps
