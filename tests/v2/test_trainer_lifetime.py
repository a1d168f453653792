"""What is freed with a trainer: the slots of its optimizer, its compiled steps."""

import gc

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param

L, T = paddle.layer, paddle.data_type
optimizer = paddle.optimizer

OPTIMIZERS = {
    "adam": lambda: optimizer.Adam(learning_rate=0.01),
    "momentum": lambda: optimizer.Momentum(learning_rate=0.01, momentum=0.9),
    "average": lambda: optimizer.RMSProp(
        learning_rate=0.01, model_average=optimizer.ModelAverage(0.5, max_average_window=2)
    ),
    "rows": lambda: optimizer.AdaGrad(
        learning_rate=0.01, regularization=optimizer.L2Regularization(1e-3)
    ),
}


def network(rows):
    """A word -> its row [100] of a table -> a number; its cost."""
    word = L.data(name="word", type=T.integer_value(1000))
    target = L.data(name="t", type=T.dense_vector(1))
    row = L.embedding(input=word, size=100, param_attr=Param(sparse_update=rows))
    return L.square_error_cost(input=L.fc(input=row, size=1), label=target)


def batches():
    return iter([[(1, [1.0]), (4, [0.0])]] * 3)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_sweep_keeps_the_parameters_alone(kind):
    cost = network(rows=kind == "rows")
    pool, session = paddle.parameters.create(cost), pd.default_session()
    for _ in range(20 if kind == "adam" else 6):
        trainer = paddle.trainer.SGD(cost, pool, OPTIMIZERS[kind]())
        trainer.train(batches, event_handler=lambda event: None)
        trainer.test(batches)
    values = {name: pool[name] for name in pool}
    bound = set(pd.trainable_variables())
    assert len(session.values()) > len(bound) == 3
    del trainer
    gc.collect()
    assert set(session.values()) == bound == set(pd.persistent_variables())
    size = sum(array.nbytes for array in session.values().values())
    assert size == 4 * (1000 * 100 + 100 + 1)
    assert len(session.compiler.cache) == 0
    for name, value in values.items():
        np.testing.assert_array_equal(pool[name], value)
