"""Callbacks that call functions, keep the best parameters, or stop at NaN."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import CallEvery, Counter, Data, Runner, TrainStep, runner_of


def watched(costs, *items, batches=1):
    """Run passes of batches with these costs; return the context."""
    left = iter(costs)
    usual = [Counter(), Data([0] * batches), TrainStep(lambda x: next(left))]
    with runner_of([*usual, *items]) as runner:
        return runner.run(len(costs) // batches)


class Line(pd.nn.Module):
    """A column of weights."""

    def __init__(self):
        super().__init__("line")
        self.out = pd.nn.FC(1)

    def forward(self, x):
        return self.out(x)


# ---- functions


def test_a_function_is_called_after_each_pass():
    seen = []
    watched([3, 2, 1], lambda context: seen.append((context.pass_id, context.pass_metrics["cost"])))
    assert seen == [(0, 3.0), (1, 2.0), (2, 1.0)]


@pytest.mark.parametrize(
    "every, seen",
    [({"batches": 2}, [2, 4, 6]), ({"passes": 2}, [6]), ({}, [3, 6]), ({"batches": 4}, [4])],
)
def test_a_function_is_called_every_so_often(every, seen):
    found = []
    watched(range(6), CallEvery(lambda context: found.append(context.batches), **every), batches=3)
    assert found == seen


def test_a_function_stops_a_training():
    def enough(context):
        if context.cost < 2.5:
            context.stop()

    assert watched([3, 2, 1], enough).pass_id == 1


def test_a_function_of_fit_sees_the_validation():
    x, seen = np.ones((8, 2), np.float32), []
    history = Line().fit(
        x,
        x[:, :1],
        loss="mse",
        optimizer="adam",
        epochs=3,
        validation_split=0.5,
        callbacks=[lambda context: seen.append(context.test_metrics["cost"])],
    )
    assert seen == history["val_cost"]


def test_what_is_wrong_with_a_function():
    with pytest.raises(
        TypeError, match=r"add_item: a callback is called with \(context\); <lambda>"
    ):
        Runner().add_item(lambda: None)
    with pytest.raises(TypeError, match=r"CallEvery: the function is called with \(context\)"):
        CallEvery(lambda context, logs: None)
    with pytest.raises(ValueError, match="CallEvery: batches is a positive integer, not 0"):
        CallEvery(print, batches=0)
    step = TrainStep(lambda x: 0.0)
    with (
        pytest.raises(pd.GraphError, match="CallEvery: no item counts the batches"),
        runner_of([Data([0]), step, CallEvery(print, batches=1)]) as runner,
    ):
        runner.run_one_pass()
