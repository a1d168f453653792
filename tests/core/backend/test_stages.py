"""The stages of a step: what is computed before and after an exchange, and in which divisions."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.base import Seam
from pd_core.backend.program import build_step, leaves
from pd_core.backend.stages import stages
from pd_core.graph.node import ancestors

f32 = np.float32


def network(layers=4):
    x, y = pd.Variable([8, 6]), pd.Variable([8, 1])
    h = x
    for _ in range(layers):
        h = pd.relu(pd.layer.batch_norm(pd.fc(h, 6)))
    cost = pd.reduce_mean(pd.square(pd.fc(h, 1) - y))
    return x, y, cost, pd.MomentumOptimizer(0.05, 0.9).minimize(cost)


def divided(divisions):
    x, y, cost, update = network()
    changes = [(a.variable, a.value) for a in update.assignments]
    seam = Seam(tuple(g for _, g in update.gradients), divisions)
    graph, seam = build_step([cost], changes, seam, [x, y], True, {})
    return stages(graph, seam), seam


def test_only_gradients_are_handed_over_the_exchange():
    """Those of batch normalization are used in the backward pass too, before the exchange."""
    (first, second), seam = divided(1)
    assert sorted(slot for slot, _ in first.hands) == list(range(len(seam)))
    assert second.exchanged and not second.divided
    after = {node.op_type for node in ancestors(second.graph.outputs)}
    assert after <= {"Mul", "Add", "Sub", "Neg", "Constant"}


def test_divisions_compute_parts_of_the_gradients():
    parts, seam = divided(3)
    *computing, last = parts
    assert [p.exchanged for p in parts] == [False, False, False, True]
    assert [p.divided for p in parts] == [False, True, True, False]
    known = [{slot for slot, _ in p.hands if slot < len(seam)} for p in computing]
    assert all(known) and set.union(*known) == set(range(len(seam)))
    assert sum(map(len, known)) == len(seam)
    # from the last layer to the first
    assert min(known[0]) > max(known[2])
    operators = [len(ancestors([v for _, v in p.hands])) for p in computing]
    assert min(operators) > 3
    assert last.graph.updates


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_divisions_take_the_same_step(device):
    class Halves:
        """Doubles gradients, in two calls."""

        divisions = 2

        def __init__(self):
            self.early = []

        def start(self, gradients):
            self.early.append({w: np.array(g) for w, g in gradients.items()})

        def __call__(self, gradients):
            for w, g in self.early[-1].items():
                np.testing.assert_array_equal(gradients[w], g)
            return {w: 2.0 * g for w, g in gradients.items()}

    trained = []
    for exchange in (Halves(), lambda gradients: {w: 2.0 * g for w, g in gradients.items()}):
        with pd.fresh(device=device) as session:
            x, y, _, update = network()
            rng = np.random.default_rng(0)
            with session.exchanging(exchange):
                for _ in range(3):
                    feeds = {x: rng.standard_normal((8, 6)), y: rng.standard_normal((8, 1))}
                    session.eval(update, {v: a.astype(f32) for v, a in feeds.items()})
            trained.append([session.get(w) for w in pd.trainable_variables()])
        if isinstance(exchange, Halves):
            assert len(exchange.early) == 3 and all(exchange.early)
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_the_index_of_rows_that_are_written_is_not_handed_on():
    """The stage that writes has the views of what is fed; the values alone are handed on."""
    ids = pd.Variable([None, 3], dtype="int64")
    table = pd.Variable("table", data=np.zeros((9, 1), np.float32), row_sparse=True)
    loss = pd.reduce_mean(pd.square(pd.reduce_sum(pd.gather(table, ids), [1, 2]) - 1.0))
    update = pd.SGDOptimizer(1.0).minimize(loss)
    changes = [(a.variable, a.value) for a in update.assignments]
    graph, _ = build_step([loss], changes, Seam((), 1), [ids], True, {})
    first, second = stages(graph)
    assert second.in_place and len(first.hands) == 1
    (write,) = [n for n in ancestors(second.graph.outputs) if n.op_type == "ScatterElements"]
    _, index, values = write.inputs
    assert graph.feeds[0] in leaves([index])
    assert second.inputs[0][1] in leaves([values])
    (whole,) = stages(graph, writes_wait=True)
    assert whole.graph is graph and whole.waits and whole.in_place == second.updated
