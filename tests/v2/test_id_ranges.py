"""Labels: classes that there are count, not those that their data layer was declared with."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import topology

A, E, L, T = paddle.activation, paddle.evaluator, paddle.layer, paddle.data_type


def softmax(size=4):
    x = L.data(name="x", type=T.dense_vector(3))
    return L.fc(x, size=size, act=A.Softmax(), name="p", bias_attr=False)


def ids(size, name="label"):
    return L.data(name=name, type=T.integer_value(size))


def cost_of(cost, label):
    """The cost of one sample with probabilities of 1/4, by a trainer."""
    pool = paddle.parameters.create(cost)
    for name in pool.names():
        pool[name] = np.zeros_like(pool[name])
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
    return trainer.test(lambda: iter([[(np.ones(3), label)]])).cost


@pytest.mark.parametrize("declared", [1, 2, 3, 9])
def test_a_label_may_be_any_class(declared):
    cost = L.classification_cost(input=softmax(), label=ids(declared))
    assert cost_of(cost, 3) == pytest.approx(np.log(4), rel=1e-6)


@pytest.mark.parametrize("declared", [1, 2, 9])
@pytest.mark.parametrize("label", [4, -1])
def test_one_that_is_no_class_is_an_error(declared, label):
    cost = L.classification_cost(input=softmax(), label=ids(declared))
    with pytest.raises((ValueError, pd.OutOfRange), match=f"{label}"):
        cost_of(cost, label)


@pytest.mark.parametrize("make", [L.nce, L.hsigmoid])
def test_classes_of_sampled_costs(make):
    x = L.data(name="x", type=T.dense_vector(3))
    cost = make(x, ids(3), num_classes=5)
    assert np.isfinite(cost_of(cost, 4))
    with pytest.raises(ValueError, match="label"):
        cost_of(cost, 5)


def test_what_a_table_reads_as_well_is_as_it_was_declared():
    p = softmax()
    label = ids(3)
    p = L.fc([p, L.embedding(label, 2)], size=4, act=A.Softmax())
    with pytest.raises(ValueError, match="expected an integer from 0 to 2"):
        cost_of(L.classification_cost(input=p, label=label), 3)


def test_what_another_metric_reads_is_as_it_was_declared():
    p, label = softmax(), ids(3)
    cost = L.classification_cost(input=p, label=label)
    E.sum(label)
    with pytest.raises(ValueError, match="expected an integer from 0 to 2"):
        cost_of(cost, 3)


def test_labels_in_the_step_of_a_group():
    x = L.data(name="x", type=T.dense_vector_sequence(3))
    label = L.data(name="label", type=T.integer_value_sequence(2))

    def step(row, wanted):
        p = L.fc(row, size=4, act=A.Softmax(), name="p")
        return L.classification_cost(input=p, label=wanted)

    cost = L.recurrent_group(step=step, input=[x, label])
    pool = paddle.parameters.create(cost)
    for name in pool.names():
        pool[name] = np.zeros_like(pool[name])
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
    found = trainer.test(lambda: iter([[(np.ones((2, 3)), [1, 3])]])).cost
    assert found == pytest.approx(2 * np.log(4), rel=1e-6)


def test_ranges_are_found_once_for_a_trainer(monkeypatch):
    """Programs of 2017 train on one batch at a time, in many calls of train()."""
    found, calls = topology.id_ranges, []
    monkeypatch.setattr(topology, "id_ranges", lambda config: calls.append(0) or found(config))
    cost = L.classification_cost(input=softmax(), label=ids(4))
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Momentum())
    for _ in range(3):
        trainer.train(lambda: iter([[(np.ones(3), 1)]]))
    assert len(calls) == 1
    with pytest.raises((ValueError, pd.OutOfRange), match="4"):
        trainer.train(lambda: iter([[(np.ones(3), 4)]]))
