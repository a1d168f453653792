"""Settings of 2017's optimizers that change during a training."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param
from pd_v2.optimizer import Adam, Momentum

from .test_optimizer import GRADIENTS, METHODS, rule_of

A, L, T = paddle.activation, paddle.layer, paddle.data_type


class Steps:
    """Steps of an optimizer for a parameter with a rate and a penalty of its own."""

    def __init__(self, optimizer):
        self.optimizer, self.session = optimizer, pd.default_session()
        self.w, self.step = rule_of(optimizer, None, multiplier=2.0, decay_rate_l1=0.01)

    def take(self, gradients):
        for gradient in gradients:
            self.step(gradient, self.optimizer.rate_at(0, 0))
        return self.w.val()


@pytest.mark.parametrize("name", METHODS)
def test_a_rate_that_is_set_counts_from_the_next_batch(name):
    make = METHODS[name][0]
    with pd.fresh() as session:
        run = Steps(make(learning_rate=0.1))
        run.take(GRADIENTS)
        state = session.state()
        unchanged = run.take(GRADIENTS)
        session.restore(state)
        run.optimizer.learning_rate = 0.01
        found = run.take(GRADIENTS)
        assert run.optimizer.proto().learning_rate == 0.01
    with pd.fresh() as session:
        twin = Steps(make(learning_rate=0.01))
        session.restore(state)
        np.testing.assert_allclose(twin.take(GRADIENTS), found, rtol=1e-6)
    assert not np.allclose(found, unchanged, rtol=1e-4)


class Line:
    """A trainer of the sum of x w, for batches of one sample whose gradient is 1."""

    def __init__(self, optimizer):
        x = L.data(name="x", type=T.dense_vector(1))
        y = L.fc(x, size=1, act=A.Linear(), bias_attr=False, param_attr=Param(name="w"))
        self.pool, self.optimizer = paddle.parameters.create(y), optimizer
        self.pool["w"] = np.zeros((1, 1))
        self.trainer = paddle.trainer.SGD(y, self.pool, optimizer)

    def train(self, rates):
        def handler(event):
            if isinstance(event, paddle.event.EndIteration):
                self.optimizer.learning_rate = rates[event.batch_id]

        self.trainer.train(lambda: iter([[(np.ones(1),)]] * len(rates)), event_handler=handler)
        return self.pool["w"].item()


def test_an_event_handler_sets_the_rate_of_the_next_batch():
    np.testing.assert_allclose(Line(Momentum(learning_rate=1.0)).train([0.5, 0.25, 9]), -1.75)


def test_other_settings_belong_to_the_step_of_a_trainer():
    adam = Adam(learning_rate=0.1)
    adam.beta1 = 0.5
    run = Line(adam)
    adam.epsilon = adam.epsilon
    with pytest.raises(AttributeError, match="Adam: beta1 is a part of a graph that was built"):
        adam.beta1 = 0.9
    assert run.train([0.1]) < 0
